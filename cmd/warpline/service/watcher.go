package service

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// watchEvery is how often a running role or stack is looked at.
const watchEvery = time.Second

// watcher turns what is wrong with a running role or stack into one line when it begins and one when it ends, a gauge, and readiness.
//
// The rule of readiness: a role is ready when what it is sent would be accepted and can flow to the next place where it is safe. For the
// gateway that is INGEST and a worker that folds it. So it is not ready while NATS is away or cannot store, the disk is low, a partition
// has no owner or its state cannot be taken, or a lane stands still until a person acts. It is ready, with a trouble, while something is
// away that comes back by itself and data waits safely before it: ClickHouse, a full stream.
type watcher struct {
	log   *slog.Logger
	gauge *prometheus.GaugeVec
	why   atomic.Pointer[string] // what data does not flow for, "" for nothing
}

// newWatcher registers its gauge with reg.
func newWatcher(log *slog.Logger, reg prometheus.Registerer) *watcher {
	w := &watcher{log: log, gauge: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "warpline", Name: "trouble",
		Help: "1 while what is so, which the log told as trouble; blocks=\"true\" where data does not flow and the role is not ready."},
		[]string{"what", "blocks"})}
	reg.MustRegister(w.gauge)
	for what := range blocking {
		w.gauge.WithLabelValues(what, "true")
	}
	return w
}

const (
	natsStuck = "NATS cannot store what it is given; the gateway answers 503"
	natsAway  = "NATS is not connected; the gateway answers 503"
	noOwner   = "no worker folds some of the partitions; what is accepted for them waits in NATS"
	notTakenT = "partitions cannot be taken over; what is accepted for them waits in NATS"
	standing  = "a lane of the sink stands still until a person acts; rows wait in NATS"
	strange   = "the state of a partition is not understood, and its uploads wait"
	gone      = "streams or buckets of NATS are gone and are being made anew"
	// dataDoesNotFlow begins what readiness says while a blocking trouble lasts.
	dataDoesNotFlow = "data does not flow: "
)

// blocking are the troubles with which a role is not ready.
var blocking = map[string]bool{natsStuck: true, natsAway: true, noOwner: true, notTakenT: true, standing: true, strange: true, gone: true}

// run looks every second until ctx ends.
func (w *watcher) run(ctx context.Context, look func(context.Context) map[string]string) {
	open := map[string]time.Time{}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := look(ctx)
		if ctx.Err() != nil {
			return
		}
		var stop []string
		for _, what := range slices.Sorted(maps.Keys(now)) {
			if blocking[what] {
				stop = append(stop, what+" ("+now[what]+")")
			}
			if _, known := open[what]; !known {
				open[what] = time.Now()
				w.log.Warn("trouble: "+what, "why", now[what])
				w.gauge.WithLabelValues(what, label(what)).Set(1)
			}
		}
		for what, since := range open {
			if _, still := now[what]; !still {
				w.log.Info("over: "+what, "after", time.Since(since).Round(100*time.Millisecond))
				w.gauge.WithLabelValues(what, label(what)).Set(0)
				delete(open, what)
			}
		}
		why := strings.Join(stop, "; ")
		w.why.Store(&why)
	}
}

func label(what string) string {
	if blocking[what] {
		return "true"
	}
	return "false"
}

// blocked says what data does not flow for, as of the last look, "" for nothing.
func (w *watcher) blocked() string {
	if why := w.why.Load(); why != nil && *why != "" {
		return dataDoesNotFlow + *why
	}
	return ""
}
