package aggregate

import (
	"cmp"
	"slices"
)

// expire gives up on halves that have waited long enough, closes sessions that have ended, and drops the state of sessions that
// nobody has heard of for Config.Forget. now is the owner's clock in nanoseconds. What it emits is part of the open chunk like any
// fold, so two owners that expire at different times never both count.
func (f *folder) expire(now int64) {
	f.releaseHeld(now)
	for _, s := range sortedSessions(f.waitingSessions) {
		f.expireWaiting(s, now)
		if s.waiting.live == 0 && s.unwritten == 0 {
			delete(f.waitingSessions, s) // early details that are written wait for nothing but their kernel
		}
	}
	f.expireScopes(now)
	for _, s := range sortedSessions(f.closing) {
		if now-s.lastReceivedAt >= int64(f.cfg.DetailWait) {
			if s.scopes.pending() && f.awaitNames(s) {
				continue
			}
			f.finalize(s)
			delete(f.closing, s)
		}
	}
}

// expireIdle looks at every session; the owner calls it now and then.
func (f *folder) expireIdle(now int64) {
	f.forgetSilent(now)
	f.forgetDeletions(now)
	for _, s := range f.sessions {
		idle := now - s.lastReceivedAt
		if idle >= int64(f.cfg.IdleAfter) && s.scopes.pending() && !f.awaitNames(s) {
			f.finalize(s)
		}
		if idle >= int64(f.cfg.DropNames) && !s.touched && s.heldSince == 0 && s.waiting.live == 0 && !s.scopes.pending() { // names, slots: rebuilt when the session speaks again
			f.dropNames(s)
			s.parts.shorten()
			s.lines.shorten()
			s.singles.shorten()
			s.details.RunOptimize()
		}
	}
}

func (f *folder) expireWaiting(s *session, now int64) {
	raw, all := now-int64(f.cfg.RawWait), now-int64(f.cfg.DetailWait)
	if s.waiting.live > 0 && s.waiting.rows[s.waiting.first()].heldAt <= raw {
		s.waiting.each(func(k *kernelRow) {
			switch {
			case k.heldAt <= all:
				f.giveUp(s, k)
			case k.heldAt <= raw && !k.emitted:
				e := f.kernelEmitterAt(s, k.receivedAt, k.retentionDays, s.noRaw)
				e.joined(k, 0)
				k.emitted = true
				s.waiting.dirty = true
				f.touch(s)
			}
		})
	}
	if s.unwritten > 0 {
		f.expireEarly(s, all)
	}
}

// expireEarly writes details that have waited since before limit. They stay known, in case their kernel comes yet.
func (f *folder) expireEarly(s *session, limit int64) {
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

// finalize closes a session: whatever waits for its other half goes out alone.
func (f *folder) finalize(s *session) {
	s.waiting.each(func(k *kernelRow) { f.giveUp(s, k) })
	f.expireEarly(s, 1<<62)
	if len(s.early) > 0 {
		s.early, s.unwritten, s.earlyDirty = nil, 0, true
	}
	f.closeScopes(s)
	delete(f.waitingSessions, s)
	f.touch(s)
}

// sortedSessions gives a stable order, so that one state emits one sequence of rows.
func sortedSessions(m map[*session]struct{}) []*session {
	if len(m) == 0 {
		return nil
	}
	out := make([]*session, 0, len(m))
	for s := range m {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *session) int {
		return cmp.Or(cmp.Compare(a.key.tenant, b.key.tenant), cmp.Compare(a.key.id, b.key.id))
	})
	return out
}
