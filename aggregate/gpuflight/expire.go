package gpuflight

import "slices"

func (f *folding) expireWaiting(s *session, now int64) {
	raw, all := now-int64(f.Config.RawWait), now-int64(f.Config.DetailWait)
	if s.waiting.live > 0 && s.waiting.rows[s.waiting.first()].heldAt <= raw {
		s.waiting.each(func(k *kernelRow) {
			switch {
			case k.heldAt <= all:
				f.giveUp(s, k)
			case k.heldAt <= raw && !k.emitted:
				e := s.kernels.Emitter(k.receivedAt, k.retentionDays)
				e.Row(&k.Kernel, 0)
				k.emitted = true
				s.waiting.dirty = true
				f.Touch(s.Session)
			}
		})
	}
	if s.unwritten > 0 {
		f.expireEarly(s, all)
	}
}

// expireEarly writes details that have waited since before limit. They are still remembered, in case their kernel comes later.
func (f *folding) expireEarly(s *session, limit int64) {
	var due []uint32
	for corr, d := range s.early {
		if !d.written && d.heldAt <= limit {
			due = append(due, corr)
		}
	}
	slices.Sort(due)
	for _, corr := range due {
		f.writeEarly(s, corr)
	}
}

// Close makes rows of what waits for its other half.
func (s *session) Close() {
	f := s.f
	s.waiting.each(func(k *kernelRow) { f.giveUp(s, k) })
	f.expireEarly(s, 1<<62)
	if len(s.early) > 0 {
		s.early, s.unwritten, s.earlyDirty = nil, 0, true
	}
	f.closeScopes(s)
	delete(f.waitingSessions, s)
}
