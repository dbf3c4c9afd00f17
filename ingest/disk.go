package ingest

import (
	"fmt"
	"sync"
	"syscall"
	"time"
)

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
