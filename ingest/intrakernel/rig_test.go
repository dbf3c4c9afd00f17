package intrakernel_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/ingest"
	door "github.com/warpline/warpline/ingest/intrakernel"
	"github.com/warpline/warpline/proto/intrakernel"
	"github.com/warpline/warpline/proto/stream"
)

const (
	vectors = "../../testdata/intrakernel"
	devKey  = "dev-key-for-tests"
)

// rig is a gateway on a real NATS server.
type rig struct {
	t       testing.TB
	streams *broker.Streams
	server  *httptest.Server
}

func start(t testing.TB, change func(*ingest.Config)) *rig {
	t.Helper()
	r := &rig{t: t, streams: brokertest.Start(t, broker.Layout{})}
	r.server = r.gateway(change)
	return r
}

// gateway starts a gateway on the streams of r.
func (r *rig) gateway(change func(*ingest.Config)) *httptest.Server {
	r.t.Helper()
	cfg := ingest.Config{SpoolDir: r.t.TempDir(), DevKey: devKey, Registerer: prometheus.NewRegistry(), PublishTimeout: 10 * time.Second,
		Sources: []ingest.Source{door.Source()}, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	g, err := ingest.New(r.streams, cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(g.Close)
	server := httptest.NewServer(g.Handler())
	r.t.Cleanup(server.Close)
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		w := httptest.NewRecorder()
		g.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if w.Code == http.StatusOK {
			return server
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("not ready: %s", w.Body)
		}
	}
}

// answer is what the gateway said.
type answer struct {
	status             int
	raw                string
	SessionID          string `json:"session_id"`
	Accepted, Rejected uint64
	Duplicate          bool
	Code               string `json:"error"`
	Detail             string
}

func (r *rig) post(query, contentType string, body io.Reader) answer {
	r.t.Helper()
	return r.postTo(r.server, query, contentType, body)
}

func (r *rig) postTo(server *httptest.Server, query, contentType string, body io.Reader) answer {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodPost, server.URL+"/api/v1/intrakernel?"+query, body)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+devKey)
	req.Header.Set("Content-Type", contentType)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	a := answer{status: res.StatusCode, raw: string(text)}
	if err := json.Unmarshal(text, &a); err != nil {
		r.t.Fatalf("%d %s: %v", res.StatusCode, text, err)
	}
	return a
}

// field is a field of a form.
type field struct {
	name string
	data []byte
}

// form makes a form of fields.
func form(fields ...field) (contentType string, body *bytes.Buffer) {
	body = &bytes.Buffer{}
	w := multipart.NewWriter(body)
	for _, f := range fields {
		part, _ := w.CreateFormFile(f.name, f.name)
		part.Write(f.data)
	}
	w.Close()
	return w.FormDataContentType(), body
}

// send posts the buffers of a case.
func (r *rig) send(query string, c *capture) answer {
	r.t.Helper()
	contentType, body := form(field{"input", c.input}, field{"events", c.events}, field{"counters", c.counters})
	return r.post(query, contentType, body)
}

// capture is the files of a case.
type capture struct{ input, events, counters []byte }

func load(t testing.TB, name string) *capture {
	dir := filepath.Join(vectors, name)
	return &capture{readFile(t, filepath.Join(dir, "input.json")), readFile(t, filepath.Join(dir, "events.bin")),
		readFile(t, filepath.Join(dir, "counters.bin"))}
}

// readFile reads a file, which may be there as gzip alone.
func readFile(t testing.TB, path string) []byte {
	t.Helper()
	if b, err := os.ReadFile(path); err == nil {
		return b
	}
	b, err := os.ReadFile(path + ".gz")
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if b, err = io.ReadAll(z); err != nil {
		t.Fatal(err)
	}
	return b
}

func zip(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write(b)
	z.Close()
	return out.Bytes()
}

// parts are those in INGEST, by session, each once.
func (r *rig) parts() map[string][]intrakernel.Part {
	r.t.Helper()
	info, err := r.streams.Ingest.Info(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	all, seen := map[string][]intrakernel.Part{}, map[string][]byte{}
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		msg, err := r.streams.Ingest.GetMsg(r.t.Context(), seq)
		if err != nil {
			r.t.Fatal(err)
		}
		e, packed, err := stream.ParseEnvelope(msg.Data)
		if err != nil {
			r.t.Fatal(err)
		}
		key := fmt.Sprint(e.Session, " ", e.Identity, " ", e.Part)
		if e.Kind != stream.KindIntraKernel {
			continue
		}
		body, err := stream.DecodeBody(nil, packed)
		if err != nil {
			r.t.Fatal(err)
		}
		if before, ok := seen[key]; ok {
			if !bytes.Equal(before, body) {
				r.t.Errorf("part %s came twice, with other content", key)
			}
			continue
		}
		seen[key] = body
		var p intrakernel.Part
		if err := p.Decode(body); err != nil {
			r.t.Fatal(err)
		}
		if p.Records() != e.Events || p.Index != e.Part || e.Last != (p.Index == p.Parts-1) || len(body) > stream.PartBytes {
			r.t.Errorf("part %d of %s: %d records, the envelope says %+v", p.Index, e.Session, p.Records(), e)
		}
		all[e.Session] = append(all[e.Session], p)
	}
	return all
}

func names(t testing.TB) (names []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(vectors, "*", "counters.bin"))
	if err != nil || len(found) < 40 {
		t.Fatalf("%d cases, %v", len(found), err)
	}
	for _, path := range found {
		names = append(names, filepath.Base(filepath.Dir(path)))
	}
	return names
}

func text(s string) io.Reader { return strings.NewReader(s) }
