package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// soakWatch asks a service how it is.
type soakWatch struct {
	svc *Service
	nc  *nats.Conn
	js  jetstream.JetStream
}

func newSoakWatch(ctx context.Context, svc *Service) (*soakWatch, error) {
	nc, err := nats.Connect(svc.NATS)
	if err != nil {
		return nil, fmt.Errorf("the service's NATS: %w", err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("the service's NATS: %w", err)
	}
	return &soakWatch{svc, nc, js}, nil
}

func (w *soakWatch) close() { w.nc.Close() }

// visible waits until SQL counts so many kernels of the load.
func (w *soakWatch) visible(ctx context.Context, kernels int64) error {
	list := []want{{"kernels", "SELECT count() FROM kernels_data WHERE tenant = 'dev'", []int64{kernels}}}
	return wait(ctx, w.svc, list, map[string]int64{}, func(int64) {})
}

// look fills in what is seen from outside.
func (w *soakWatch) look(ctx context.Context, m *SoakMinute) (err error) {
	parts, err := w.svc.Write.numbers(ctx, "SELECT count(), sum(bytes_on_disk) FROM system.parts WHERE active AND database = 'warpline'")
	if err != nil {
		return err
	}
	m.DataParts, m.StoredBytes = parts[0], parts[1]
	m.Stores, err = w.stores(ctx)
	if err != nil {
		return err
	}
	m.Worker, err = w.kept(ctx)
	return err
}

// stores lists every stream and bucket.
func (w *soakWatch) stores(ctx context.Context) (all []SoakStore, err error) {
	list := w.js.ListStreams(ctx)
	for info := range list.Info() {
		all = append(all, SoakStore{info.Config.Name, int64(info.State.Msgs), int64(info.State.Bytes), max(0, info.Config.MaxBytes)})
	}
	if err := list.Err(); err != nil {
		return nil, fmt.Errorf("list the streams: %w", err)
	}
	slices.SortFunc(all, func(a, b SoakStore) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// kept reads the worker's metrics.
func (w *soakWatch) kept(ctx context.Context) (k Kept, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.svc.URL+"/metrics", nil)
	if err != nil {
		return k, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return k, fmt.Errorf("metrics: %w", err)
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return k, fmt.Errorf("metrics: %w", err)
	}
	sum := func(name string) (n int64) {
		for _, m := range families[name].GetMetric() {
			n += int64(m.GetGauge().GetValue())
		}
		return n
	}
	return Kept{sum("warpline_worker_sessions"), sum("go_memstats_heap_inuse_bytes"), sum("warpline_worker_names_bytes"),
		sum("warpline_worker_state_bytes")}, nil
}

// smallTenant sends a small window now and then, with a key of its own, and looks when SQL counts it.
type smallTenant struct {
	cancel context.CancelFunc
	done   chan error

	mu    sync.Mutex
	times []time.Duration // since the last seen
}

// smallEvery and smallKernels are what it sends: one batch of Columnar.
const (
	smallEvery   = 5 * time.Second
	smallKernels = 512
)

func startSmallTenant(ctx context.Context, svc *Service, o SoakOptions) (*smallTenant, error) {
	key, err := svc.newKey(ctx, "small")
	if err != nil {
		return nil, err
	}
	cfg := Config{Workload: Columnar, Sessions: 1, Seed: o.Config.Seed + 1, Run: "small", WindowRows: smallKernels}
	cfg.Kernels = smallKernels * (int(o.For/smallEvery) + 12)
	d, err := Options{Config: cfg, Dir: o.Dir, Progress: o.Progress}.generate(ctx, cfg, "generate for a small tenant")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	t := &smallTenant{cancel: cancel, done: make(chan error, 1)}
	go func() {
		err := t.send(ctx, svc, key, d)
		if errors.Is(err, context.Canceled) {
			err = nil
		}
		t.done <- err
	}()
	return t, nil
}

func (t *smallTenant) send(ctx context.Context, svc *Service, key string, d *Data) error {
	sender := &sender{url: svc.URL, key: key}
	sender.connect()
	defer sender.close()
	session := &d.Sessions[0]
	query := fmt.Sprintf("SELECT count() FROM kernels_data WHERE tenant = 'small' AND session_id = '%s'", session.ID)
	var sent int64
	for i := range session.Windows[device] {
		began := time.Now()
		w := &session.Windows[device][i]
		if err := sender.window(ctx, w); err != nil {
			return err
		}
		acked := time.Now()
		sent += w.Kernels
		for {
			got, err := svc.Read.numbers(ctx, query)
			if err != nil {
				return err
			}
			if got[0] >= sent {
				break
			}
			if time.Since(acked) > stuckAfter {
				return fmt.Errorf("the small tenant's rows are not in SQL after %v", stuckAfter)
			}
			if err := pause(ctx, latencyPoll); err != nil {
				return err
			}
		}
		t.mu.Lock()
		t.times = append(t.times, time.Since(acked))
		t.mu.Unlock()
		if err := pause(ctx, time.Until(began.Add(smallEvery))); err != nil {
			return err
		}
	}
	return nil
}

// seen is how long windows took since it was asked last.
func (t *smallTenant) seen() (p50, longest time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.Sort(t.times)
	p50, longest = rank(t.times, 0.5), rank(t.times, 1)
	t.times = t.times[:0]
	return p50, longest
}

// stop ends it and returns what went wrong.
func (t *smallTenant) stop() error {
	t.cancel()
	if err := <-t.done; err != nil {
		return fmt.Errorf("small tenant: %w", err)
	}
	return nil
}
