package aggregate

import "strings"

// clock is what a session's own clocks are to us.
type clock struct {
	// offset is added to activity times of an AMD device, which count from when its host was started: 0 until the first one was folded.
	offset int64
	// sampleMS is how often an older client's sampler said it would take a sample.
	sampleMS uint32
}

// activityTime returns when an activity began in Unix time. AMD's profiler counts in a clock of its own; of such a session the first
// activity that is folded is taken to have begun when its part was received, and all others as far from it as their clock says: they
// land in real buckets, with the right distances. Other sessions' times, and those of a vendor not known yet, are left as they are.
func (f *folder) activityTime(s *session, p *part, ns int64) int64 {
	if ns >= plausibleEpoch || !strings.EqualFold(s.vendor, "AMD") || p.env.ReceivedAt < plausibleEpoch {
		return ns
	}
	if ns == 0 {
		return p.env.ReceivedAt // no time at all: it must not decide what the others mean
	}
	if s.clock.offset == 0 {
		s.clock.offset = p.env.ReceivedAt - ns
	}
	return ns + s.clock.offset
}

// appendClock writes the clocks.
func (s *session) appendClock(w *writer) {
	w.i64(s.clock.offset)
	w.u64(uint64(s.clock.sampleMS))
}

func (s *session) readClock(r *reader) {
	s.clock = clock{offset: r.i64(), sampleMS: r.u32()}
	if s.clock.offset < 0 {
		r.fail()
	}
}
