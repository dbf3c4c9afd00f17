package ingest

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/warpline/warpline/ingest/shares"
	"github.com/warpline/warpline/proto/stream"
)

// holdings is what workers tell of what tenants have with them. The zero value is ready. It is safe for concurrent use.
type holdings struct {
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

// heard takes over a message.
func (h *holdings) heard(data []byte, now time.Time) error {
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
func (h *holdings) forget(now time.Time) {
	for worker, of := range h.by {
		if now.Sub(of.at) > toldFor {
			delete(h.by, worker)
		}
	}
}

// shares returns what tenants have with workers, nothing while no worker tells it. A tenant may have of ROWS and of the record of names
// what the others leave; of a worker's memory for names too, and at least as much as each of its tenants when it is full.
func (h *holdings) shares(now time.Time) func(tenant string) []shares.Share {
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
	return func(tenant string) (out []shares.Share) {
		var rows, record int64
		names := shares.Share{}
		for i := range all {
			of := all[i].Tenants[tenant]
			rows, record = rows+of.Rows, record+of.Record
			if own, f := of.Names, all[i].Names; f.Max > 0 {
				least := float64(f.Max) / float64(max(all[i].NameTenants, 1))
				s := shares.Share{Tenant: tenant, Of: shares.Names, Used: float64(own), Limit: max(left(f, own), least)}
				if names.Limit == 0 || s.Used/s.Limit > names.Used/names.Limit {
					names = s
				}
			}
		}
		if newest.Rows.Max > 0 {
			out = append(out, shares.Share{Tenant: tenant, Of: shares.Rows, Used: float64(rows), Limit: left(newest.Rows, rows)})
		}
		if newest.Record.Max > 0 {
			out = append(out, shares.Share{Tenant: tenant, Of: shares.NameRecord, Used: float64(record), Limit: left(newest.Record, record)})
		}
		if names.Limit > 0 {
			out = append(out, names)
		}
		return out
	}
}

// listenToWorkers takes over what workers tell until ctx ends.
func (g *Gateway) listenToWorkers(ctx context.Context) {
	sub, err := g.streams.Conn.Subscribe(stream.HoldingSubject, func(m *nats.Msg) {
		now := time.Now()
		if err := g.holdings.heard(m.Data, now); err != nil {
			if ok, held := g.quiet.say("holding", now); ok {
				g.cfg.Logger.Warn("what a worker tells of tenants' shares cannot be read, so the metrics do not have it: give all roles one "+
					"version of warpline", "err", err, "alike_since_last_line", held)
			}
		}
	})
	if err != nil {
		g.cfg.Logger.Error("the metrics do not have what tenants have with workers", "err", err)
		return
	}
	defer sub.Unsubscribe()
	<-ctx.Done()
}
