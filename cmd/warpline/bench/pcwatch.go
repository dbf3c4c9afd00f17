package bench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// pcProbes is how many nodes of a fleet are watched: asking for all would cost what is measured.
const pcProbes = 20

// pcWatch dates when the batches of some nodes become visible.
type pcWatch struct {
	mu      sync.Mutex
	waiting map[int][]pending // by node, in order
	sent    map[int]int64
	seen    []time.Duration
	ended   chan struct{}
	query   string
}

// newPCWatch watches nothing unless on.
func newPCWatch(d *pcData, on bool) *pcWatch {
	w := &pcWatch{waiting: map[int][]pending{}, sent: map[int]int64{}, ended: make(chan struct{})}
	if !on {
		return w
	}
	var ids []string
	for i := range min(pcProbes, len(d.nodes)) {
		node := i * len(d.nodes) / min(pcProbes, len(d.nodes))
		w.sent[node] = 0
		for _, s := range pcSessions(node) {
			ids = append(ids, "'"+s+"'")
		}
	}
	w.query = "SELECT substring(session_id, 16, 4), sum(hits) FROM pc_buckets_data WHERE tenant = 'dev' AND session_id IN (" +
		strings.Join(ids, ",") + ") GROUP BY 1"
	return w
}

// acked is told that a batch has its answer.
func (w *pcWatch) acked(node int, rows int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n, ok := w.sent[node]; ok {
		w.sent[node] = n + rows
		w.waiting[node] = append(w.waiting[node], pending{upTo: n + rows, at: time.Now()})
	}
}

// run asks until stop. What cannot be asked is asked again.
func (w *pcWatch) run(ctx context.Context, sql SQL) {
	if w.query == "" {
		return
	}
	for {
		if rows, err := sql.rows(ctx, w.query); err == nil {
			now := time.Now()
			for _, r := range rows {
				node, err1 := strconv.Atoi(r[0])
				n, err2 := strconv.ParseInt(r[1], 10, 64)
				if err1 == nil && err2 == nil {
					w.visible(node, n, now)
				}
			}
		}
		select {
		case <-w.ended:
			return
		case <-ctx.Done():
			return
		case <-time.After(pollEvery):
		}
	}
}

func (w *pcWatch) visible(node int, rows int64, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for q := w.waiting[node]; len(q) > 0 && q[0].upTo <= rows; q = w.waiting[node] {
		w.seen = append(w.seen, max(0, now.Sub(q[0].at)))
		w.waiting[node] = q[1:]
	}
}

// stop ends run after the last batch has become visible.
func (w *pcWatch) stop() { close(w.ended) }

func (w *pcWatch) percentiles() (n int, p50, p99, most time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.seen) == 0 {
		return 0, 0, 0, 0
	}
	slices.Sort(w.seen)
	at := func(share float64) time.Duration { return w.seen[min(len(w.seen)-1, int(share*float64(len(w.seen))))] }
	return len(w.seen), at(0.5), at(0.99), w.seen[len(w.seen)-1]
}

// Figures are the rows of the table. Floors and goals are for two shared cores with everything on them.
func (r *PCResult) Figures() []Figure {
	var f []Figure
	if r.Rate > 0 {
		name := fmt.Sprintf("%d agents, %s pairs/s: answered to visible, p99", r.Nodes, rate(r.Rate))
		f = append(f, Figure{name, r.Visible99.Seconds(), "s", 5, 1, true})
	} else {
		floor := map[int]float64{500: 250e3, 5000: 500e3}[r.BatchRows]
		f = append(f, Figure{fmt.Sprintf("pairs in batches of %d, end to end", r.BatchRows), r.PairsPerSecond, "rows/s", floor, 3e6, false})
	}
	if r.Buckets > 0 {
		f = append(f, Figure{"bytes at rest per bucket (pc_buckets_data)", float64(r.BucketBytes) / float64(r.Buckets), "B", 0, 0, true})
		f = append(f, Figure{"bytes at rest per bucket (all tables)", float64(r.RestBytes) / float64(r.Buckets), "B", 0, 0, true})
	}
	if r.Load != nil {
		f = append(f, Figure{"memory of up, peak (engine included)", float64(r.Load.PeakBytes), "B", 1300 * mb, 1000 * mb, true})
	}
	return f
}
