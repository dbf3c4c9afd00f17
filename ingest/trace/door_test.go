package trace_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
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
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/ingest/intrakernel"
	door "github.com/warpline/warpline/ingest/trace"
	"github.com/warpline/warpline/proto/kineto"
	"github.com/warpline/warpline/proto/stream"
)

const devKey = "dev-key-for-tests"

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
	Complete           bool
	TornAt             *int64 `json:"torn_at"`
	Errors             []struct {
		Offset int64
		Code   string
	}
	URL    string `json:"session_url"`
	Code   string `json:"error"`
	Detail string
}

const traces, form = "/api/v1/traces", "/api/v1/events/import/torch-profiler"

func (r *rig) post(path, contentType string, body []byte) answer {
	r.t.Helper()
	return r.postTo(r.server, path, contentType, bytes.NewReader(body))
}

func (r *rig) postTo(server *httptest.Server, path, contentType string, body io.Reader) answer {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodPost, server.URL+path, body)
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

func zip(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write(b)
	z.Close()
	return out.Bytes()
}

func asForm(name string, b []byte) (contentType string, body []byte) {
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	w.WriteField("label", "anything")
	part, _ := w.CreateFormFile(name, "trace.json")
	part.Write(b)
	w.Close()
	return w.FormDataContentType(), out.Bytes()
}

