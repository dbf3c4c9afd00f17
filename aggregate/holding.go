package aggregate

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

// holding is what tenants have of what workers share, for the metrics: of ROWS what this worker published and ClickHouse does not have, of
// WL_DICTIONARIES the names that it stored. It is counted as it is published, so nothing is ever looked through for it; what a worker that
// has ended had published is not counted. It is safe for concurrent use.
type holding struct {
	mu      sync.Mutex
	waiting map[int][]heldChunks              // by partition, in order of numbers
	stored  map[int64]map[string]int64        // by hour, bytes of names
	fills   struct{ rows, names stream.Fill } // of ROWS and of WL_DICTIONARIES
}

// heldChunks is chunks of a partition up to a number.
type heldChunks struct {
	upTo  uint64
	bytes int64
	by    map[string]int64 // bytes by tenant
}

const (
	// While more than manyHeldChunks notes are held for a partition, chunks share one of up to heldGrain bytes.
	manyHeldChunks = 64
	heldGrain      = 1 << 20
	// nameEntryTakes is about what an entry takes in the bucket beside its key and value.
	nameEntryTakes = 96
	tellHoldingAt  = 2 * time.Second
)

func newHolding() *holding {
	return &holding{waiting: map[int][]heldChunks{}, stored: map[int64]map[string]int64{}}
}

// published notes a chunk. Its bytes are shared out by rows.
func (h *holding) published(partition int, number uint64, size int64, rows map[string]uint64) {
	all := uint64(0)
	for _, n := range rows {
		all += n
	}
	if all == 0 {
		return
	}
	by := make(map[string]int64, len(rows))
	for tenant, n := range rows {
		by[tenant] = int64(float64(size) * float64(n) / float64(all))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.waiting[partition]
	if n := len(list); n > manyHeldChunks && list[n-1].bytes < heldGrain {
		last := &list[n-1]
		last.upTo, last.bytes = number, last.bytes+size
		for tenant, bytes := range by {
			last.by[tenant] += bytes
		}
		return
	}
	h.waiting[partition] = append(list, heldChunks{number, size, by})
}

// inserted notes up to which chunk a partition is in ClickHouse.
func (h *holding) inserted(partition int, upTo uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.waiting[partition]
	n := 0
	for n < len(list) && list[n].upTo <= upTo {
		n++
	}
	if n == len(list) {
		delete(h.waiting, partition)
	} else {
		h.waiting[partition] = slices.Delete(list, 0, n)
	}
}

// named notes an entry of names that was stored.
func (h *holding) named(tenant string, bytes int, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	hour := now.Unix() / 3600
	if h.stored[hour] == nil {
		h.stored[hour] = map[string]int64{}
	}
	h.stored[hour][tenant] += int64(bytes) + nameEntryTakes
}

// looked takes note of how full ROWS and WL_DICTIONARIES are, and from when the oldest names are that are there.
func (h *holding) looked(rows, names stream.Fill, oldest time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fills.rows, h.fills.names = rows, names
	if names.Used == 0 {
		clear(h.stored)
	}
	maps.DeleteFunc(h.stored, func(hour int64, _ map[string]int64) bool { return (hour+1)*3600 <= oldest.Unix() })
}

// tell returns what is told to gateways.
func (h *holding) tell(worker string, names *nameBudget) stream.Holding {
	out := stream.Holding{Worker: worker, Tenants: map[string]stream.Held{}}
	add := func(tenant string, rows, names, record int64) {
		of := out.Tenants[tenant]
		out.Tenants[tenant] = stream.Held{Rows: of.Rows + rows, Names: of.Names + names, Record: of.Record + record}
	}
	h.mu.Lock()
	out.Rows, out.Record = h.fills.rows, h.fills.names
	for _, list := range h.waiting {
		for i := range list {
			for tenant, n := range list[i].by {
				add(tenant, n, 0, 0)
			}
		}
	}
	for _, by := range h.stored {
		for tenant, n := range by {
			add(tenant, 0, 0, n)
		}
	}
	h.mu.Unlock()
	names.mu.Lock()
	out.Names, out.NameTenants = stream.Fill{Used: int64(max(names.used, 0)), Max: int64(names.limit)}, len(names.tenants)
	for tenant, n := range names.tenants {
		add(tenant, 0, int64(max(n, 0)), 0)
	}
	names.mu.Unlock()
	delete(out.Tenants, "")
	if over := len(out.Tenants) - stream.HoldingTenants; over > 0 {
		least := slices.SortedFunc(maps.Keys(out.Tenants), func(a, b string) int {
			x, y := out.Tenants[a], out.Tenants[b]
			return cmp.Compare(max(x.Rows, x.Names, x.Record), max(y.Rows, y.Names, y.Record))
		})
		for _, tenant := range least[:over] {
			delete(out.Tenants, tenant)
		}
	}
	return out
}

// tellHolding tells gateways what tenants have, until ctx ends.
func (w *Worker) tellHolding(ctx context.Context) {
	self := broker.NewID()
	tick := time.NewTicker(tellHoldingAt)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		w.lookAtStores(ctx)
		body, err := json.Marshal(w.holding.tell(self, w.names))
		if err == nil && w.streams.Conn.IsConnected() {
			_ = w.streams.Conn.Publish(stream.HoldingSubject, body) // the next one comes soon
		}
	}
}

func (w *Worker) lookAtStores(ctx context.Context) {
	ask, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	rows, err := w.streams.Rows.Info(ask)
	if err != nil {
		return
	}
	names, err := w.streams.JS.Stream(ask, "KV_"+stream.DictionariesBucket)
	if err != nil {
		return
	}
	fill := func(info *jetstream.StreamInfo) stream.Fill {
		return stream.Fill{Used: int64(info.State.Bytes), Max: max(info.Config.MaxBytes, 0)}
	}
	w.holding.looked(fill(rows), fill(names.CachedInfo()), names.CachedInfo().State.FirstTime)
}

// watchInserted follows the sinks' marks until ctx ends.
func (w *Worker) watchInserted(ctx context.Context) {
	broker.FollowInserted(ctx, w.streams.Marks, w.cfg.Logger, func(partition int, at stream.Inserted) {
		w.holding.inserted(partition, at.Chunk)
	})
}
