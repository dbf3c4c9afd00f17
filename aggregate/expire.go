package aggregate

import (
	"slices"
)

// Expire gives up on halves that have waited long enough, closes sessions that have ended, and drops the state of sessions that have been
// silent for Config.Forget. now is the owner's clock in nanoseconds. What it writes is part of the open chunk like what a fold writes, so
// if two owners expire at different times, only one of them counts.
func (f *Fold) Expire(now int64) {
	f.releaseHeld(now)
	f.expireHalves(now)
}

func (f *Fold) expireHalves(now int64) {
	for i := range f.sources {
		f.sources[i].folding.Tick(now)
	}
	for _, s := range f.closed(now) {
		if s.load().Unsaid && f.AwaitNames(s) {
			continue
		}
		f.Close(s)
		delete(f.closing, s)
	}
}

// closed returns the sessions that have ended and whose late windows have had their time, in a stable order. It is called often, and mostly
// there are none.
func (f *Fold) closed(now int64) []*Session {
	var due map[*Session]struct{}
	for s := range f.closing {
		if now-s.LastReceivedAt >= int64(f.Config.DetailWait) {
			if due == nil {
				due = map[*Session]struct{}{}
			}
			due[s] = struct{}{}
		}
	}
	return SortedSessions(due)
}

// ExpireIdle looks at every session; the owner calls it now and then.
func (f *Fold) ExpireIdle(now int64) {
	f.forgetSilent(now)
	f.forgetDeletions(now)
	for _, s := range f.Sessions {
		idle := now - s.LastReceivedAt
		load := s.load()
		if idle >= int64(f.Config.IdleAfter) && load.Unsaid && !f.AwaitNames(s) {
			f.Close(s)
			continue // touched
		}
		// rebuilt when the session speaks again
		if idle >= f.restAfter(s) && !s.touched && s.heldSince == 0 && !load.Waits && !load.Unsaid {
			f.dropNames(s, true)
			s.parts.Shorten()
			if s.aged != nil {
				s.aged.Rest()
			}
		}
	}
}

// restAfter is how long a session is silent, in nanoseconds, before the memory is freed that can be filled again. One that has ended will
// hardly speak again.
func (f *Fold) restAfter(s *Session) int64 {
	if _, closing := f.closing[s]; (s.Completed || s.Shutdown) && !closing {
		return int64(min(f.Config.DetailWait, f.Config.DropNames))
	}
	return int64(f.Config.DropNames)
}

// Close closes a session: what still waits for its other half is written without it.
func (f *Fold) Close(s *Session) {
	for _, st := range s.states {
		if st != nil {
			st.Close()
		}
	}
	f.Touch(s)
}

// keyed is implemented by what has the key of a session.
type keyed interface {
	comparable
	sessionKey() SessionKey
}

func (s *Session) sessionKey() SessionKey { return s.Key }

// SortedSessions gives a stable order, so that the same state always gives the same sequence of rows.
func SortedSessions[S keyed](m map[S]struct{}) []S {
	if len(m) == 0 {
		return nil
	}
	out := make([]S, 0, len(m))
	for s := range m {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b S) int { return a.sessionKey().compare(b.sessionKey()) })
	return out
}
