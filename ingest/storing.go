package ingest

import (
	"sync"
	"time"
)

// storing remembers whether uploads can be stored, from what became of them: a stream that cannot store anything can look well when asked
// for its state. The zero value is ready.
type storing struct {
	mu          sync.Mutex
	since, last time.Time // failures since the last upload that was stored
	words       string
}

const (
	// storingGrace is how long uploads may fail before the gateway is not ready: an election or a restart of NATS takes less.
	storingGrace = 10 * time.Second
	// storingStale is how long a failure counts when no upload comes that could go well.
	storingStale = 30 * time.Second
)

func (s *storing) ok() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = time.Time{}
}

// failed notes a failure that is not the fault of one tenant.
func (s *storing) failed(reason, words string) {
	switch reason {
	case "full", "no_responders", "disconnected", "timeout", "other":
	default:
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.since.IsZero() || now.Sub(s.last) > storingStale {
		s.since = now
	}
	s.last, s.words = now, words
}

// trouble says why uploads are not stored, "" while they are.
func (s *storing) trouble() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() || time.Since(s.last) > storingStale || time.Since(s.since) < storingGrace {
		return ""
	}
	return "uploads cannot be stored since " + s.since.UTC().Format(time.TimeOnly) + ": " + s.words
}
