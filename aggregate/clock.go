package aggregate

import (
	"github.com/warpline/warpline/aggregate/state"
)

// Clock says how a session's own clocks are to be read.
type Clock struct {
	// offset is added to activity times of an AMD device, which count from when its host was started: 0 until the first one was folded.
	Offset int64
	// sampleMS is how often an older client's sampler said it would take a sample.
	SampleMS uint32
}

// appendClock writes the clocks.
func (s *Session) appendClock(w *state.Writer) {
	w.I64(s.Clock.Offset)
	w.U64(uint64(s.Clock.SampleMS))
}

func (s *Session) readClock(r *state.Reader) {
	s.Clock = Clock{Offset: r.I64(), SampleMS: r.U32()}
	if s.Clock.Offset < 0 {
		r.Fail()
	}
}
