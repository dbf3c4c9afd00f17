package aggregate

import (
	"github.com/warpline/warpline/aggregate/state"
)

// clock is what a session's own clocks are to us.
type clock struct {
	// offset is added to activity times of an AMD device, which count from when its host was started: 0 until the first one was folded.
	offset int64
	// sampleMS is how often an older client's sampler said it would take a sample.
	sampleMS uint32
}

// appendClock writes the clocks.
func (s *Session) appendClock(w *state.Writer) {
	w.I64(s.clock.offset)
	w.U64(uint64(s.clock.sampleMS))
}

func (s *Session) readClock(r *state.Reader) {
	s.clock = clock{offset: r.I64(), sampleMS: r.U32()}
	if s.clock.offset < 0 {
		r.Fail()
	}
}
