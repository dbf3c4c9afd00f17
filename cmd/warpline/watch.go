package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sort"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/engine"
)

// nearlyFull is the part of a stream's room from which on a person should know.
const nearlyFull = 0.9

// engineWatch says once that the engine went down and once that it is back. It hears of every change, since an engine can be down
// and up again between two looks.
func engineWatch(log *slog.Logger) func(engine.State) {
	var down time.Time // only the supervisor's goroutine calls
	return func(st engine.State) {
		switch {
		case st.Phase == engine.Down && down.IsZero():
			down = time.Now()
			log.Warn("trouble: the ClickHouse engine is down and is being started again; rows wait in NATS", "why", firstLine(st.Err))
		case st.Phase == engine.Ready && !down.IsZero():
			log.Info("over: the ClickHouse engine answers again", "after", time.Since(down).Round(100*time.Millisecond), "pid", st.Pid)
			down = time.Time{}
		}
	}
}

// firstLine is the beginning of an error that quotes a log.
func firstLine(err error) string {
	if err == nil {
		return ""
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	line, _, _ = strings.Cut(line, " | ")
	if r := []rune(line); len(r) > 300 {
		line = string(r[:300]) + "…"
	}
	return line
}

// troubles returns what is wrong now: what, in words that stay the same while it lasts, and why.
func (s *stack) troubles(ctx context.Context) map[string]string {
	t := map[string]string{}
	if err := sinkTrouble(s.Sink); err != nil {
		t["rows do not reach ClickHouse and wait in NATS"] = err.Error()
	}
	if d := s.Sink.Status().Damage; d != "" {
		t["what NATS keeps on disk was damaged, and what it dropped may have been accepted: see warpline audit"] = d
	}
	if broken := s.Sink.Broken(); len(broken) > 0 {
		t["ClickHouse has set parts aside that it cannot read; their rows may be missing"] = fmt.Sprintf("%d parts, the first is %s; warpline audit tells what is missing", len(broken), broken[0])
	}
	if err := workerTrouble(s.Worker); err != nil {
		t["the worker does not get on"] = err.Error()
	}
	if err := lossTrouble(s.Worker); err != nil {
		t["NATS has lost data; what was folded is in ClickHouse, `warpline audit` says what may be missing"] = err.Error()
	}
	engineUnconfined(t, s.engine)
	stoodStill(t, s.Sink)
	notTaken(t, s.Worker)
	if n := s.Worker.Status().NotUnderstood; len(n) > 0 {
		t[strange] = fmt.Sprintf("partition %d: %s", n[0].Partition, n[0].Err)
	}
	if why := s.refuse(); why != "" {
		t[natsStuck] = why
		return t
	}
	if s.nc.Status() != nats.CONNECTED {
		t[natsAway] = s.nc.Status().String()
		return t
	}
	s.flow.look(ctx, t)
	storesGone(t, s.Streams)
	endsLost(t, s.Streams)
	bucketsFull(t, s.Streams)
	streamsFull(ctx, t, s.Streams)
	gatewayTakesNothing(ctx, t, s.Gateway)
	return t
}

// streamsFull adds the streams in which there is hardly room.
func streamsFull(ctx context.Context, t map[string]string, s *broker.Streams) {
	for _, st := range []struct {
		stream jetstream.Stream
		then   string
	}{{s.Ingest, "when it is full the gateway answers 503 and clients keep their data"}, {s.Rows, "when it is full the worker waits for the sink"}} {
		if full := fill(ctx, st.stream); full >= nearlyFull {
			t["stream "+st.stream.CachedInfo().Config.Name+" is nearly full; "+st.then] = fmt.Sprintf("%.0f %%; raise --store-max, or make room on the disk", 100*full)
		}
	}
}

// gatewayTakesNothing adds why the gateway is not ready, save for what the watcher itself told it.
func gatewayTakesNothing(ctx context.Context, t map[string]string, g *ingest.Gateway) {
	if why := gatewayTrouble(ctx, g); why != "" && !strings.HasPrefix(why, dataDoesNotFlow) {
		t["the gateway takes nothing"] = why
	}
}

// fill is the used part of a stream's room, 0 when nobody can tell.
func fill(ctx context.Context, st jetstream.Stream) float64 {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	info, err := st.Info(ctx)
	if err != nil || info.Config.MaxBytes <= 0 {
		return 0
	}
	return float64(info.State.Bytes) / float64(info.Config.MaxBytes)
}

// gatewayTrouble asks the gateway itself, in process.
func gatewayTrouble(ctx context.Context, g *ingest.Gateway) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil)
	if err != nil {
		return err.Error()
	}
	w := &reply{status: http.StatusOK}
	g.Handler().ServeHTTP(w, req)
	if w.status == http.StatusOK {
		return ""
	}
	return strings.TrimPrefix(strings.TrimSpace(w.body.String()), "not ready: ")
}

