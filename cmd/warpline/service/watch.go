package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/sink"
)

// nearlyFull is the part of a stream's room from which on a person should know.
const nearlyFull = 0.9

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

// Watch looks every second at what is wrong, and says in the log when it begins and when it ends, until ctx ends. What keeps data from
// flowing makes the gateway not ready. It is called once.
func (s *Stack) Watch(ctx context.Context) { s.watcher.run(ctx, s.troubles) }

// troubles returns what is wrong now: what, in words that stay the same while it lasts, and why.
func (s *Stack) troubles(ctx context.Context) map[string]string {
	t := map[string]string{}
	if err := sinkTrouble(s.sink); err != nil {
		t["rows do not reach ClickHouse and wait in NATS"] = err.Error()
	}
	if d := s.sink.Status().Damage; d != "" {
		t["what NATS keeps on disk was damaged, and what it dropped may have been accepted: see warpline audit"] = d
	}
	if broken := s.sink.Broken(); len(broken) > 0 {
		t["ClickHouse has set parts aside that it cannot read; their rows may be missing"] =
			fmt.Sprintf("%d parts, the first is %s; warpline audit tells what is missing", len(broken), broken[0])
	}
	if err := workerTrouble(s.worker); err != nil {
		t["the worker does not get on"] = err.Error()
	}
	if err := lossTrouble(s.worker); err != nil {
		t["NATS has lost data; what was folded is in ClickHouse, `warpline audit` says what may be missing"] = err.Error()
	}
	engineUnconfined(t, s.engine)
	stoodStill(t, s.sink)
	notTaken(t, s.worker)
	if n := s.worker.Status().NotUnderstood; len(n) > 0 {
		t[strange] = fmt.Sprintf("partition %d: %s", n[0].Partition, n[0].Err)
	}
	if why := s.refuse(); why != "" {
		t[natsStuck] = why
		return t
	}
	if i := slices.IndexFunc(s.nc, func(nc *nats.Conn) bool { return nc.Status() != nats.CONNECTED }); i >= 0 {
		t[natsAway] = s.nc[i].Status().String()
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
	}{{s.Ingest, "when it is full the gateway answers 503 and clients keep their data"},
		{s.Rows, "when it is full the worker waits for the sink"}} {
		if full := fill(ctx, st.stream); full >= nearlyFull {
			t["stream "+st.stream.CachedInfo().Config.Name+" is nearly full; "+
				st.then] = fmt.Sprintf("%.0f %%; raise --store-max, or make room on the disk", 100*full)
		}
	}
}

// gatewayTakesNothing adds why the gateway is not ready, except for what the watcher itself has said to it.
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

// lossShown is how long a loss is reported of a running stack; the audit reports it for a week.
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