func vector(t testing.TB, name string) []byte {
	t.Helper()
	found, err := filepath.Glob("../../testdata/traces/real/*" + name + "*.json.gz")
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v", name, found, err)
	}
	f, err := os.Open(found[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// told are the elements in INGEST by session, and the reasons of refused ones; each part once.
func (r *rig) told() (elements map[string]uint64, reasons map[string]uint64) {
	r.t.Helper()
	info, err := r.streams.Ingest.Info(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	elements, reasons = map[string]uint64{}, map[string]uint64{}
	seen := map[string]bool{}
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
		if seen[key] {
			continue
		}
		seen[key] = true
		if e.Kind == stream.KindReject {
			reasons[e.Reject.Reason] += e.Events
		}
		if e.Kind != stream.KindTrace {
			continue
		}
		body, err := stream.DecodeBody(nil, packed)
		if err != nil {
			r.t.Fatal(err)
		}
		var p kineto.Part
		if err := p.Decode(body); err != nil {
			r.t.Fatal(err)
		}
		if p.Elements() != e.Events || p.Index != e.Part || p.Last != e.Last {
			r.t.Errorf("part %d of %s: %d elements, the envelope says %+v", p.Index, e.Session, p.Elements(), e)
		}
		elements[e.Session] += p.Elements()
	}
	return elements, reasons
}

// A trace is one session however it is sent, at two gateways at once, and counts once.
func TestEveryWayOfSending(t *testing.T) {
	r := start(t, nil)
	other := r.gateway(nil)
	trace := vector(t, "alexnet")
	contentType, body := asForm("trace", zip(trace))
	plainType, plainBody := asForm("trace", trace)
	sum := sha256.Sum256(trace)
	var wait sync.WaitGroup
	answers := make([]answer, 8)
	for i := range answers {
		server := r.server
		if i%2 == 1 {
			server = other
		}
		wait.Go(func() {
			switch i / 2 {
			case 0:
				answers[i] = r.postTo(server, traces, "application/json", bytes.NewReader(trace))
			case 1:
				answers[i] = r.postTo(server, traces, "application/octet-stream", bytes.NewReader(zip(trace)))
			case 2:
				answers[i] = r.postTo(server, form, contentType, bytes.NewReader(body))
			default:
				answers[i] = r.postTo(server, form, plainType, bytes.NewReader(plainBody))
			}
		})
	}
	wait.Wait()
	for _, a := range answers {
		if a.status != http.StatusOK || a.SessionID != fmt.Sprintf("trace:%x", sum[:16]) || a.Accepted != 1408 || a.Rejected != 0 ||
			!a.Complete || a.TornAt != nil {
			t.Errorf("%d %s", a.status, a.raw)
		}
	}
	if a := r.post(traces, "application/json", trace); !a.Duplicate || a.Accepted != 1408 {
		t.Errorf("again: %s", a.raw)
	}
	if told, _ := r.told(); len(told) != 1 || told[answers[0].SessionID] != 1408 {
		t.Errorf("%v", told)
	}
}

const event = `{"ph":"X","ts":1,"dur":1,"name":"a"}`

// What the door says to each body.
func TestAnswers(t *testing.T) {
	r := start(t, nil)
	broken := zip([]byte("[" + event + "]"))
	broken[len(broken)-6] ^= 1 // its checksum
	// Text that does not pack well, so that half of the packed bytes hold events.
	var long strings.Builder
	long.WriteString("[" + event)
	for i := range 2000 {
		fmt.Fprintf(&long, `,{"ph":"X","ts":%d,"dur":1,"name":"%x"}`, i, sha256.Sum256([]byte{byte(i), byte(i >> 8)}))
	}
	half := zip([]byte(long.String() + "]"))
	half = half[:len(half)/2]
	noField, noBody := asForm("other", []byte("[]"))
	for _, c := range []struct {
		name, path, contentType string
		body                    []byte
		status                  int
		code                    string // of the problem, or of the first refused element
		accepted, rejected      uint64
		tornAt                  int64 // -1 complete, -2 anywhere
	}{
		{"a list", traces, "", []byte("[" + event + "]"), 200, "", 1, 0, -1},
		{"a list that a writer left open", traces, "", []byte("[" + event + ","), 200, "", 1, 0, -1},
		{"torn", traces, "", []byte(`{"traceEvents":[` + event + `,{"ph":`), 200, "", 1, 0, 59},
		{"torn gzip", traces, "", half, 200, "", 0, 0, -2},
		{"a wrong checksum", traces, "", broken, 400, "torn_gzip", 0, 0, 0},
		{"no list", traces, "", []byte(`{"a":1}`), 400, "bad_trace", 0, 0, 0},
		{"no events", traces, "", []byte(`{"traceEvents":[]}`), 400, "bad_trace", 0, 0, 0},
		{"nothing", traces, "", nil, 400, "bad_trace", 0, 0, 0},
		{"no JSON", traces, "", []byte("hello"), 400, "bad_trace", 0, 0, 0},
		{"protobuf", traces, "", []byte("\n\x0f\x08\x01\x12\x0bhello world"), 415, "perfetto_protobuf", 0, 0, 0},
		{"a list behind a line", traces, "", []byte("\n[" + event + "]"), 200, "", 1, 0, -1},
		{"another profiler's", traces, "", []byte(`[{"ph":"M","name":"process_name","pid":1,"args":{"name":"sm 1"}},` + event + `]`), 422,
			"intra_kernel_trace", 0, 0, 0},
		{"stretched", traces, "", []byte(`{"metadata":{"ikp_nsys_merge":{}},"traceEvents":[` + event + `]}`), 422, "stretched_times", 0, 0, 0},
		{"refused elements", traces, "", []byte(`[` + event + `,{"ph":"Q"},{"ph":"X","ts":1e300},7,` + event + `]`), 200,
			"unknown_phase", 2, 3, -1},
		{"a huge element", traces, "", []byte(`[` + event + `,{"ph":"X","ts":1,"args":{"a":"` + strings.Repeat("x", 2<<20) + `"}}]`), 200,
			"event_too_large", 1, 1, -1},
		{"an option", traces + "?ranks=1", "", []byte("[" + event + "]"), 400, "bad_option", 0, 0, 0},
		{"a rank", traces + "?rank=x", "", []byte("[" + event + "]"), 400, "bad_option", 0, 0, 0},
		{"no form", form, "application/json", []byte("[" + event + "]"), 400, "bad_form", 0, 0, 0},
		{"a form without the field", form, noField, noBody, 400, "bad_form", 0, 0, 0},
		{"half a form", form, noField, noBody[:20], 400, "bad_form", 0, 0, 0},
	} {
		a := r.post(c.path, c.contentType, c.body)
		code := a.Code
		if len(a.Errors) > 0 {
			code = a.Errors[0].Code
		}
		if a.status != c.status || code != c.code {
			t.Errorf("%s: %d %s", c.name, a.status, a.raw)
			continue
		}
		if c.status != 200 || c.tornAt == -2 && !a.Complete && a.Accepted > 100 {
			continue
		}
		if a.Accepted != c.accepted || a.Rejected != c.rejected || a.Complete != (c.tornAt == -1) || !a.Complete && *a.TornAt != c.tornAt {
			t.Errorf("%s: %s", c.name, a.raw)
		}
		if again := r.post(c.path, c.contentType, c.body); !again.Duplicate ||
			strings.Replace(again.raw, `"duplicate":true`, `"duplicate":false`, 1) != a.raw {
			t.Errorf("%s, again: %s\nfirst: %s", c.name, again.raw, a.raw)
		}
	}
	if _, reasons := r.told(); reasons["unknown_phase"] != 1 || reasons["bad_time"] != 1 || reasons["bad_event"] != 1 ||
		reasons["event_too_large"] != 1 {
		t.Errorf("%v", reasons)
	}
}

// A name stands for one trace with one set of options.
func TestNames(t *testing.T) {
	r := start(t, func(c *ingest.Config) { c.UIURL = "https://ui.example/w/" })
	one, two := []byte("["+event+"]"), []byte("["+event+","+event+"]")
	if a := r.post(traces+"?session=a:b%25&rank=3", "", one); a.SessionID != "trace:a%3Ab%25" || a.status != 200 ||
		a.URL != "https://ui.example/w/session?session=trace%3Aa%253Ab%2525" {
		t.Fatalf("%s", a.raw)
	}
	for name, a := range map[string]answer{
		"another trace": r.post(traces+"?session=a:b%25&rank=3", "", two), "another rank": r.post(traces+"?session=a:b%25&rank=4", "", one),
		"another job": r.post(traces+"?session=a:b%25&rank=3&job=x", "", one),
	} {
		if a.status != http.StatusUnprocessableEntity || a.Code != "session_conflict" {
			t.Errorf("%s: %d %s", name, a.status, a.raw)
		}
	}
	for _, name := range []string{strings.Repeat("n", 600), "sha256-x", strings.Repeat("0123456789abcdef", 2), "a%0Ab"} {
		if a := r.post(traces+"?session="+name, "", one); !strings.HasPrefix(a.SessionID, "trace:sha256-") {
			t.Errorf("%.40s: %s", name, a.raw)
		}
	}
}

// What is over a limit is refused, and the answer names the limit.
func TestLimits(t *testing.T) {
	r := start(t, func(c *ingest.Config) { c.Defaults.MaxBodyBytes, c.Defaults.MaxRawBytes = 4000, 8000 })
	long := "[" + event + strings.Repeat(","+event, 300) + "]"
	for name, c := range map[string]struct {
		body []byte
		want string
	}{"the body": {[]byte(long), "limit-body"}, "what it unpacks to": {zip([]byte(long)), "limit-raw-body"}} {
		if a := r.post(traces, "", c.body); a.status != http.StatusRequestEntityTooLarge || !strings.Contains(a.Detail, c.want) {
			t.Errorf("%s: %d %s", name, a.status, a.raw)
		}
	}
	contentType, body := asForm("trace", zip([]byte(long)))
	if a := r.post(form, contentType, body); a.status != http.StatusRequestEntityTooLarge {
		t.Errorf("in a form: %d %s", a.status, a.raw)
	}
}

// Hostile traces cost a reason each, and their neighbours stay.
func TestHostile(t *testing.T) {
	r := start(t, nil)
	for name, c := range map[string]struct {
		middle, reason string
		rejected       uint64 // 0: any number above
	}{
		"deep args": {`{"ph":"X","ts":1,"args":` + strings.Repeat(`{"a":`, 5000) + `1` + strings.Repeat("}", 5000) + `}`,
			"bad_event", 1},
		"a pid that is none":  {`{"ph":"X","ts":1,"pid":{}}`, "bad_name", 1},
		"an endless number":   {`{"ph":"X","ts":` + strings.Repeat("9", 100_000) + `}`, "bad_time", 1},
		"a negative length":   {`{"ph":"X","ts":1,"dur":-0.001}`, "bad_duration", 1},
		"begins without ends": {strings.Repeat(`{"ph":"B","ts":1,"name":"a"},`, 70_000) + event, "too_many_open", 0},
		"a long string":       {`{"ph":"X","ts":1,"name":"` + strings.Repeat("x", 48<<20) + `"}`, "event_too_large", 1},
		"ends without begins": {strings.Repeat(`{"ph":"E","ts":1},`, 500) + `{"ph":"e","ts":1}`, "no_begin", 501},
	} {
		a := r.post(traces, "", zip([]byte("["+event+","+c.middle+","+event+"]")))
		if a.status != http.StatusOK || a.Rejected == 0 || c.rejected > 0 && a.Rejected != c.rejected || a.Accepted < 2 ||
			len(a.Errors) == 0 || a.Errors[0].Code != c.reason || a.Errors[0].Offset < int64(len(event)) || len(a.Errors) > 100 {
			t.Errorf("%s: %d %.500s", name, a.status, a.raw)
		}
	}
}

// A trace of an intra-kernel profiler is handled as at its own door: its session and answer are the same, and it counts once over both.
func TestTracesOfIntraKernelProfilers(t *testing.T) {
	r := start(t, func(c *ingest.Config) { c.Sources = append(c.Sources, intrakernel.Source()) })
	const own = "/api/v1/intrakernel"
	packed, err := os.ReadFile("../../testdata/intrakernel/samples/gemm_trace.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	proton, err := os.ReadFile("../../testdata/proton/two_kernels.chrome_trace")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, first, second string
		body                []byte
	}{
		{"write_trace here", traces, own, packed},
		{"write_trace there", own, traces, packed},
		{"Proton here", traces, own, proton},
	} {
		query := "?session=" + strings.ReplaceAll(c.name, " ", "-") + "&job=j&rank=3&host=h"
		a := r.post(c.first+query, "", c.body)
		if a.status != 200 || !strings.HasPrefix(a.SessionID, "ikp:") || a.Accepted == 0 || a.Duplicate {
			t.Errorf("%s: %d %s", c.name, a.status, a.raw)
			continue
		}
		again := r.post(c.second+query, "", c.body)
		if again.status != 200 || again.SessionID != a.SessionID || again.Accepted != a.Accepted || !again.Duplicate {
			t.Errorf("%s, again at the other door: %d %s", c.name, again.status, again.raw)
		}
		if other := r.post(c.second+strings.Replace(query, "rank=3", "rank=4", 1), "", c.body); other.status != 422 ||
			other.Code != "session_conflict" {
			t.Errorf("%s, as another rank: %d %s", c.name, other.status, other.raw)
		}
	}
	if a := r.post(traces+"?session=x&world_size=2", "", packed); a.status != 422 || a.Code != "intra_kernel_trace" {
		t.Errorf("with world_size, which that door does not have: %d %s", a.status, a.raw)
	}
	contentType, body := asForm("trace", packed)
	if a := r.post(form, contentType, body); a.status != 422 || a.Code != "intra_kernel_trace" {
		t.Errorf("as a form: %d %s", a.status, a.raw)
	}
	cut := []byte(`[{"ph":"M","name":"process_name","pid":1,"args":{"name":"sm 1"}},{"ph":"X","ts":1,"dur":1}]`)
	if a := r.post(traces, "", cut); a.status != 400 || a.Code != "bad_trace" {
		t.Errorf("one that its door refuses: %d %s", a.status, a.raw)
	}
}
