package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/proto/stream"
)

// Window is a replay window: how far back a stream has what is settled, parts that were folded and chunks that were inserted. It is as long
// as was promised, unless it was cut because the stream had no room.
type Window struct {
	Stream string `json:"-"`
	// Part is the partition of INGEST, or the lane of ROWS, that was cut last.
	Part   int       `json:"-"`
	Since  time.Time `json:"since"`    // what was settled later is still there
	Target float64   `json:"target_s"` // what was promised, in seconds
	// Accepted says that a person has read it: the audit does not name this cut any more.
	Accepted bool `json:"accepted,omitempty"`
}

// Length is how far back it goes.
func (w Window) Length(now time.Time) time.Duration {
	return max(min(now.Sub(w.Since), w.Promised()), 0)
}

// Promised is how far back it should go.
func (w Window) Promised() time.Duration { return time.Duration(w.Target * float64(time.Second)) }

// Short reports whether it is shorter than was promised.
func (w Window) Short(now time.Time) bool { return w.Length(now) < w.Promised() }

// Broken reports whether less than half of what was promised is there: then the audit is wrong and the doctor looks, as the alert does.
func (w Window) Broken(now time.Time) bool { return w.Length(now) < w.Promised()/2 }

// Words say how long it is, and what to do where it is short.
func (w Window) Words(now time.Time) (found, fix string) {
	if !w.Short(now) {
		return fmt.Sprintf("%s has what is settled of the last %v", w.Stream, w.Promised()), ""
	}
	found = fmt.Sprintf("%s has what was settled in the last %v, not in the last %v: it was cut at %s", w.Stream,
		w.Length(now).Round(time.Second), w.Promised(), w.Since.UTC().Format(time.DateTime))
	if w.Stream == stream.RowsStream {
		return found, "rows of before cannot be replayed; a quarter of ROWS is for the replay window: raise --rows-max, or see why rows waited " +
			"for ClickHouse"
	}
	return found, "parts of before cannot be folded again; folded ones go while INGEST is more than half full: raise --ingest-max, or add " +
		"workers"
}

// windowPrefix begins the keys of windows that were cut, in the bucket of marks.
const windowPrefix = "window."

func windowKey(of string, part int) string { return windowPrefix + of + "." + strconv.Itoa(part) }

// recordCuts is how far a record of a cut may be behind: while a stream stays full it is cut every few seconds.
const recordCuts = 10 * time.Second

// Windows are the replay windows of the partitions or lanes of one stream that a process owns. Their cuts are stored, so that the next
// owner knows of them. Make it with NewWindows. It is safe for concurrent use.
type Windows struct {
	kv     jetstream.KeyValue
	stream string
	target time.Duration

	mu   sync.Mutex
	cuts map[int]cut // by partition or lane, of those that are owned
}

type cut struct{ at, stored time.Time }

// NewWindows returns the windows of a stream, each promised to be so long, with their metrics: role is worker or sink.
func NewWindows(kv jetstream.KeyValue, of string, target time.Duration, role string, reg prometheus.Registerer) *Windows {
	w := &Windows{kv: kv, stream: of, target: target, cuts: map[int]cut{}}
	gauge := func(name, help string, value func() time.Duration) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "warpline", Subsystem: role, Name: name, Help: help},
			func() float64 { return value().Seconds() })
	}
	if reg != nil {
		reg.MustRegister(
			gauge("replay_window_seconds", "How far back "+of+" has what is settled, of the partitions of this process, at the least.",
				func() time.Duration { return w.Shortest(time.Now()) }),
			gauge("replay_target_seconds", "How far back "+of+" shall have what is settled, where there is room.",
				func() time.Duration { return target }))
	}
	return w
}

// Own takes over what is stored of a partition or lane.
func (w *Windows) Own(ctx context.Context, part int) error {
	c := cut{}
	e, err := w.kv.Get(ctx, windowKey(w.stream, part))
	if err == nil {
		var stored Window
		if err = json.Unmarshal(e.Value(), &stored); err == nil {
			c = cut{stored.Since, stored.Since}
		}
	}
	w.mu.Lock()
	if was, owned := w.cuts[part]; !owned || c.at.After(was.at) {
		w.cuts[part] = c
	}
	w.mu.Unlock()
	if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
		return fmt.Errorf("read how far back %s can be replayed: %w", w.stream, err)
	}
	return nil
}

// Leave forgets a partition or lane that has another owner now.
func (w *Windows) Leave(part int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.cuts, part)
}

// Cut notes that what was settled until then is gone before its time.
func (w *Windows) Cut(ctx context.Context, part int, until time.Time) error {
	if w.target <= 0 {
		return nil // nothing is promised
	}
	w.mu.Lock()
	c := w.cuts[part]
	if until.After(c.at) {
		c.at = until
	}
	tell := c.at.Sub(c.stored) >= recordCuts
	if tell {
		c.stored = c.at
	}
	w.cuts[part] = c
	w.mu.Unlock()
	if !tell {
		return nil
	}
	body, err := json.Marshal(Window{Since: c.at.UTC(), Target: w.target.Seconds()})
	if err == nil {
		_, err = w.kv.Put(ctx, windowKey(w.stream, part), body)
	}
	if err != nil {
		w.mu.Lock()
		if c, owned := w.cuts[part]; owned {
			c.stored = time.Time{} // with the next cut
			w.cuts[part] = c
		}
		w.mu.Unlock()
		return fmt.Errorf("store how far back %s can be replayed: %w", w.stream, err)
	}
	return nil
}

// Shortest is the shortest of the windows.
func (w *Windows) Shortest(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	shortest := w.target
	for _, c := range w.cuts {
		shortest = min(shortest, Window{Since: c.at, Target: w.target.Seconds()}.Length(now))
	}
	return shortest
}

// acceptWindows notes that a person has read which windows were cut. One that is cut again meanwhile is told again.
func acceptWindows(ctx context.Context, kv jetstream.KeyValue) error {
	keys, err := findingKeys(ctx, kv, windowPrefix)
	if err != nil {
		return err
	}
	for _, key := range keys {
		e, err := kv.Get(ctx, key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("accept that a replay window was cut: %w", err)
		}
		var w Window
		if json.Unmarshal(e.Value(), &w) != nil || w.Accepted {
			continue
		}
		w.Accepted = true
		body, err := json.Marshal(w)
		if err == nil {
			_, err = kv.Update(ctx, key, body, e.Revision())
		}
		if err != nil && !IsWrongSequence(err) {
			return fmt.Errorf("accept that a replay window was cut: %w", err)
		}
	}
	return nil
}

// ReadWindows returns the shortest window of each stream that was ever cut. One that cannot be read is left out.
func ReadWindows(ctx context.Context, kv jetstream.KeyValue) ([]Window, error) {
	keys, err := findingKeys(ctx, kv, windowPrefix)
	if err != nil {
		return nil, fmt.Errorf("read how far back streams can be replayed: %w", err)
	}
	shortest := map[string]Window{}
	for _, key := range keys {
		e, err := kv.Get(ctx, key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read how far back streams can be replayed: %w", err)
		}
		of, part, _ := strings.Cut(strings.TrimPrefix(key, windowPrefix), ".")
		w := Window{Stream: of}
		if w.Part, err = strconv.Atoi(part); err != nil || json.Unmarshal(e.Value(), &w) != nil {
			continue
		}
		if have, ok := shortest[of]; !ok || w.Since.After(have.Since) {
			shortest[of] = w
		}
	}
	return slices.SortedFunc(maps.Values(shortest), func(a, b Window) int { return strings.Compare(a.Stream, b.Stream) }), nil
}
