package ingest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sort"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/ingest"
	gpuflightdoor "github.com/warpline/warpline/ingest/gpuflight"
	telemetrydoor "github.com/warpline/warpline/ingest/telemetry"
	"github.com/warpline/warpline/proto/stream"
)

// waitReady waits until the gateway says that it is ready.
func waitReady(t testing.TB, g *ingest.Gateway) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		w := httptest.NewRecorder()
		g.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if w.Code == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not ready: %s", w.Body)
		}
	}
}

// nextSecond waits until NATS stamps what it makes with another second than what it has made.
func nextSecond() {
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second + 5*time.Millisecond)))
}

// sources are those of the program.
func sources() []ingest.Source {
	return []ingest.Source{gpuflightdoor.Source(), telemetrydoor.Source()}
}

const devKey = "dev-key-for-tests"

// rig is a gateway on a real NATS server.
type rig struct {
	t       testing.TB
	streams *broker.Streams
	gateway *ingest.Gateway
	server  *httptest.Server
	metrics *prometheus.Registry
}

// start opens a gateway; change may alter its configuration.
func start(t testing.TB, layout broker.Layout, change func(*ingest.Config)) *rig {
	t.Helper()
	return startOn(t, brokertest.Start(t, layout), change)
}

func startOn(t testing.TB, s *broker.Streams, change func(*ingest.Config)) *rig {
	t.Helper()
	r := &rig{t: t, streams: s, metrics: prometheus.NewRegistry()}
	cfg := ingest.Config{SpoolDir: t.TempDir(), DevKey: devKey, Registerer: r.metrics, PublishTimeout: 10 * time.Second, Sources: sources()}
	if change != nil {
		change(&cfg)
	}
	var err error
	if r.gateway, err = ingest.New(s, cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.gateway.Close)
	r.server = httptest.NewServer(r.gateway.Handler())
	t.Cleanup(r.server.Close)
	waitReady(t, r.gateway)
	return r
}

// slack is what a test adds to a bound on how long an upload takes: ten times what one takes now, which is little unless the machine has
// much else to do.
func (r *rig) slack(headers ...string) time.Duration {
	r.t.Helper()
	var longest time.Duration
	for i := range 3 {
		began := time.Now()
		if a := r.post("s", ndjson("s", 100+i), headers...); a.status != http.StatusOK {
			r.t.Fatalf("%d %s", a.status, a.raw)
		}
		longest = max(longest, time.Since(began))
	}
	return 10 * longest
}

// answer is what the gateway said.
type answer struct {
	status int
	header http.Header
	raw    string

	Accepted uint64
	Rejected uint64
	Errors   []struct {
		Line         int64
		Type, Reason string
	}
	Whole  bool   `json:"window_acknowledged"`
	Code   string `json:"error"`
	Detail string
	Routes []string
}

func (r *rig) do(method, path string, body io.Reader, headers ...string) answer {
	r.t.Helper()
	req, err := http.NewRequest(method, r.server.URL+path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+devKey)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	a := answer{status: res.StatusCode, header: res.Header, raw: string(text)}
	json.Unmarshal(text, &a)
	return a
}

// post uploads body as it is.
func (r *rig) post(session string, body []byte, headers ...string) answer {
	r.t.Helper()
	if session != "" {
		headers = append([]string{"X-GpuFlight-Session-Id", session}, headers...)
	}
	return r.do(http.MethodPost, "/api/v1/events/stream", bytes.NewReader(body), headers...)
}

// window are the headers of a window.
func window(id, channel string, sequence int, body []byte) []string {
	return []string{
		"Content-Encoding", "gzip", "X-GpuFlight-Window-Id", id, "X-GpuFlight-Window-Channel", channel,
		"X-GpuFlight-Window-Sequence", strconv.Itoa(sequence), "X-GpuFlight-Window-CRC32",
		strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10),
	}
}

// message is one INGEST message, read back.
type message struct {
	stream.Envelope
	subject string
	body    []byte
}

