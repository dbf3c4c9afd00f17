package parca_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/ingest"
	parcadoor "github.com/warpline/warpline/ingest/parca"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

const devKey = "dev-key-for-tests"

// rig is a gateway on a real NATS server, and a client of its gRPC.
type rig struct {
	t       testing.TB
	streams *broker.Streams
	gateway *ingest.Gateway
	conn    *grpc.ClientConn
	server  *httptest.Server
	metrics *prometheus.Registry
	stop    context.CancelFunc
}

func start(t testing.TB, layout broker.Layout, change func(*ingest.Config)) *rig {
	t.Helper()
	return startOn(t, brokertest.Start(t, layout), change)
}

func startOn(t testing.TB, s *broker.Streams, change func(*ingest.Config)) *rig {
	t.Helper()
	r := &rig{t: t, streams: s, metrics: prometheus.NewRegistry()}
	cfg := ingest.Config{Listen: "127.0.0.1:0", GRPCListen: "127.0.0.1:0", SpoolDir: t.TempDir(), DevKey: devKey, Registerer: r.metrics,
		PublishTimeout: 10 * time.Second, Sources: []ingest.Source{parcadoor.Source()}, DrainTimeout: time.Second,
		Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	var err error
	if r.gateway, err = ingest.New(s, cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); r.gateway.Run(ctx) }()
	r.stop = func() { cancel(); <-ended }
	t.Cleanup(r.stop)
	r.server = httptest.NewServer(r.gateway.Handler())
	t.Cleanup(r.server.Close)
	r.conn = r.dial()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		w := httptest.NewRecorder()
		r.gateway.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if w.Code == http.StatusOK {
			return r
		}
		if time.Now().After(deadline) {
			t.Fatalf("not ready: %s", w.Body)
		}
	}
}

func (r *rig) dial() *grpc.ClientConn {
	r.t.Helper()
	conn, err := grpc.NewClient(r.gateway.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(64<<20)))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	return conn
}

// with is a context with a key.
func (r *rig) with(key string) context.Context {
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	r.t.Cleanup(cancel)
	if key == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
}

// call calls a unary method with the dev key.
func (r *rig) call(method string, in, out proto.Message) error {
	r.t.Helper()
	return r.conn.Invoke(r.with(devKey), method, in, out)
}

// wants fails the test unless err has a code.
func wants(t testing.TB, err error, code codes.Code) {
	t.Helper()
	if status.Code(err) != code {
		t.Errorf("answer is %v, want %v", err, code)
	}
}

// after is how long an answer says to wait, 0 when it does not.
func after(err error) time.Duration {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return info.RetryDelay.AsDuration()
		}
	}
	return 0
}

// key makes a key of a tenant.
func (r *rig) key(tenantName string, l tenant.Limits) string {
	r.t.Helper()
	secret, _, err := ingest.NewKeys(r.streams.Keys).Create(r.t.Context(), tenantName, "", l, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	return secret
}

// message is one INGEST message, read back.
type message struct {
	stream.Envelope
	body []byte
}

// published reads the parts of the INGEST stream.
func (r *rig) published() (out []message) {
	r.t.Helper()
	info, err := r.streams.Ingest.Info(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	for seq := max(info.State.FirstSeq, 1); seq <= info.State.LastSeq; seq++ {
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
		out = append(out, message{e, bytes.Clone(text)})
	}
	return slices.DeleteFunc(out, func(m message) bool { return m.Kind == stream.KindRepeats })
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
					return l.GetName() == labels[i] && l.GetValue() == labels[i+1]
				}) {
					continue samples
				}
			}
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum
}

// balanced fails unless received = published + rejected + repeated, and nothing is held any more.
func (r *rig) balanced() {
	r.t.Helper()
	for _, unit := range []string{"events", "bytes"} {
		in, out, no := r.metric(unit+"_received_total"), r.metric(unit+"_published_total"), r.metric(unit+"_rejected_total")
		if again := r.metric(unit + "_repeated_total"); in != out+no+again {
			r.t.Errorf("%s: received %.0f, published %.0f, rejected %.0f, repeated %.0f", unit, in, out, no, again)
		}
	}
	for _, gauge := range []string{"in_flight_bytes", "active_requests"} {
		if n := r.metric(gauge); n != 0 {
			r.t.Errorf("%s is %.0f at rest", gauge, n)
		}
	}
}

// post sends a body by HTTP.
func (r *rig) post(path string, body []byte) (status int, answer string) {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodPost, r.server.URL+path, bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+devKey)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// vector reads a file of testdata/parca.
func vector(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "testdata", "parca", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
