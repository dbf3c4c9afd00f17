package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// SoakOptions say how long a service is loaded, and with what. The zero value is not valid: For and Config are required.
type SoakOptions struct {
	Config Config // Kernels is those of one session, Sessions is not used
	// For is how long sessions come; SessionsPerSecond how many.
	For               time.Duration
	SessionsPerSecond float64
	// Dir is for what sessions are made of. The caller removes it.
	Dir string
	// Minute is called with every minute when it is over; it may be nil.
	Minute func(*SoakMinute)
	// Progress is called with what is being done and how far it is; it may be nil.
	Progress func(phase string, done, of int64)
}

// Soak is what was seen of a service that was loaded for long. Sizes are bytes, durations nanoseconds in JSON.
type Soak struct {
	Workload          Workload      `json:"workload"`
	Machine           Machine       `json:"machine"`
	SessionsPerSecond float64       `json:"sessions_per_second"`
	KernelsPerSession int           `json:"kernels_per_session"`
	For               time.Duration `json:"for_ns"`
	Sessions          int64         `json:"sessions"`
	Kernels           int64         `json:"kernels"`
	Minutes           []SoakMinute  `json:"minutes"`
	// IdleAfter is the part of one core that the service used for a minute, a minute after the last session.
	IdleAfter float64     `json:"idle_after_cores"`
	Stores    []SoakStore `json:"stores"`
	Wrong     []string    `json:"wrong,omitempty"` // counts that differ from what was sent
}

// SoakMinute is one minute of it.
type SoakMinute struct {
	Minute   int   `json:"minute"` // from 1
	Sessions int64 `json:"sessions"`
	// Behind is how late the last burst began: above zero, the service does not hold the rate.
	Behind time.Duration `json:"behind_ns"`
	// BurstCPU is the mean CPU time of a burst, from its first post until SQL counted its rows and the engine rested; IdleCores the part of
	// one core that was used between bursts.
	BurstCPU    time.Duration `json:"burst_cpu_ns"`
	IdleCores   float64       `json:"idle_cores"`
	RolesBytes  int64         `json:"roles_bytes"` // resident, after the minute's last burst
	EngineBytes int64         `json:"engine_bytes"`
	Worker      Kept          `json:"worker"`
	DataParts   int64         `json:"data_parts"`   // of ClickHouse, active
	StoredBytes int64         `json:"stored_bytes"` // of ClickHouse
	Stores      []SoakStore   `json:"stores"`
	// Small is a tenant that sends one small window every few seconds: from the answer until SQL counts it.
	SmallP50 time.Duration `json:"small_visible_p50_ns"`
	SmallMax time.Duration `json:"small_visible_max_ns"`
}

// Kept is what the worker says that it holds.
type Kept struct {
	Sessions   int64 `json:"sessions"`
	HeapBytes  int64 `json:"heap_bytes"` // of the whole process
	NamesBytes int64 `json:"names_bytes"`
	StateBytes int64 `json:"state_bytes"`
}

// SoakStore is a stream or a bucket of NATS.
type SoakStore struct {
	Name     string `json:"name"`
	Messages int64  `json:"messages"`
	Bytes    int64  `json:"bytes"`
	MaxBytes int64  `json:"max_bytes"` // 0: no limit
}

// burstEvery is how often the sessions that are due are sent together, as fast as they are taken: between two bursts the service can be
// seen at rest.
const burstEvery = 10 * time.Second

// restAfter is left for merges and checkpoints after a burst is visible; what is used after that is idling.
const restAfter = time.Second

// soakSenders is how many sessions of a burst are on their way at once.
const soakSenders = 8

