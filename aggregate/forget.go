package aggregate

import (
	"cmp"
	"maps"
	"slices"
)

// A session that has been silent for long is forgotten: its state is dropped except for a tombstone, with which it goes on where it was,
// names and ids included, if it sends again.

// tombstone is what is kept of a forgotten session.
type tombstone struct {
	names                  int // dictionary entries it had; they are loaded again
	nextConfig, nextLaunch uint32
	at                     int64 // when it was forgotten, owner's clock
}

const (
	// maxSessions is how many sessions of a partition are kept in memory, some 2 KiB each when they do little; beyond it the longest silent
	// are forgotten before their time, of tenants that have more than their share. After that, resends that are older than the gateway's
	// record are not recognised, nor memory events that come again in another export.
	maxSessions = 32768
	// maxTombstones is how many tombstones a partition keeps, some 100 B each; the oldest are dropped first. A session that sends after
	// that has new ids and late names.
	maxTombstones = 1 << 17
)

// forget drops a session's state.
func (f *Fold) forget(s *Session, now int64) {
	f.abandon(s)
	if s.names > 0 || s.NextConfig > 0 || s.NextLaunch > 0 {
		f.tombstones[s.Key] = tombstone{s.names, s.NextConfig, s.NextLaunch, now}
	}
	f.removed = append(f.removed, s.Key)
}

// abandon removes a session from everything that could still write rows of it.
func (f *Fold) abandon(s *Session) {
	for _, st := range s.states {
		if st != nil {
			st.Drop()
		}
	}
	f.release(s)
	delete(f.Sessions, s.Key)
	delete(f.closing, s)
	delete(f.held, s)
}

// revive gives a session that is new to the fold what its tombstone kept.
func (f *Fold) revive(s *Session) {
	t, ok := f.tombstones[s.Key]
	if !ok {
		s.dictsLoaded = true // nothing to load: it is new
		return
	}
	delete(f.tombstones, s.Key)
	s.names, s.NextConfig, s.NextLaunch = t.names, t.nextConfig, t.nextLaunch
}

// forgetSilent forgets sessions silent for Config.Forget, and the longest silent ones of too many.
func (f *Fold) forgetSilent(now int64) {
	var silent []*Session
	for _, s := range f.Sessions {
		if s.touched || s.heldSince != 0 {
			continue // it has rows to write yet
		}
		load := s.load()
		if load.Waits {
			continue
		}
		if now-s.LastReceivedAt >= int64(f.Config.Forget)*int64(max(load.Keep, 1)) {
			if load.Unsaid {
				if f.AwaitNames(s) {
					continue
				}
				f.Close(s) // lone ends are counted before it goes
				continue
			}
			f.forget(s, now)
		} else if len(f.Sessions) > maxSessions {
			silent = append(silent, s)
		}
	}
	if over := len(f.Sessions) - maxSessions; over > 0 {
		slices.SortFunc(silent, func(a, b *Session) int { return cmp.Compare(a.LastReceivedAt, b.LastReceivedAt) })
		tenants := map[string]int{}
		for k := range f.Sessions {
			tenants[k.Tenant]++
		}
		share := FairShare(tenants, maxSessions)
		for _, s := range silent {
			if over == 0 {
				break
			}
			if tenants[s.Key.Tenant] <= share {
				continue
			}
			over--
			tenants[s.Key.Tenant]--
			load := s.load()
			if load.Unsaid && f.AwaitNames(s) {
				continue
			}
			if load.Alone || load.Unsaid {
				f.Close(s) // its last rows are in the next chunk, and it is forgotten the next time
			} else {
				f.forget(s, now)
			}
		}
	}
	if over := len(f.tombstones) - maxTombstones; over > 0 {
		keys := make([]SessionKey, 0, len(f.tombstones))
		for k := range f.tombstones {
			keys = append(keys, k)
		}
		slices.SortFunc(keys, func(a, b SessionKey) int { return cmp.Compare(f.tombstones[a].at, f.tombstones[b].at) })
		for _, k := range keys[:over] {
			delete(f.tombstones, k)
		}
	}
}

// FairShare is how much of room each tenant may have: what tenants with less leave free is for the others.
func FairShare(has map[string]int, room int) (share int) {
	counts := slices.Sorted(maps.Values(has))
	for i, n := range counts {
		share = room / (len(counts) - i)
		if n > share {
			return share
		}
		room -= n
	}
	return share
}
