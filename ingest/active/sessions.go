// Package active counts the sessions of tenants that are active at all gateways together, and has what gateways tell each other of them.
package active

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/warpline/warpline/ingest/peers"
)

const (
	// Silence is after how long without an upload a session is not active any more.
	Silence = 5 * time.Minute
	// Most is how many sessions of one tenant can be counted.
	Most = 1 << 16
	// mostOfAll bounds the sessions of all tenants that one gateway counts itself, some 10 MiB. Beyond it the tenant with most has the older
	// half of its sessions forgotten: they count anew when they come again.
	mostOfAll = 1 << 18
	// refresh is how often sessions that go on are told again, so that who begins later knows them.
	refresh = Silence / 5
)

// ID is a session of a tenant: the beginning of its hash.
type ID uint64

// times are sessions, with when each was last seen, in seconds since 1970.
type times map[ID]int64

// Sessions are the active sessions of tenants. Make it with New. It is safe for concurrent use.
type Sessions struct {
	most int // mostOfAll, less in tests

	mu  sync.Mutex
	by  map[string]*sessions
	own int // sessions that this gateway has seen, of all tenants
}

// sessions are those of one tenant. A session may be in several of own and told.
type sessions struct {
	own   times
	told  map[string]*told // by other gateway
	ended times            // here, while others had them
	over  times            // as others say
	n     int              // different ones in own and told

	changed bool // others are to be told
	tellAt  time.Time
	fresh   time.Time // when others were last told
}

// told is what another gateway said, and when.
type told struct {
	times
	at time.Time
}

// New returns no sessions.
func New() *Sessions { return &Sessions{most: mostOfAll, by: map[string]*sessions{}} }

func (s *Sessions) of(tenant string) *sessions {
	t := s.by[tenant]
	if t == nil {
		t = &sessions{own: times{}, told: map[string]*told{}, ended: times{}, over: times{}}
		s.by[tenant] = t
	}
	return t
}

// holders is in how many sets a session is.
func (t *sessions) holders(id ID) (n int) {
	if _, ok := t.own[id]; ok {
		n++
	}
	for _, told := range t.told {
		if _, ok := told.times[id]; ok {
			n++
		}
	}
	return n
}

// add puts a session into one of t's sets.
func (t *sessions) add(to times, id ID, at int64) {
	if _, there := to[id]; !there && t.holders(id) == 0 {
		t.n++
	}
	to[id] = max(to[id], at)
}

// remove takes a session out of one of t's sets.
func (t *sessions) remove(from times, id ID) {
	if _, there := from[id]; !there {
		return
	}
	if delete(from, id); t.holders(id) == 0 {
		t.n--
	}
}

// Active is how many sessions of a tenant are active.
func (s *Sessions) Active(tenant string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.by[tenant]; t != nil {
		return t.n
	}
	return 0
}

// May reports whether a session may have an upload while at most so many of its tenant are active, and how many are. A session that is
// active may.
func (s *Sessions) May(tenant string, id ID, most int) (active int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.by[tenant]
	if t == nil {
		return 0, true
	}
	return t.n, t.n < min(most, Most) || t.holders(id) > 0
}

// Begin is May, and makes the session active if it may.
func (s *Sessions) Begin(now time.Time, tenant string, id ID, most int) (active int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.of(tenant)
	if t.n >= min(most, Most) && t.holders(id) == 0 {
		return t.n, false
	}
	if _, known := t.own[id]; !known {
		if s.own >= s.most {
			s.forget()
		}
		s.own++
		t.changed = true
	}
	delete(t.ended, id)
	delete(t.over, id)
	t.add(t.own, id, now.Unix())
	return t.n, true
}

// End says that a session has ended.
func (s *Sessions) End(now time.Time, tenant string, id ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.by[tenant]
	if t == nil || t.holders(id) == 0 {
		return
	}
	s.drop(t, id)
	t.changed = true
	for _, told := range t.told {
		if _, there := told.times[id]; there {
			t.remove(told.times, id)
			if len(t.ended) < Most {
				t.ended[id] = now.Unix()
			}
		}
	}
}

// drop takes a session out of what this gateway has seen.
func (s *Sessions) drop(t *sessions, id ID) {
	if _, there := t.own[id]; there {
		t.remove(t.own, id)
		s.own--
	}
}

// forget makes room: the older half of the sessions of the tenant that has most here.
func (s *Sessions) forget() {
	var heaviest *sessions
	for _, t := range s.by {
		if heaviest == nil || len(t.own) > len(heaviest.own) {
			heaviest = t
		}
	}
	all := slices.Sorted(maps.Values(heaviest.own))
	middle, left := all[len(all)/2], len(all)-len(all)/2
	for id, at := range heaviest.own {
		if at <= middle && left > 0 {
			s.drop(heaviest, id)
			left--
		}
	}
	heaviest.changed = true
}

// Sweep implements peers.Told: it forgets sessions that are silent, and returns the sets of other gateways that are empty and were not told
// for as long.
func (s *Sessions) Sweep(now time.Time) (empty []peers.Set) {
	s.mu.Lock()
	names := slices.Collect(maps.Keys(s.by))
	s.mu.Unlock()
	old := now.Add(-Silence).Unix()
	for _, name := range names { // others go on between two tenants
		s.mu.Lock()
		if t := s.by[name]; t != nil {
			for id, at := range t.own {
				if at < old {
					s.drop(t, id)
					t.changed = true
				}
			}
			for _, of := range []times{t.ended, t.over} {
				maps.DeleteFunc(of, func(_ ID, at int64) bool { return at < old })
			}
			for gateway, told := range t.told {
				for id, at := range told.times {
					if at < old {
						t.remove(told.times, id)
					}
				}
				if len(told.times) == 0 && now.Sub(told.at) >= Silence {
					delete(t.told, gateway)
					empty = append(empty, peers.Set{Tenant: name, Gateway: gateway})
				}
			}
			if len(t.own)+len(t.ended)+len(t.over)+len(t.told) == 0 && !t.changed {
				delete(s.by, name)
			}
		}
		s.mu.Unlock()
	}
	return empty
}
