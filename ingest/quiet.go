package ingest

import (
	"sync"
	"time"
)

// quiet lets one line a code through every interval: while NATS is away every agent asks every five seconds, and a thousand equal
// warnings hide the one that matters. What it holds back is counted, and the metrics count everything. Safe for concurrent use.
type quiet struct {
	mu       sync.Mutex
	interval time.Duration
	codes    map[string]*silence // the codes are a closed list, some of them a tenant's
}

type silence struct {
	until time.Time
	held  int
}

// say reports whether to write a line about code now, and how many were held back since the last.
func (q *quiet) say(code string, now time.Time) (ok bool, held int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.codes == nil {
		q.codes = map[string]*silence{}
	}
	s := q.codes[code]
	if s == nil {
		s = &silence{}
		q.codes[code] = s
	}
	if now.Before(s.until) {
		s.held++
		return false, 0
	}
	held = s.held
	s.until, s.held = now.Add(q.interval), 0
	return true, held
}