// reply is the least http.ResponseWriter.
type reply struct {
	header http.Header
	status int
	body   strings.Builder
}

func (r *reply) Header() http.Header {
	if r.header == nil {
		r.header = http.Header{}
	}
	return r.header
}
func (r *reply) WriteHeader(status int)      { r.status = status }
func (r *reply) Write(p []byte) (int, error) { return r.body.Write(p) }

// workerTrouble is what keeps a worker's partitions from getting on, nil when nothing does.
func workerTrouble(w *aggregate.Worker) error {
	var parts []string
	status := w.Status()
	for _, n := range status.NotUnderstood {
		parts = append(parts, fmt.Sprintf("partition %d: %s", n.Partition, n.Err))
	}
	for _, p := range status.Partitions {
		if p.LastError != "" {
			parts = append(parts, fmt.Sprintf("partition %d: %s", p.Partition, p.LastError))
		}
		if p.SnapshotError != "" {
			parts = append(parts, fmt.Sprintf("partition %d: %s", p.Partition, p.SnapshotError))
		}
	}
	return joined(parts)
}

// lossShown is how long a loss is told of a running stack; the audit tells it for a week.
const lossShown = 15 * time.Minute

// lossTrouble is what NATS was found to have lost lately, nil when nothing was.
func lossTrouble(w *aggregate.Worker) error {
	st := w.Status()
	parts := []string{}
	if st.Loss != "" && time.Since(st.LossAt) < lossShown {
		parts = append(parts, st.Loss)
	}
	for _, p := range st.Partitions {
		if p.Loss != "" && time.Since(p.LossAt) < lossShown {
			parts = append(parts, p.Loss)
		}
	}
	return joined(parts)
}

// sinkTrouble is what keeps a sink's lanes from getting on, nil when nothing does.
func sinkTrouble(k *sink.Sink) error {
	if s := k.Status().String(); s != "" {
		return errors.New(s)
	}
	return nil
}

// joined is one error of many texts: the first, and how many more.
func joined(parts []string) error {
	sort.Strings(parts)
	switch len(parts) {
	case 0:
		return nil
	case 1:
		return errors.New(parts[0])
	}
	return fmt.Errorf("%s (and %d more)", parts[0], len(parts)-1)
}

// drainSink waits until the sink has inserted every chunk that is stored in its lanes. It gives up early when ClickHouse does not
// answer: the chunks stay and are inserted at the next start.
func (s *stack) drainSink(ctx context.Context) error { return drainSink(ctx, s.Streams, s.Sink) }

func drainSink(ctx context.Context, streams *broker.Streams, k *sink.Sink) error {
	want, err := lastChunks(ctx, streams)
	if err != nil {
		return fmt.Errorf("what waits for ClickHouse is not known and stays for the next start: %w", err)
	}
	for {
		st := k.Status()
		left := 0
		for _, l := range st.Lanes {
			if l.Mark < want[l.Lane] {
				left++
			}
		}
		switch {
		case left == 0 && len(st.Lanes) > 0, len(want) == 0:
			return nil
		case !st.Unreachable.IsZero() && time.Since(st.Unreachable) > time.Second, !st.Blocked.IsZero():
			return fmt.Errorf("rows wait in NATS for the next start: %s", st)
		}
		select {
		case <-ctx.Done():
			return errors.New("not everything reached ClickHouse in time; the rest waits in NATS for the next start")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// lastChunks returns the last sequence of ROWS for each lane that has any.
func lastChunks(ctx context.Context, s *broker.Streams) (map[int]uint64, error) {
	last := map[int]uint64{}
	for p := range s.Partitions {
		m, err := s.Rows.GetLastMsgForSubject(ctx, stream.RowsSubject(p))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		lane := stream.Lane(p, s.Lanes)
		last[lane] = max(last[lane], m.Sequence)
	}
	return last, nil
}