// RunSoak loads svc, which Start has started, and looks at it once a minute.
func RunSoak(ctx context.Context, svc *Service, o SoakOptions) (*Soak, error) {
	if svc.PID == 0 {
		return nil, errors.New("a soak needs a service of its own, on Linux")
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	made, err := newMould(ctx, o.Config, o.Dir, o.Progress)
	if err != nil {
		return nil, err
	}
	watch, err := newSoakWatch(ctx, svc)
	if err != nil {
		return nil, err
	}
	defer watch.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tenant, err := startSmallTenant(ctx, svc, o)
	if err != nil {
		return nil, err
	}
	s := &Soak{Workload: o.Config.Workload, Machine: thisMachine(), SessionsPerSecond: o.SessionsPerSecond, For: o.For,
		KernelsPerSession: o.Config.Kernels}
	run := &soakRun{svc: svc, o: o, made: made, watch: watch, tenant: tenant, out: s}
	if err := run.bursts(ctx); err != nil {
		return s, err
	}
	if err := tenant.stop(); err != nil {
		return s, err
	}
	return s, run.end(ctx)
}

// soakRun is a soak under way.
type soakRun struct {
	svc    *Service
	o      SoakOptions
	made   *mould
	watch  *soakWatch
	tenant *smallTenant
	out    *Soak

	minute   SoakMinute
	sent     int           // bursts of the minute
	idle     time.Duration // CPU between the bursts of the minute
	idleWall time.Duration
}

// bursts sends what is due every burstEvery.
func (r *soakRun) bursts(ctx context.Context) error {
	sender := &sender{url: r.svc.URL, key: r.svc.Key}
	sender.connect()
	defer sender.close()
	began := time.Now()
	r.minute.Minute = 1
	for n := 1; ; n++ {
		due := began.Add(time.Duration(n-1) * burstEvery)
		if due.Sub(began) >= r.o.For {
			break
		}
		if err := r.rest(ctx, due); err != nil {
			return err
		}
		r.minute.Behind = max(0, time.Since(due))
		upTo := int64(r.o.SessionsPerSecond * float64(n) * burstEvery.Seconds())
		if err := r.burst(ctx, sender, upTo); err != nil {
			return err
		}
		r.o.Progress("soak", int64(time.Since(began).Seconds()), int64(r.o.For.Seconds()))
		if n%int(time.Minute/burstEvery) == 0 {
			if err := r.endMinute(ctx); err != nil {
				return err
			}
		}
	}
	if r.sent > 0 {
		return r.endMinute(ctx)
	}
	return nil
}

// rest waits until a burst is due, and counts what the service uses meanwhile.
func (r *soakRun) rest(ctx context.Context, until time.Time) error {
	if time.Until(until) < 2*restAfter {
		return pause(ctx, time.Until(until))
	}
	if err := pause(ctx, restAfter); err != nil {
		return err
	}
	from, before := time.Now(), r.cpu()
	if err := pause(ctx, time.Until(until)); err != nil {
		return err
	}
	r.idle += r.cpu() - before
	r.idleWall += time.Since(from)
	return nil
}

func (r *soakRun) cpu() time.Duration {
	u, err := processUsage(r.svc.PID)
	if err != nil {
		return 0
	}
	return u.ownCPU + u.childCPU
}

// burst sends the sessions up to a number and waits until SQL counts them.
func (r *soakRun) burst(ctx context.Context, sender *sender, upTo int64) error {
	before := r.cpu()
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(soakSenders)
	for i := r.out.Sessions; i < upTo; i++ {
		g.Go(func() error {
			session, err := r.made.session(i)
			if err != nil {
				return err
			}
			return sender.session(inner, 0, session)
		})
		r.out.Kernels += r.made.counts(i).Kernels
		r.minute.Sessions++
	}
	r.out.Sessions = upTo
	if err := g.Wait(); err != nil {
		return err
	}
	if err := r.watch.visible(ctx, r.out.Kernels); err != nil {
		return err
	}
	if err := pause(ctx, restAfter); err != nil {
		return err
	}
	r.minute.BurstCPU += r.cpu() - before
	r.sent++
	return nil
}

// endMinute looks at everything and tells it.
func (r *soakRun) endMinute(ctx context.Context) error {
	m := &r.minute
	m.BurstCPU /= time.Duration(max(r.sent, 1))
	if r.idleWall > 0 {
		m.IdleCores = float64(r.idle) / float64(r.idleWall)
	}
	if u, err := processUsage(r.svc.PID); err == nil {
		m.RolesBytes, m.EngineBytes = u.ownBytes, u.childBytes
	}
	if err := r.watch.look(ctx, m); err != nil {
		return err
	}
	m.SmallP50, m.SmallMax = r.tenant.seen()
	r.out.Minutes = append(r.out.Minutes, *m)
	if r.o.Minute != nil {
		r.o.Minute(m)
	}
	r.minute = SoakMinute{Minute: m.Minute + 1}
	r.sent, r.idle, r.idleWall = 0, 0, 0
	return nil
}

// end waits a minute, measures how much an idle service takes for another, and counts everything.
func (r *soakRun) end(ctx context.Context) error {
	r.o.Progress("leave it alone for a minute, then measure it for one", 0, 0)
	if err := pause(ctx, time.Minute); err != nil {
		return err
	}
	from, before := time.Now(), r.cpu()
	if err := pause(ctx, time.Minute); err != nil {
		return err
	}
	r.out.IdleAfter = float64(r.cpu()-before) / float64(time.Since(from))
	stores, err := r.watch.stores(ctx)
	if err != nil {
		return err
	}
	r.out.Stores = stores
	for _, q := range []struct{ name, query string }{
		{"kernels", "SELECT count() FROM kernels_data WHERE tenant = 'dev'"},
		{"kernel_stats", "SELECT sum(calls) FROM kernel_stats_data WHERE tenant = 'dev'"},
		{"sessions", "SELECT sum(kernels) FROM sessions_data WHERE tenant = 'dev'"},
	} {
		w := want{q.name, q.query, []int64{r.out.Kernels}}
		got, equal, err := w.ask(ctx, r.svc.Read)
		if err != nil {
			return err
		}
		if !equal {
			r.out.Wrong = append(r.out.Wrong, fmt.Sprintf("%s: SQL counts %v, sent %v", w.name, got, w.numbers))
		}
	}
	return nil
}
