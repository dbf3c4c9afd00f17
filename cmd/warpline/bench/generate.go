package bench

import (
	"context"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Data is what Generate made. Sessions are in order; each has its windows by channel, in order of sequence.
type Data struct {
	Config   Config // with defaults filled in
	Sessions []Session
	Counts   Counts
}

// Session is one generated session.
type Session struct {
	ID      string
	Windows [len(Channels)][]Window // by place in Channels; a channel is never empty
	Counts  Counts
}

// Generate writes the windows of a workload into dir, on all cores. progress (nil allowed) is called from several goroutines with
// the kernels written so far. The caller removes dir, also after an error.
func Generate(ctx context.Context, cfg Config, dir string, progress func(kernels, of int64)) (*Data, error) {
	cfg, err := cfg.normal()
	if err != nil {
		return nil, err
	}
	d := &Data{Config: cfg, Sessions: make([]Session, cfg.Sessions)}
	list, launches := catalogue(cfg.Seed)
	var done atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range d.Sessions {
		g.Go(func() error {
			s := newSession(cfg, i, dir, list, launches)
			if err := s.generate(ctx, func(n int) {
				if sum := done.Add(int64(n)); progress != nil {
					progress(sum, int64(cfg.Kernels))
				}
			}); err != nil {
				return err
			}
			d.Sessions[i] = Session{ID: s.id, Counts: s.counts}
			for c := range s.channels {
				d.Sessions[i].Windows[c] = s.channels[c].done
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i := range d.Sessions {
		d.Counts.Add(d.Sessions[i].Counts)
	}
	return d, nil
}
