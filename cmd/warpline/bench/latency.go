package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Latency is how long it took from the gateway's answer until SQL counted a window's rows.
type Latency struct {
	Rate    float64 `json:"rate"` // kernel rows per second that were asked for
	Reached float64 `json:"reached"`
	Windows int     `json:"windows"`
	// Visible: from the 200 answer. Whole: from the start of the post. Polling adds up to latencyPoll to each.
	Visible50  time.Duration `json:"visible_p50_ns"`
	Visible99  time.Duration `json:"visible_p99_ns"`
	VisibleMax time.Duration `json:"visible_max_ns"`
	Whole50    time.Duration `json:"whole_p50_ns"`
	Whole99    time.Duration `json:"whole_p99_ns"`
	// Accepted: from the start of the post to the 200 answer, repeats included.
	Accepted50 time.Duration `json:"accepted_p50_ns"`
	Accepted99 time.Duration `json:"accepted_p99_ns"`
}

// latencyPoll is how often rows are counted.
const latencyPoll = 50 * time.Millisecond

// windowEvery is how often a session finishes a window in a latency run, like a client that rotates early to be seen early.
const windowEvery = 500 * time.Millisecond

// latencyConfig makes a run of about this long of many small windows.
func latencyConfig(c Config, rate float64, length time.Duration) Config {
	c.Kernels = max(c.Sessions, int(rate*length.Seconds()))
	c.WindowRows = max(1, int(rate/float64(c.Sessions)*windowEvery.Seconds()))
	c.Run += "/latency"
	return c
}

// watcher counts what is visible of each session and dates its windows.
type watcher struct {
	mu      sync.Mutex
	waiting map[string][]pending // by session, in order of sequence
	visible map[string]int64     // rows
	results []seenWindow
}

type pending struct {
	upTo      int64 // rows of the session up to this window's end
	began, at time.Time
}

type seenWindow struct{ visible, whole, accepted time.Duration }

// runLatency sends d at an even pace and measures.
func runLatency(ctx context.Context, svc *Service, d *Data, rate float64, progress func(done, of int64)) (*Latency, error) {
	l, _, err := sendLatency(ctx, svc, d, rate, progress)
	return l, err
}

// sendLatency is runLatency that also says what was answered, by status.
func sendLatency(ctx context.Context, svc *Service, d *Data, rate float64, progress func(done, of int64)) (*Latency, map[int]int, error) {
	return sendLatencyUntil(ctx, svc, d, rate, progress, nil)
}

// sendLatencyUntil is sendLatency that sends no more once enough is closed.
func sendLatencyUntil(ctx context.Context, svc *Service, d *Data, rate float64, progress func(done, of int64),
	enough <-chan struct{}) (*Latency, map[int]int, error) {
	w := &watcher{waiting: map[string][]pending{}, visible: map[string]int64{}}
	upTo := map[string]int64{}
	for _, s := range d.Sessions { // rows up to the end of each window: only the device channel has kernels
		var n int64
		for _, win := range s.Windows[device] {
			n += win.Kernels
			upTo[win.ID] = n
		}
	}
	sender := &sender{url: svc.URL, key: svc.Key, acked: func(win *Window, began, at time.Time) {
		if win.Kernels > 0 {
			w.mu.Lock()
			w.waiting[win.Session] = append(w.waiting[win.Session], pending{upTo[win.ID], began, at})
			w.mu.Unlock()
		}
	}}
	start := time.Now().Add(200 * time.Millisecond)
	// Sessions take turns, so that the load is even.
	sender.due = func(session int, win *Window) time.Time {
		turn := windowEvery * time.Duration(session) / time.Duration(len(d.Sessions))
		return start.Add(turn + windowEvery*time.Duration(win.Sequence-1))
	}
	sending, cancel := context.WithCancel(ctx)
	defer cancel()
	sent := make(chan error, 1)
	var lastAck time.Time
	go func() { err := sender.send(sending, d); lastAck = time.Now(); sent <- err }()
	done, cut, changed := false, false, time.Now()
	var seen int64
	for !done || w.left() > 0 {
		select {
		case err := <-sent:
			if err != nil && !cut {
				return nil, nil, err
			}
			done = true
		case <-enough:
			cut, enough = true, nil
			cancel()
		default:
		}
		if err := w.poll(ctx, svc.Read, d); err != nil {
			return nil, nil, err
		}
		if n := w.seen(); n != seen {
			seen, changed = n, time.Now()
			progress(n, d.Counts.Kernels)
		}
		if time.Since(changed) > stuckAfter {
			return nil, nil, fmt.Errorf("%d of %d rows are visible and nothing has changed for %v; the service's last words:\n%s", seen,
				d.Counts.Kernels, stuckAfter, svc.lastWords())
		}
		if err := svc.Died(); err != nil {
			return nil, nil, err
		}
		if err := pause(ctx, latencyPoll); err != nil {
			return nil, nil, err
		}
	}
	l := w.summary()
	l.Rate, l.Reached = rate, float64(w.seen())/lastAck.Sub(start).Seconds()
	return l, sender.answers, nil
}

// poll counts the rows of every session. A count over one session's range of the sort key is answered from the index, so this stays
// cheap however much the table holds.
func (w *watcher) poll(ctx context.Context, sql SQL, d *Data) error {
	var q strings.Builder
	q.WriteString("SELECT ")
	for i := range d.Sessions {
		if i > 0 {
			q.WriteString(", ")
		}
		fmt.Fprintf(&q, "(SELECT count() FROM kernels_data WHERE session_id = '%s')", d.Sessions[i].ID)
	}
	counts, err := sql.numbers(ctx, q.String())
	if err != nil {
		return err
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range d.Sessions {
		id := d.Sessions[i].ID
		w.visible[id] = counts[i]
		for len(w.waiting[id]) > 0 && w.waiting[id][0].upTo <= counts[i] {
			p := w.waiting[id][0]
			w.waiting[id] = w.waiting[id][1:]
			w.results = append(w.results, seenWindow{max(0, now.Sub(p.at)), now.Sub(p.began), p.at.Sub(p.began)})
		}
	}
	return nil
}

func (w *watcher) left() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.waiting {
		n += len(p)
	}
	return n
}

func (w *watcher) seen() (n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range w.visible {
		n += v
	}
	return n
}

func (w *watcher) summary() *Latency {
	var visible, whole, accepted []time.Duration
	for _, r := range w.results {
		visible, whole, accepted = append(visible, r.visible), append(whole, r.whole), append(accepted, r.accepted)
	}
	slices.Sort(visible)
	slices.Sort(whole)
	slices.Sort(accepted)
	return &Latency{Windows: len(w.results), Visible50: rank(visible, 0.5), Visible99: rank(visible, 0.99), VisibleMax: rank(visible, 1),
		Whole50: rank(whole, 0.5), Whole99: rank(whole, 0.99), Accepted50: rank(accepted, 0.5), Accepted99: rank(accepted, 0.99)}
}

// rank returns the nearest-rank percentile of sorted values, 0 if there are none.
func rank(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	i := int(q*float64(len(sorted))+0.9999999) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}