// published reads the parts of the whole INGEST stream, which has no holes.
func (r *rig) published() []message {
	r.t.Helper()
	info, err := r.streams.Ingest.Info(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	out := r.publishedFrom(info.State.FirstSeq)
	if uint64(len(out)) < info.State.Msgs { // counts of repeats may have come meanwhile
		r.t.Fatalf("read %d messages of %d", len(out), info.State.Msgs)
	}
	counts := func(m message) bool { return m.Kind == stream.KindRepeats || m.Kind == stream.KindDoor }
	return slices.DeleteFunc(out, counts) // no parts
}

// publishedFrom reads the INGEST stream from a sequence on and passes over deleted messages.
func (r *rig) publishedFrom(first uint64) []message {
	r.t.Helper()
	info, err := r.streams.Ingest.Info(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	var out []message
	for seq := max(first, 1); seq <= info.State.LastSeq; seq++ {
		msg, err := r.streams.Ingest.GetMsg(r.t.Context(), seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			r.t.Fatal(err)
		}
		e, body, err := stream.ParseEnvelope(msg.Data)
		if err != nil {
			r.t.Fatal(err)
		}
		text, err := stream.DecodeBody(nil, body)
		if err != nil {
			r.t.Fatal(err)
		}
		if e.Object != "" {
			if text, err = r.streams.Parts.GetBytes(r.t.Context(), e.Object); err != nil {
				r.t.Fatal(err)
			}
		}
		out = append(out, message{e, msg.Subject, bytes.Clone(text)})
	}
	return out
}

// folded drops parts as a worker does: each (session, identity, part) once.
func folded(in []message) []message {
	seen, out := map[string]bool{}, []message(nil)
	for _, m := range in {
		key := fmt.Sprint(m.Tenant, "\x00", m.Session, "\x00", m.Identity, "\x00", m.Part)
		if !seen[key] {
			seen[key] = true
			out = append(out, m)
		}
	}
	return out
}

// kept is the text of all parts of a session in order of their numbers.
func kept(in []message, session string) string {
	var own []message
	for _, m := range folded(in) {
		if m.Session == session && m.Kind == stream.KindGPUFlight {
			own = append(own, m)
		}
	}
	sort.SliceStable(own, func(i, j int) bool {
		if own[i].Identity != own[j].Identity {
			return false
		}
		return own[i].Part < own[j].Part
	})
	var b bytes.Buffer
	for _, m := range own {
		b.Write(m.body)
	}
	return b.String()
}

// metric sums the samples of a metric whose labels hold the given pairs.
func (r *rig) metric(name string, labels ...string) float64 {
	r.t.Helper()
	families, err := r.metrics.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != "warpline_gateway_"+name {
			continue
		}
	samples:
		for _, m := range f.GetMetric() {
			for i := 0; i < len(labels); i += 2 {
				if !slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool {
					return l.GetName() == labels[i] &&
						l.GetValue() == labels[i+1]
				}) {
					continue samples
				}
			}
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}

// balanced fails unless received = published + rejected in events and bytes, and nothing is held any more.
func (r *rig) balanced() {
	r.t.Helper()
	for _, unit := range []string{"events", "bytes"} {
		in, out, no := r.metric(unit+"_received_total"), r.metric(unit+"_published_total"), r.metric(unit+"_rejected_total")
		if again := r.metric(unit + "_repeated_total"); in != out+no+again {
			r.t.Errorf("%s: received %.0f, published %.0f, rejected %.0f", unit, in, out, no)
		}
	}
	r.do(http.MethodGet, "/metrics", nil) // refreshes the gauges
	for _, gauge := range []string{"in_flight_bytes", "spool_bytes", "active_requests"} {
		if n := r.metric(gauge); n != 0 {
			r.t.Errorf("%s is %.0f at rest", gauge, n)
		}
	}
}

// ndjson makes n lines of a session, each one event.
func ndjson(session string, n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, `{"version":1,"type":"kernel_detail","session_id":%q,"corr_id":%d,"kernel_name":"gemm_%d"}`+"\n", session, i, i%17)
	}
	return b.Bytes()
}

func newServer(t testing.TB, g *ingest.Gateway) *httptest.Server {
	s := httptest.NewServer(g.Handler())
	t.Cleanup(s.Close)
	return s
}
