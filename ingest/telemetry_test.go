package ingest_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/telemetry"
	"github.com/warpline/warpline/proto/tenant"
)

// report is the answer to an upload of telemetry.
type report struct {
	answer
	Sessions  int
	Duplicate bool
	Omitted   uint64 `json:"errors_omitted"`
	Refused   []struct {
		Index                int
		Code, Field, Message string
	} `json:"errors"`
}

// send posts body as telemetry; query is what follows the '?'.
func (r *rig) send(query string, body []byte, headers ...string) report {
	r.t.Helper()
	a := r.do(http.MethodPost, "/api/v1/telemetry?"+query, bytes.NewReader(body), headers...)
	out := report{answer: a}
	if a.status == http.StatusOK {
		if err := json.Unmarshal([]byte(a.raw), &out); err != nil {
			r.t.Fatalf("%s: %v", a.raw, err)
		}
	}
	return out
}

// stored are the events of all parts that a worker folds, in order of session and part.
func (r *rig) stored() (events []telemetry.Event, refused []message) {
	r.t.Helper()
	all := folded(r.published())
	slices.SortStableFunc(all, func(a, b message) int { return strings.Compare(a.Session, b.Session) })
	for _, m := range all {
		switch m.Kind {
		case stream.KindReject:
			refused = append(refused, m)
		case stream.KindTelemetry:
			n := uint64(0)
			for line := range bytes.Lines(m.body) {
				f, err := telemetry.ParseFrame(line)
				if err != nil {
					r.t.Fatal(err)
				}
				var v telemetry.Validator
				var e telemetry.Event
				if no := f.Event(&v, &e); no != nil {
					r.t.Fatalf("%s: %s", line, no)
				}
				events = append(events, e)
				n++
			}
			if n != m.Events || len(m.body) > stream.PartBytes || m.Source != "telemetry" {
				r.t.Errorf("part %d of %s: %d events, header says %d; %d bytes", m.Part, m.Session, n, m.Events, len(m.body))
			}
		}
	}
	return events, refused
}

func gz(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	z.Write(b)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func export(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "testdata", "telemetry", "exports", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// v2 is a record of schema version 2; change may alter it.
func v2(i int, change func(map[string]any)) map[string]any {
	m := map[string]any{
		"schema_version": 2, "timestamp_ns": 1700000000000000000 + int64(i)*1e8, "event_type": "allocation", "collector": "stormlog.cuda_tracker",
		"sampling_interval_ms": 100, "pid": 7, "host": "h", "device_id": 0, "allocator_allocated_bytes": 1000 + i, "allocator_reserved_bytes": 2000,
		"allocator_active_bytes": nil, "allocator_inactive_bytes": nil, "allocator_change_bytes": 5, "device_used_bytes": 2000,
		"device_free_bytes": nil, "device_total_bytes": nil, "context": nil, "metadata": map[string]any{},
	}
	if change != nil {
		change(m)
	}
	return m
}

func jsonOf(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func ndjsonOf(t testing.TB, records ...map[string]any) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, r := range records {
		b.Write(append(jsonOf(t, r), '\n'))
	}
	return b.Bytes()
}

// Every form of a document gives the same records, with gzip and without.
func TestTelemetryForms(t *testing.T) {
	one, two := v2(0, nil), v2(1, nil)
	for name, c := range map[string]struct {
		query   string
		body    []byte
		headers []string
		want    uint64
	}{
		"one record":             {"", jsonOf(t, one), nil, 1},
		"array":                  {"", jsonOf(t, []any{one, two}), nil, 2},
		"events":                 {"", jsonOf(t, map[string]any{"peak_memory": 5, "events": []any{one, two}}), nil, 2},
		"named key":              {"events_key=rows", jsonOf(t, map[string]any{"rows": []any{one, two}}), nil, 2},
		"ndjson by content type": {"", ndjsonOf(t, one, two), []string{"Content-Type", "application/x-ndjson; charset=utf-8"}, 2},
		"ndjson by query":        {"format=ndjson", ndjsonOf(t, one, two), nil, 2},
		"ndjson of nothing":      {"format=ndjson", nil, nil, 0},
		"empty array":            {"", []byte("[]"), nil, 0},
		"csv export":             {"format=csv", export(t, "cpu_tracker_events.csv"), nil, 35},
		"cpu export":             {"", export(t, "cpu_tracker_events.json"), nil, 35},
		"gpu export":             {"", export(t, "gpu_tracker_rank1_events.json"), nil, 29},
		"oom bundle":             {"format=oom", export(t, "oom_bundle/events.json"), nil, 28},
		"tf track":               {"format=tf", export(t, "tf_track_output.json"), nil, 10},
		"tf monitor":             {"format=tf", []byte(`{"peak_memory":2,"memory_usage":[1,2.5,3],"timestamps":[1700000000.5,1700000001,1700000002]}`), nil, 3},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, broker.Layout{}, nil)
			got := r.send(c.query, c.body, c.headers...)
			if got.status != http.StatusOK || got.Accepted != c.want || got.Rejected != 0 || got.Duplicate {
				t.Fatalf("%d %s", got.status, got.raw)
			}
			events, refused := r.stored()
			if uint64(len(events)) != c.want || len(refused) != 0 {
				t.Errorf("%d events and %d rejects stored", len(events), len(refused))
			}
			// The same content in other clothes is the same upload.
			again := r.send(c.query, gz(t, c.body), append(c.headers, "Content-Encoding", "gzip")...)
			if again.status != http.StatusOK || !again.Duplicate || again.Accepted != c.want || again.Sessions != got.Sessions {
				t.Errorf("again: %d %s", again.status, again.raw)
			}
			parts := slices.DeleteFunc(r.published(), func(m message) bool { return m.Kind == stream.KindAlerts })
			if n := len(parts); c.want > 0 && n != got.Sessions {
				t.Errorf("%d messages for %d sessions", n, got.Sessions)
			}
			r.balanced()
		})
	}
}

