package aggregate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

// Where snapshots are, and what happens when there is no room for one. The log is complete without a new one: a successor reads the chunks
// since the last snapshot. But ROWS cannot be purged beyond that, so a snapshot that fails is tried again, and what is to be written is
// made smaller.

const (
	// stateShare is the share of the store that the snapshots of all partitions may fill, a third: an old snapshot stays until a chunk
	// points to the new one.
	stateShare = 3
	// snapshotPause is how long a snapshot that failed is not tried again: the whole state is written for each.
	snapshotPause = 5 * time.Second
)

// quietChunks is how many times Config.SnapshotChunks a large state may wait while its chunks are small.
const quietChunks = 16

// snapshotDue reports whether a successor would have to read too much since the last snapshot. A state of a MiB and more is not written
// again for a few small chunks. ROWS keeps all chunks since the snapshot, so their bytes have the same bound whatever the state is.
func (o *owner) snapshotDue() bool {
	cfg := &o.w.cfg
	enough := min(o.stateBytes>>20<<20, cfg.SnapshotBytes/8)
	return o.snapshotNow || o.sinceBytes >= cfg.SnapshotBytes ||
		o.sinceChunks >= cfg.SnapshotChunks && (o.sinceBytes >= enough || o.sinceChunks >= quietChunks*cfg.SnapshotChunks)
}

// storeSnapshot stores a snapshot in WL_STATE, or, when that is full, in WL_CHUNKS: once a chunk points to it the one before is deleted and
// there is room again.
func (o *owner) storeSnapshot(ctx context.Context, meta jetstream.ObjectMeta, state []byte) error {
	_, err := o.streams.State.Put(ctx, meta, bytes.NewReader(state))
	if err != nil && broker.IsFull(err) {
		o.w.metrics.retries.WithLabelValues("state_full").Inc()
		// The store may have taken the description and refused some of the bytes: an object without its bytes must not be found.
		if gone := broker.DeleteObject(ctx, o.streams.JS, o.streams.State, meta.Name); gone != nil && !errors.Is(gone,
			jetstream.ErrObjectNotFound) {
			o.log.Debug("delete what a full store took of a snapshot", "snapshot", meta.Name, "err", gone)
		}
		_, other := o.streams.Chunks.Put(ctx, meta, bytes.NewReader(state))
		if other != nil {
			err = fmt.Errorf("no room for a snapshot of %d bytes in WL_STATE (%w) nor in WL_CHUNKS (%w): raise --store-max, or free the disk",
				len(state), err, other)
		} else {
			err = nil
		}
	}
	o.settleSnapshot(ctx, len(state), err)
	return err
}

// snapshotBytes reads a snapshot from where it is. It is in WL_CHUNKS only when WL_STATE refused it; half of it may be in WL_STATE then.
func (o *owner) snapshotBytes(ctx context.Context, name string) ([]byte, error) {
	if state, err := o.streams.Chunks.GetBytes(ctx, name); err == nil {
		return state, nil
	} else if !errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil, err
	}
	return o.streams.State.GetBytes(ctx, name)
}

// deleteSnapshot deletes a snapshot to which no chunk points any more.
func (o *owner) deleteSnapshot(ctx context.Context, name string) error {
	other := o.deleteChunk(ctx, name) // it is there only when WL_STATE had no room
	err := broker.DeleteObject(ctx, o.streams.JS, o.streams.State, name)
	if other == nil && errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil
	}
	return err
}

// deleteChunk deletes an object of a chunk.
func (o *owner) deleteChunk(ctx context.Context, name string) error {
	return broker.DeleteObject(ctx, o.streams.JS, o.streams.Chunks, name)
}

// deletePart deletes the object of a part.
func (o *owner) deletePart(ctx context.Context, name string) error {
	return broker.DeleteObject(ctx, o.streams.JS, o.streams.Parts, name)
}

