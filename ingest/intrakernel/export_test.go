package intrakernel

import "github.com/warpline/warpline/ingest"

// Busy is a Source at which a large capture is read that never ends.
func Busy() ingest.Source {
	d := &desk{working: make(chan struct{}, 1), sending: make(chan struct{})}
	d.working <- struct{}{}
	return source(d)
}