func TestTelemetryOptions(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	legacy := []byte(`{"timestamp":1700000000,"allocator_allocated_bytes":5}`)
	got := r.send("permissive_legacy=false", legacy)
	if got.Accepted != 0 || got.Rejected != 1 || got.Refused[0].Code != "legacy_refused" {
		t.Errorf("refused: %s", got.raw)
	}
	if got = r.send("default_collector=my.tool&default_sampling_interval_ms=250", legacy); got.Accepted != 1 {
		t.Errorf("defaults: %s", got.raw)
	}
	events, refused := r.stored()
	if len(events) != 1 || string(events[0].Collector) != "my.tool" || events[0].SamplingIntervalMS != 250 || !events[0].Legacy || events[0].Allocated != 5 {
		t.Errorf("%+v", events)
	}
	if len(refused) != 1 || !bytes.Equal(refused[0].body, legacy) || refused[0].Reject.Reason != "legacy_refused" || refused[0].Reject.Detail != "Legacy record conversion is disabled" {
		t.Errorf("%+v", refused)
	}
	for query, code := range map[string]string{
		"format=xml": "bad_option", "frmat=csv": "bad_option", "permissive_legacy=perhaps": "bad_option", "default_sampling_interval_ms=-1": "bad_option",
		"default_collector=%00": "bad_option", "events_key=" + strings.Repeat("k", 300): "bad_option", "events_key=nope": "events_not_list",
	} {
		if got := r.send(query, []byte(`{"a":1}`)); got.status != http.StatusBadRequest || got.Code != code {
			t.Errorf("%.40s: %d %s", query, got.status, got.raw)
		}
	}
	if got := r.send("", legacy, "Content-Encoding", "br"); got.status != http.StatusUnsupportedMediaType {
		t.Errorf("br: %d", got.status)
	}
	if got := r.send("", legacy, "Authorization", "Bearer nope"); got.status != http.StatusUnauthorized {
		t.Errorf("wrong key: %d", got.status)
	}
}

// What cannot be read as events is refused whole, with the loader's own words, and leaves nothing behind.
func TestTelemetryUnreadable(t *testing.T) {
	r := start(t, broker.Layout{}, func(c *ingest.Config) {
		c.Defaults = tenant.Limits{MaxBodyBytes: 1 << 20, MaxRawBytes: 8 << 20}
	})
	record := jsonOf(t, v2(0, nil))
	for name, c := range map[string]struct {
		query, code string
		status      int
		body        []byte
	}{
		"empty":          {"", "bad_json", 400, nil},
		"cut off":        {"", "bad_json", 400, append([]byte("["), record...)},
		"scalar":         {"", "not_container", 400, []byte("5")},
		"no events":      {"", "no_events", 400, []byte(`{"a":[]}`)},
		"no columns":     {"format=csv", "no_events", 400, []byte("a,b\n1,2\n")},
		"empty csv":      {"format=csv", "no_events", 400, nil},
		"tf of nothing":  {"format=tf", "no_events", 400, []byte(`{"peak_memory":1}`)},
		"not utf-8":      {"", "bad_utf8", 400, []byte("{\"a\":\"\xff\"}")},
		"torn gzip":      {"", "torn_gzip", 400, gz(t, record)[:60]},
		"bad checksum":   {"", "torn_gzip", 400, func() []byte { b := gz(t, record); b[len(b)-6] ^= 1; return b }()},
		"body too large": {"", "body_too_large", 413, bytes.Repeat([]byte(" "), 1<<20+1)},
		"raw too large":  {"", "body_too_large", 413, gz(t, bytes.Repeat([]byte(" "), 9<<20))},
	} {
		t.Run(name, func(t *testing.T) {
			got := r.send(c.query, c.body)
			if got.status != c.status || got.Code != c.code {
				t.Errorf("%d %s", got.status, got.raw)
			}
		})
	}
	if n := len(r.published()); n != 0 {
		t.Errorf("%d messages were published", n)
	}
	if n := r.metric("refused_total", "reason", "bad_json"); n != 2 {
		t.Errorf("refused_total{bad_json} is %v", n)
	}
	r.balanced()
}

