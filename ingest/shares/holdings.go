package shares

import (
	"sync"
	"time"

	"github.com/warpline/warpline/proto/stream"
)

// Holdings is what workers tell of what tenants have with them. The zero value is ready. It is safe for concurrent use.
type Holdings struct {
	mu sync.Mutex
	by map[string]told // by worker
}

// told is what a worker told last.
type told struct {
	stream.Holding
	at time.Time
}

const (
	// toldFor is how long what a worker told counts: it tells every two seconds.
	toldFor = 15 * time.Second
	// mostWorkers is how many workers are listened to.
	mostWorkers = 4096
)

// Heard takes over a message.
func (h *Holdings) Heard(data []byte, now time.Time) error {
	of, err := stream.ParseHolding(data)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget(now)
	if h.by == nil {
		h.by = map[string]told{}
	}
	if _, known := h.by[of.Worker]; known || len(h.by) < mostWorkers {
		h.by[of.Worker] = told{of, now}
	}
	return nil
}

// forget drops workers that have ended. The caller holds the lock.
func (h *Holdings) forget(now time.Time) {
	for worker, of := range h.by {
		if now.Sub(of.at) > toldFor {
			delete(h.by, worker)
		}
	}
}

// Shares returns what tenants have with workers, nothing while no worker tells it. A tenant may have of ROWS and of the record of names
// what the others leave; of a worker's memory for names too, and at least as much as each of its tenants when it is full.
func (h *Holdings) Shares(now time.Time) func(tenant string) []Share {
	h.mu.Lock()
	h.forget(now)
	all, newest := make([]told, 0, len(h.by)), told{}
	for _, of := range h.by {
		if all = append(all, of); of.at.After(newest.at) {
			newest = of
		}
	}
	h.mu.Unlock()
	left := func(f stream.Fill, own int64) float64 { return float64(max(f.Max-max(f.Used-own, 0), 1)) }
	return func(tenant string) (out []Share) {
		var rows, record int64
		names := Share{}
		for i := range all {
			of := all[i].Tenants[tenant]
			rows, record = rows+of.Rows, record+of.Record
			if own, f := of.Names, all[i].Names; f.Max > 0 {
				least := float64(f.Max) / float64(max(all[i].NameTenants, 1))
				s := Share{Tenant: tenant, Of: Names, Used: float64(own), Limit: max(left(f, own), least)}
				if names.Limit == 0 || s.Used/s.Limit > names.Used/names.Limit {
					names = s
				}
			}
		}
		if newest.Rows.Max > 0 {
			out = append(out, Share{Tenant: tenant, Of: Rows, Used: float64(rows), Limit: left(newest.Rows, rows)})
		}
		if newest.Record.Max > 0 {
			out = append(out, Share{Tenant: tenant, Of: NameRecord, Used: float64(record), Limit: left(newest.Record, record)})
		}
		if names.Limit > 0 {
			out = append(out, names)
		}
		return out
	}
}