// settleSnapshot notes how large the state is, or why it could not be stored, and forgets sessions when there are more than there is room
// for.
func (o *owner) settleSnapshot(ctx context.Context, size int, err error) {
	o.w.metrics.stateBytes.Add(float64(size - o.stateBytes))
	o.stateBytes = size
	o.nextSnapshot = time.Time{}
	why := ""
	if err != nil {
		o.nextSnapshot = time.Now().Add(snapshotPause)
		why = err.Error()
	}
	o.w.setStatus(o.partition, func(st *PartitionStatus) {
		if why != "" && st.SnapshotError == "" {
			o.log.Warn("a snapshot of the state cannot be stored; ROWS is kept until one can", "err", why)
		}
		st.SnapshotError = why
	})
	budget := o.stateBudget(ctx)
	if err != nil && broker.IsFull(err) {
		budget = min(budget, size/2)
	}
	if size > budget {
		if n := o.fold.forgetTo(size, budget*8/10, time.Now().UnixNano()); n > 0 {
			o.w.metrics.forgottenEarly.Add(float64(n))
			o.log.Warn("the state is larger than its share of WL_STATE; the longest silent sessions are forgotten before their time", "bytes", size,
				"share", budget, "sessions", n)
		}
	}
}

// stateBudget is how large a partition's snapshot may be.
func (o *owner) stateBudget(ctx context.Context) int {
	look, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	status, err := o.streams.State.Status(look)
	if err != nil {
		return 1 << 62
	}
	bucket, ok := status.(*jetstream.ObjectBucketStatus)
	if !ok || bucket.StreamInfo().Config.MaxBytes <= 0 {
		return 1 << 62
	}
	return int(bucket.StreamInfo().Config.MaxBytes) / (stateShare * o.streams.Partitions)
}

// stateCost estimates what a session takes in a snapshot.
func (s *Session) stateCost() int {
	n := 300 + len(s.Key.ID) + 3*len(s.unresolved) + s.parts.Size(true)
	if s.aged != nil {
		n += s.aged.Size(true)
	}
	for _, st := range s.states {
		if st != nil {
			n += st.Size(true)
		}
	}
	return n
}

// forgetTo forgets sessions that have nothing to write until the state is about want bytes large, and returns how many: first those of
// tenants that have more than their share, and of these the longest silent.
func (f *Fold) forgetTo(size, want int, now int64) int {
	type candidate struct {
		s     *Session
		cost  int
		heavy bool
	}
	tenants, total := map[string]int{}, 1
	var all []candidate
	for _, s := range f.Sessions {
		cost := s.stateCost()
		tenants[s.Key.Tenant] += cost
		total += cost
		load := s.load()
		if !s.touched && s.heldSince == 0 && !load.Waits && !load.Alone && !load.Unsaid {
			all = append(all, candidate{s: s, cost: cost})
		}
	}
	for i := range all {
		all[i].heavy = tenants[all[i].s.Key.Tenant]*len(tenants) >= total
	}
	slices.SortFunc(all, func(a, b candidate) int {
		if a.heavy != b.heavy {
			if a.heavy {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.s.LastReceivedAt, b.s.LastReceivedAt)
	})
	n := 0
	scale := float64(size) / float64(total) // compression, and what the estimate does not see
	for left := float64(size - want); n < len(all) && left > 0; n++ {
		left -= float64(all[n].cost) * scale
		f.forget(all[n].s, now)
	}
	return n
}

// countSessions updates the gauges of what this owner holds.
func (o *owner) countSessions(n int) {
	o.w.metrics.sessions.Add(float64(n - o.sessions))
	o.sessions = n
}

// leaveGauges subtracts what this owner holds from them.
func (o *owner) leaveGauges() {
	o.countSessions(0)
	o.w.metrics.stateBytes.Add(float64(-o.stateBytes))
	o.fold.releaseAll()
}

// resnapshot notices that the store of snapshots was deleted and made anew: the log points to a snapshot that is gone, and a successor
// could not begin. The owner has the state, so it writes another one and a chunk that points to it.
type resnapshot struct {
	known, begun bool
	times        int // the store was made anew, as of the last look
	due          bool
}

// look is called often. When the store was made anew it makes the next chunk due, and the one after the snapshot.
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
		o.snapshotNow = true // publish writes one after the next chunk
	} else if !o.snapshotNow {
		r.due = false // it is written: the next chunk points to it
	} else {
		return
	}
	if o.opened.IsZero() {
		o.opened = now
	}
}