// A hostile record costs itself: the right reason, its bytes kept, its neighbours stored.
func TestTelemetryHostileRecords(t *testing.T) {
	good, _ := json.Marshal(v2(0, nil))
	text := func(from, to string) string { return strings.Replace(string(good), from, to, 1) }
	cases := []struct{ name, record, code, field string }{
		{"10 MB string", text(`"host":"h"`, `"host":"`+strings.Repeat("x", 10<<20)+`"`), "record_too_large", ""},
		{"depth 10000", text(`"metadata":{}`, `"metadata":{"a":`+strings.Repeat("[", 10000)+strings.Repeat("]", 10000)+`}`), "too_deep", ""},
		{"duplicate keys", text(`"pid":7`, `"pid":7,"pid":"x"`), "not_integer", "pid"},
		{"2^64", text(`"timestamp_ns":1700000000000000000`, `"timestamp_ns":18446744073709551616`), "integer_range", "timestamp_ns"},
		{"NaN", text(`"pid":7`, `"pid":NaN`), "not_integer", "pid"},
		{"unknown key", text(`"pid":7`, `"pid":7,"PID":7`), "unknown_fields", ""},
		{"not an object", "5", "event_not_object", ""},
		{"used over total", text(`"device_total_bytes":null`, `"device_total_bytes":1`), "above_total", "device_used_bytes"},
		{"rank 1 of 1", text(`"pid":7`, `"pid":7,"rank":1`), "rank_outside_world", "rank"},
		{"5000 digits", text(`"pid":7`, `"pid":`+strings.Repeat("7", 5000)), "integer_too_long", ""},
	}
	for _, f := range []string{"schema_version", "timestamp_ns", "sampling_interval_ms", "pid", "device_id", "allocator_allocated_bytes", "allocator_reserved_bytes", "allocator_active_bytes", "allocator_inactive_bytes", "allocator_change_bytes", "device_used_bytes", "device_free_bytes", "device_total_bytes", "rank", "local_rank", "world_size"} {
		for _, v := range []any{"2", 2.5, true, []any{}, map[string]any{}} {
			record := jsonOf(t, v2(0, func(m map[string]any) { m[f] = v }))
			cases = append(cases, struct{ name, record, code, field string }{fmt.Sprintf("%s=%v", f, v), string(record), "not_integer", f})
		}
	}
	for _, f := range []string{"event_type", "collector", "host", "job_id", "context"} {
		record := jsonOf(t, v2(0, func(m map[string]any) { m[f] = 5 }))
		cases = append(cases, struct{ name, record, code, field string }{f + "=5", string(record), "not_string", f})
	}
	var body bytes.Buffer
	body.WriteByte('[')
	for i, c := range cases {
		body.WriteString(c.record)
		body.WriteByte(',')
		body.Write(jsonOf(t, v2(i, nil)))
		body.WriteByte(',')
	}
	// Lone surrogates and NaN in metadata are as good as anything.
	body.WriteString(text(`"metadata":{}`, `"metadata":{"n":NaN,"s":"\ud800"}`) + "]")
	r := start(t, broker.Layout{}, nil)
	got := r.send("", body.Bytes())
	if got.status != http.StatusOK || got.Accepted != uint64(len(cases)+1) || got.Rejected != uint64(len(cases)) {
		t.Fatalf("%d %.300s", got.status, got.raw)
	}
	for i, c := range cases {
		if i >= len(got.Refused) {
			break
		}
		if e := got.Refused[i]; e.Index != 2*i || e.Code != c.code || e.Field != c.field {
			t.Errorf("%s: %+v, want %s of %q", c.name, e, c.code, c.field)
		}
	}
	if len(got.Refused) != min(len(cases), 100) || got.Omitted != uint64(max(len(cases)-100, 0)) {
		t.Errorf("%d listed, %d omitted of %d", len(got.Refused), got.Omitted, len(cases))
	}
	events, refused := r.stored()
	if len(events) != len(cases)+1 {
		t.Errorf("%d neighbours stored of %d", len(events), len(cases)+1)
	}
	for i, m := range refused { // fewer than a hundred of each reason: each has its own part, in order
		if i == 0 {
			if m.Bytes != uint64(len(cases[0].record)) || len(m.body) != stream.RejectBytes || !strings.HasPrefix(cases[0].record, string(m.body)) {
				t.Errorf("the giant's part says %d bytes and has %d", m.Bytes, len(m.body))
			}
			continue
		}
		if string(m.body) != cases[i].record || m.Reject.Reason != cases[i].code || m.Session != "mem:unknown" {
			t.Errorf("%s: kept %.100q for %s", cases[i].name, m.body, m.Reject.Reason)
		}
	}
	r.balanced()
}

