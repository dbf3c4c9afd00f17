package aggregate

// clock is what a session's own clocks are to us.
type clock struct {
	// offset is added to activity times of an AMD device, which count from when its host was started: 0 until the first one was folded.
	offset int64
	// sampleMS is how often an older client's sampler said it would take a sample.
	sampleMS uint32
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
