package tenant

import (
	"sync"
	"time"
)

const (
	// OtherSeries is the name that tenants without series of their own share in metrics. No tenant can be called so.
	OtherSeries = "(other)"
	// DefaultSeries is how many tenants have series of their own, where nothing else is said.
	DefaultSeries = 200
	// SeriesSilence is after how long without anything to count the series of a tenant end.
	SeriesSilence = time.Hour
)

// Series says which tenants have series of their own in metrics: the first so many that have something to count. It is safe for concurrent
// use. Make it with NewSeries.
type Series struct {
	mu   sync.Mutex
	most int
	seen map[string]time.Time
}

// NewSeries returns the series of nobody, for DefaultSeries tenants.
func NewSeries() *Series { return &Series{most: DefaultSeries, seen: map[string]time.Time{}} }

// Bound sets how many tenants may have series, if most is above zero. It is called before there are any.
func (s *Series) Bound(most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if most > 0 {
		s.most = most
	}
}

// Label is what a tenant that has something to count is called in metrics now. "" and OtherSeries are nobody's names, and stay.
func (s *Series) Label(name string, now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name == "" || name == OtherSeries {
		return name
	}
	if _, own := s.seen[name]; !own && len(s.seen) >= s.most {
		return OtherSeries
	}
	s.seen[name] = now
	return name
}

// Meet is Label for a tenant that has nothing to count yet. It reports whether the tenant has series: half of the room is for those who
// have something to count.
func (s *Series) Meet(name string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, own := s.seen[name]; own || name == "" || name == OtherSeries {
		return true
	}
	if len(s.seen) >= (s.most+1)/2 {
		return false
	}
	s.seen[name] = now
	return true
}

// Shown is what a tenant is called in metrics, whether or not it has something to count.
func (s *Series) Shown(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, own := s.seen[name]; own {
		return name
	}
	return OtherSeries
}

// Silent returns the tenants whose series end now. The caller removes the series.
func (s *Series) Silent(now time.Time) (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, at := range s.seen {
		if now.Sub(at) >= SeriesSilence {
			delete(s.seen, name)
			names = append(names, name)
		}
	}
	return names
}