// A hundred thousand refused records of a kind share messages and keep their bytes.
func TestTelemetryManyRefusals(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	var body bytes.Buffer
	want := 0
	for i := range 20000 {
		n, _ := fmt.Fprintf(&body, `{"timestamp":"x","n":%d}`, i)
		want += n
		body.WriteByte('\n')
	}
	got := r.send("format=ndjson", body.Bytes())
	if got.Rejected != 20000 || len(got.Refused) != 100 || got.Omitted != 19900 {
		t.Fatalf("%.200s", got.raw)
	}
	_, refused := r.stored()
	var events, size uint64
	kept := 0
	for _, m := range refused {
		events, size = events+m.Events, size+m.Bytes
		kept += len(bytes.ReplaceAll(m.body, []byte("\n"), nil))
	}
	if events != 20000 || size != uint64(want) || kept != want || len(refused) > 150 {
		t.Errorf("%d messages with %d events, %d bytes, %d kept; want %d bytes", len(refused), events, size, kept, want)
	}
	r.balanced()
}

// Many ranks in one upload, each a session of its own in order; a resend after a crash halfway makes the same parts.
func TestTelemetryManySessions(t *testing.T) {
	layout := broker.Layout{}
	s := brokertest.Start(t, layout)
	r := startOn(t, s, nil)
	const ranks, each = 64, 300
	pad := strings.Repeat("m", 1500)
	var records []map[string]any
	for i := range each {
		for rank := range ranks {
			records = append(records, v2(i, func(m map[string]any) {
				m["rank"], m["world_size"], m["job_id"], m["pid"], m["host"] = rank, ranks, "job:1", 100+rank, "node%7"
				m["metadata"] = map[string]any{"pad": pad}
			}))
		}
	}
	body := ndjsonOf(t, records...)
	got := r.send("format=ndjson", body)
	if got.status != http.StatusOK || got.Sessions != ranks || got.Accepted != ranks*each {
		t.Fatalf("%d %.300s", got.status, got.raw)
	}
	first := r.published()
	sessions := map[string]int{}
	for _, m := range first {
		if m.Part != sessions[m.Session] {
			t.Errorf("part %d of %s comes as number %d", m.Part, m.Session, sessions[m.Session])
		}
		sessions[m.Session]++
	}
	if len(sessions) != ranks || sessions["mem:node%257:103:job%3A1:3"] < 1 || len(first) == ranks {
		t.Errorf("%d parts of sessions %v", len(first), sessions)
	}
	events, _ := r.stored()
	if len(events) != ranks*each {
		t.Fatalf("%d events stored", len(events))
	}
	for i := 1; i < len(events); i++ {
		if events[i].Rank == events[i-1].Rank && events[i].TimestampNS < events[i-1].TimestampNS {
			t.Fatal("events of a rank are out of order")
		}
	}
	// Forget that it was done, as if the gateway had died before it could say so.
	keys, err := s.Windows.Keys(t.Context())
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	if err := s.Windows.Purge(t.Context(), keys[0]); err != nil {
		t.Fatal(err)
	}
	if again := r.send("format=ndjson", body); again.Duplicate || again.Accepted != got.Accepted {
		t.Errorf("again: %.200s", again.raw)
	}
	if n := len(folded(r.published())); n != len(first) {
		t.Errorf("a resend makes %d distinct parts, the first made %d", n, len(first))
	}
}

