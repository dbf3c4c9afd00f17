package aggregate

import (
	"time"

	"github.com/warpline/warpline/proto/stream"
)

// resnapshot notices that the store of snapshots was deleted and made anew: the log points to a snapshot that is gone, and a successor
// could not begin. The owner has the state, so it writes another one and a chunk that points to it.
type resnapshot struct {
	known, begun bool
	times        int // the store was made anew, as of the last look
	due          bool
}

// look is called often. It makes the next chunk due, and the one after the snapshot.
func (r *resnapshot) look(o *owner, now time.Time) {
	n := o.streams.Remade("OBJ_" + stream.StateObjects)
	if !r.known {
		r.known, r.times = true, n
	}
	if n != r.times {
		r.times, r.due, r.begun = n, true, false
	}
	if !r.due {
		return
	}
	if !r.begun {
		r.begun = true
		o.sinceChunks = max(o.sinceChunks, o.w.cfg.SnapshotChunks) // publish writes a snapshot after the next chunk
	} else if o.sinceChunks < o.w.cfg.SnapshotChunks {
		r.due = false // it is written: the next chunk points to it
	} else {
		return
	}
	if o.opened.IsZero() {
		o.opened = now
	}
}
