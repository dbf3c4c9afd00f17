package ingest

import (
	"fmt"
	"sync"
	"syscall"
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

// diskGuard refuses work before a volume is full: a real ENOSPC under JetStream's files stops a stream until the server restarts.
type diskGuard struct {
	dirs []string
	min  int64
	// refuse is Config.Refuse.
	refuse func() string

	mu      sync.Mutex
	checked time.Time
	low     string
}

// check returns "" or, in words, why nothing can be stored: JetStream cannot, or a volume is short of space. It asks the system at most
// once a second.
func (d *diskGuard) check() string {
	if d.refuse != nil {
		if why := d.refuse(); why != "" {
			return why
		}
	}
	if d.min <= 0 {
		return ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.checked) < time.Second {
		return d.low
	}
	d.checked, d.low = time.Now(), ""
	for _, dir := range d.dirs {
		var st syscall.Statfs_t
		if err := syscall.Statfs(dir, &st); err != nil {
			continue // a folder that vanished fails by itself and says so
		}
		if free := int64(st.Bavail) * int64(st.Bsize); free < d.min {
			d.low = fmt.Sprintf("the volume of %s has %d bytes free and must keep %d: free some space", dir, free, d.min)
			return d.low
		}
	}
	return ""
}