func TestTelemetryIdempotencyKey(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	body := jsonOf(t, v2(0, nil))
	first := r.send("", body, "Idempotency-Key", "k1")
	again := r.send("", body, "Idempotency-Key", "k1")
	other := r.send("", jsonOf(t, v2(1, nil)), "Idempotency-Key", "k1")
	options := r.send("permissive_legacy=false", body, "Idempotency-Key", "k1")
	second := r.send("", body, "Idempotency-Key", "k2")
	if first.Accepted != 1 || first.Duplicate || !again.Duplicate || again.Accepted != 1 {
		t.Errorf("first %s, again %s", first.raw, again.raw)
	}
	for _, a := range []report{other, options} {
		if a.status != http.StatusUnprocessableEntity || a.Code != "idempotency_conflict" {
			t.Errorf("other content under the key: %d %s", a.status, a.raw)
		}
	}
	if second.Duplicate || second.Accepted != 1 {
		t.Errorf("another key: %s", second.raw)
	}
	if bad := r.send("", body, "Idempotency-Key", strings.Repeat("k", 300)); bad.status != http.StatusBadRequest {
		t.Errorf("long key: %d", bad.status)
	}
	if n := len(folded(r.published())); n != 2 {
		t.Errorf("%d parts stored, want one for each key", n)
	}
}

// A repeat is answered as the first time, errors included.
func TestTelemetryRepeatSaysTheSame(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	body := jsonOf(t, []any{v2(0, nil), 5, v2(1, func(m map[string]any) { m["pid"] = "x" })})
	first, again := r.send("", body), r.send("", body)
	again.raw = strings.Replace(again.raw, `"duplicate":true`, `"duplicate":false`, 1)
	if first.raw != again.raw || !again.Duplicate || len(first.Refused) != 2 {
		t.Errorf("first %s\nagain %s", first.raw, again.raw)
	}
	r.balanced()
}

func TestTelemetryRateLimit(t *testing.T) {
	r := start(t, broker.Layout{}, func(c *ingest.Config) {
		c.Defaults = tenant.Limits{EventsPerSecond: 1, BurstSeconds: 1}
	})
	if got := r.send("format=ndjson", bytes.Repeat([]byte("{}\n"), 50)); got.Rejected != 50 {
		t.Fatalf("%s", got.raw)
	}
	if got := r.send("", jsonOf(t, v2(0, nil))); got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", got.status, got.raw)
	}
}

func TestTelemetrySchema(t *testing.T) {
	r := start(t, broker.Layout{}, func(c *ingest.Config) { c.PathPrefix = "/profiler" })
	got := r.do(http.MethodGet, "/profiler/api/v1/telemetry/schema", nil, "Authorization", "")
	if got.status != http.StatusOK || got.header.Get("Content-Type") != "application/schema+json" || got.raw != string(telemetry.Schema()) {
		t.Errorf("%d %s", got.status, got.header)
	}
	if got := r.do(http.MethodGet, "/profiler/api/v1/telemetry", nil); got.status != http.StatusMethodNotAllowed {
		t.Errorf("GET of telemetry: %d", got.status)
	}
}

// The session of odd hosts and jobs is readable where it can be, and never another's.
func TestTelemetrySessionIDs(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	cases := []struct {
		host, job any
		want      string
	}{
		{"h", nil, "mem:h:7:-:0"}, {"h", "-", "mem:h:7:%2D:0"}, {"h", "a:b", "mem:h:7:a%3Ab:0"}, {"h%3A", nil, "mem:h%253A:7:-:0"},
		{"hö", nil, "mem:hö:7:-:0"}, {"a\nb", nil, "mem:sha256-"}, {strings.Repeat("h", 300), nil, "mem:sha256-"}, {strings.Repeat("h", 301), nil, "mem:sha256-"},
		{"h", strings.Repeat("j", 2000), "mem:sha256-"},
	}
	var records []any
	for _, c := range cases {
		records = append(records, v2(0, func(m map[string]any) { m["host"], m["job_id"] = c.host, c.job }))
	}
	if got := r.send("", jsonOf(t, records)); got.Sessions != len(cases) {
		t.Fatalf("%s", got.raw)
	}
	for i, m := range r.published() {
		if want := cases[i].want; m.Session != want && !(strings.HasSuffix(want, "-") && strings.HasPrefix(m.Session, want)) {
			t.Errorf("session %q, want %q", m.Session, want)
		}
	}
}
