package intrakernel_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/ingest"
	door "github.com/warpline/warpline/ingest/intrakernel"
	"github.com/warpline/warpline/proto/intrakernel"
	"github.com/warpline/warpline/proto/stream"
)

// timeline pairs a case without the gateway.
func timeline(t testing.TB, c *capture) (*intrakernel.Header, *intrakernel.Timeline) {
	t.Helper()
	h, err := intrakernel.ParseHeader(c.input)
	if err != nil {
		t.Fatal(err)
	}
	h.Options.CompleteEvents = true
	kept, err := intrakernel.Collect(bytes.NewReader(c.events), bytes.NewReader(c.counters), h)
	if err != nil {
		t.Fatal(err)
	}
	line, err := kept.Timeline(h)
	if err != nil {
		t.Fatal(err)
	}
	return h, line
}

// Of every vector, what travels on is what pairing gives; every record is accepted once; the session is named after the content.
func TestEveryVectorTravels(t *testing.T) {
	r := start(t, nil)
	want := map[string][]intrakernel.Event{}
	for _, name := range names(t) {
		c := load(t, name)
		_, line := timeline(t, c)
		sum := sha256.Sum256(bytes.Join([][]byte{c.input, c.events, c.counters}, nil))
		id := fmt.Sprintf("ikp:%x", sum[:16])
		a := r.send("", c)
		if a.status != http.StatusOK || a.SessionID != id || a.Accepted != uint64(line.Survivors) || a.Rejected != 0 || a.Duplicate {
			t.Errorf("%s: %d records, session %s: %s", name, line.Survivors, id, a.raw)
		}
		want[id] = line.Events
		packed := &capture{zip(c.input), zip(c.events), zip(c.counters)}
		if again := r.send("", packed); !again.Duplicate || again.SessionID != id || again.Accepted != a.Accepted {
			t.Errorf("%s, sent again as gzip: %s", name, again.raw)
		}
	}
	got := r.parts()
	if len(got) != len(want) {
		t.Errorf("%d sessions, want %d", len(got), len(want))
	}
	for id, events := range want {
		var all []intrakernel.Event
		for _, p := range got[id] {
			for _, v := range p.Visits {
				all = append(all, intrakernel.Event{TS: v.TS, Dur: v.Dur, Region: v.Region, Block: uint16(v.Block), Place: v.Warp | v.SM<<6,
					Instant: v.Instant})
			}
		}
		if len(all) != len(events) || len(all) > 0 && !reflect.DeepEqual(all, events) {
			t.Errorf("%s: %d events, want %d", id, len(all), len(events))
		}
	}
}

// The trace of the GEMM sample gives slices; equal bytes count once, also at two gateways at once.
func TestTraceAtTwoGateways(t *testing.T) {
	r := start(t, nil)
	other := r.gateway(nil)
	trace := readFile(t, vectors+"/samples/gemm_trace.json")
	var wait sync.WaitGroup
	answers := make([]answer, 8)
	for i := range answers {
		server := r.server
		if i%2 == 1 {
			server = other
		}
		wait.Go(func() {
			answers[i] = r.postTo(server, "session=gemm&kernel=tile", "application/json", bytes.NewReader(trace))
		})
	}
	wait.Wait()
	for _, a := range answers {
		if a.status != http.StatusOK || a.SessionID != "ikp:gemm" || a.Accepted < 12352 {
			t.Fatal(a.raw)
		}
	}
	slices := 0
	for _, p := range r.parts()["ikp:gemm"] {
		slices += len(p.Visits)
		if p.Kernel != "tile" || p.SliceRecords != 1 {
			t.Errorf("%+v", p.PartHead)
		}
	}
	if slices != 12352 {
		t.Errorf("%d slices, the sample has 12352", slices)
	}
}

// A trace of Triton's Proton has its kernels, and no scale.
func TestProton(t *testing.T) {
	r := start(t, nil)
	trace := readFile(t, "../../testdata/proton/two_kernels.chrome_trace")
	for i, body := range [][]byte{trace, trace, zip(trace)} {
		a := r.post("session=p&host=h", "application/json", bytes.NewReader(body))
		if a.status != http.StatusOK || a.SessionID != "ikp:p" || a.Accepted != 22 || a.Duplicate != (i > 0) {
			t.Error(a.raw)
		}
	}
	if a := r.post("session=p", "application/json", bytes.NewReader(trace)); a.Code != "session_conflict" {
		t.Error(a.raw)
	}
	if a := r.post("session=q&scale=2", "application/json", bytes.NewReader(trace)); a.Code != "bad_scale" {
		t.Error(a.raw)
	}
	parts := r.parts()
	if len(parts) != 1 || len(parts["ikp:p"]) != 1 {
		t.Fatalf("%d sessions", len(parts))
	}
	p := parts["ikp:p"][0]
	if p.Clock != intrakernel.ClockCycles || p.Host != "h" || p.Kernel != "" || len(p.Visits) != 21 || len(p.Names) != 4 {
		t.Errorf("%+v", p)
	}
}

// What a session holds cannot be replaced: other content or other options are a conflict, whatever came between.
func TestConflicts(t *testing.T) {
	r := start(t, nil)
	one, two := load(t, "paired_basic"), load(t, "two_samples")
	if a := r.send("session=a:b", one); a.SessionID != "ikp:a%3Ab" {
		t.Fatal(a.raw)
	}
	changed := *one
	changed.input = bytes.Replace(one.input, []byte(`{`), []byte(`{"kernel":"k",`), 1)
	for _, c := range []*capture{two, &changed} {
		a := r.send("session=a:b", c)
		if a.status != http.StatusUnprocessableEntity || a.Code != "session_conflict" || !strings.Contains(a.Detail, "ikp:a%3Ab") {
			t.Error(a.raw)
		}
	}
	if a := r.send("session=a:b", one); !a.Duplicate {
		t.Error(a.raw)
	}
}

// A capture that is deleted and sent again at once is stored again, each time: JetStream still remembers its parts then, and would drop
// them.
func TestDeletedCapturesComeBack(t *testing.T) {
	r := start(t, nil)
	one := load(t, "two_samples")
	token := stream.SessionToken("ikp:back")
	subject := stream.IngestSubject(stream.Partition("dev", "ikp:back", r.streams.Partitions), "dev", token)
	for range 3 {
		for _, again := range []bool{false, true} {
			if a := r.send("session=back", one); a.status != http.StatusOK || a.Accepted != 4 || a.Duplicate != again {
				t.Error(a.raw)
			}
		}
		if parts := r.parts()["ikp:back"]; len(parts) != 1 {
			t.Fatalf("%d parts are in INGEST, want 1", len(parts))
		}
		info, err := r.streams.Ingest.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// As the sink does.
		mark := binary.AppendUvarint(nil, info.State.LastSeq)
		if _, err := r.streams.Windows.Put(t.Context(), "dev."+token+".d", mark); err != nil {
			t.Fatal(err)
		}
		records, err := r.streams.JS.Stream(t.Context(), "KV_"+stream.WindowsBucket)
		if err != nil {
			t.Fatal(err)
		}
		if err := records.Purge(t.Context(), jetstream.WithPurgeSubject("$KV."+stream.WindowsBucket+".dev."+token+".*.>")); err != nil {
			t.Fatal(err)
		}
		if err := r.streams.Ingest.Purge(t.Context(), jetstream.WithPurgeSubject(subject)); err != nil {
			t.Fatal(err)
		}
	}
}

// Every input that cannot be taken is answered with the field and what to do, and nothing of it is stored.
func TestHostile(t *testing.T) {
	r := start(t, nil)
	c := load(t, "paired_basic")
	input := func(session string) []byte { return []byte(`{"session":{` + session + `},"trace_path":"t.json"}`) }
	const small = `"per_warp_cap":8,"grid_x":1,"threads_per_block":32`
	nested := strings.Repeat("[", 1<<16) + strings.Repeat("]", 1<<16)
	manyNames := `{"region_names":[` + strings.TrimSuffix(strings.Repeat(`"n",`, 1_000_000), ",") + `],"session":{` + small + `}}`
	trace := func(event string) string { return `{"traceEvents":[` + event + `]}` }
	blank := 1 << 30
	if testing.Short() { // under the race detector
		blank = 1 << 26
	}
	good := `{"name":"a","ph":"X","ts":1,"dur":2,"pid":3,"tid":65,"cname":"good","args":{"sm":3,"block":1,"warp":1}}`
	for _, test := range []struct {
		name                    string
		input, events, counters []byte
		status                  int
		code, detail            string
	}{
		{"counters of 2^32-1", input(small), make([]byte, 128), []byte{255, 255, 255, 255}, 200, "", ""},
		{"a ring that is no power of two", input(`"per_warp_cap":6,"grid_x":1,"threads_per_block":32`), c.events, c.counters, 400, "bad_input",
			"per_warp_cap: 6"},
		{"a product that overflows", input(`"per_warp_cap":2147483648,"grid_x":4294967295,"threads_per_block":4294967295`), c.events,
			c.counters, 400, "bad_input", "per_warp_cap 2147483648"},
		{"2^31 blocks", input(`"per_warp_cap":8,"grid_x":2147483648,"threads_per_block":32`), c.events, c.counters, 400, "bad_input",
			"grid_x 2147483648"},
		{"a file of another length", input(small), make([]byte, 256), make([]byte, 4), 400, "bad_events", "longer than"},
		{"cut inside a record", input(small), make([]byte, 100), []byte{8, 0, 0, 0}, 400, "bad_events", "inside a record"},
		{"too few counters", input(small), make([]byte, 128), nil, 400, "bad_counters", "ends after 0 bytes"},
		{"wrong types", []byte(`{"session":{"grid_x":"1"}}`), nil, nil, 400, "bad_input", "session.grid_x"},
		{"a kernel that is a number", []byte(`{"kernel":5,"session":{` + small + `}}`), make([]byte, 128), make([]byte, 4), 400, "bad_input",
			"kernel"},
		{"a rank below 0", []byte(`{"rank":-1,"session":{` + small + `}}`), make([]byte, 128), make([]byte, 4), 400, "bad_input", "rank: -1"},
		{"a rank that is huge", []byte(`{"rank":1180591620717411303424,"session":{` + small + `}}`), make([]byte, 128), make([]byte, 4), 400,
			"bad_input", "rank: "},
		{"a number of a thousand digits", input(`"per_warp_cap":` + strings.Repeat("8", 1000) + `,"grid_x":1,"threads_per_block":32`),
			make([]byte, 128), make([]byte, 4), 400, "bad_input", "session.per_warp_cap: "},
		{"a time that is none", []byte(`{"started_at":"noon","session":{` + small + `}}`), make([]byte, 128), make([]byte, 4), 400, "bad_input",
			"started_at"},
		{"a time before 1970", []byte(`{"started_at":"1970-01-01T00:00:00+05:00","session":{` + small + `}}`), make([]byte, 128),
			make([]byte, 4), 400, "bad_input", "started_at"},
		{"deep", []byte(`{"x":` + nested + `}`), nil, nil, 400, "bad_input", "nested"},
		{"a million names", []byte(manyNames), nil, nil, 400, "bad_input", "region_names[65536]"},
		{"gzip that is longer than declared", input(small), zip(make([]byte, 8<<20)), make([]byte, 4), 400, "bad_events", "longer than"},
		{"gzip that is cut", input(small), zip(c.events)[:20], make([]byte, 4), 400, "bad_events", "ends after"},
		{"no JSON", []byte("nonsense"), nil, nil, 400, "bad_input", "no JSON"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := r.send("", &capture{test.input, test.events, test.counters})
			if a.status != test.status || a.Code != test.code || !strings.Contains(a.Detail, test.detail) {
				t.Errorf("%d %.400s; want %d %s with %q", a.status, a.raw, test.status, test.code, test.detail)
			}
		})
	}
	for _, test := range []struct {
		name, query, contentType, body string
		status                         int
		code, detail                   string
	}{
		{"a form without end", "", "multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"input\"\r\n\r\n{", 400,
			"bad_form", "ends in the middle"},
		{"a form that does not begin", "", "multipart/form-data; boundary=x", string(zip(bytes.Repeat([]byte("\n"), blank))), 400, "bad_form",
			"no field begins within 65536 bytes"},
		{"a form without boundary", "", "multipart/form-data", "--x--", 400, "bad_form", "boundary"},
		{"a field that is missing", "", "multipart/form-data; boundary=x",
			"--x\r\nContent-Disposition: form-data; name=\"input\"\r\n\r\n{}\r\n--x--\r\n", 400, "bad_form", "no field events"},
		{"a field that is unknown", "", "multipart/form-data; boundary=x",
			"--x\r\nContent-Disposition: form-data; name=\"trace\"\r\n\r\n{}\r\n--x--\r\n", 400, "bad_form", "trace"},
		{"an option that is unknown", "scael=2", "application/json", "{}", 400, "bad_option", "scael"},
		{"a scale that is none", "scale=x", "application/json", "{}", 400, "bad_option", "scale"},
		{"options of a form", "scale=2", "multipart/form-data; boundary=x", "--x--", 400, "bad_option", "scale"},
		{"no trace", "", "application/json", "{}", 400, "bad_trace", "traceEvents"},
		{"a trace of another tool", "", "application/json", trace(`{"name":"a","ph":"X","ts":1,"dur":2,"pid":1,"tid":1}`), 400, "bad_trace",
			"event at byte"},
		{"a trace that ends", "", "application/json", trace(good)[:60], 400, "bad_trace", "trace"},
		{"a merged trace", "", "application/json", `{"traceEvents":[` + good + `],"metadata":{"ikp_nsys_merge":{}}}`, 422, "stretched_times",
			"stretched"},
		{"another scale than it was written with", "scale=3", "application/json", trace(good), 400, "bad_trace", "scale"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := r.post(test.query, test.contentType, text(test.body))
			if a.status != test.status || a.Code != test.code || !strings.Contains(a.Detail, test.detail) {
				t.Errorf("%d %.400s; want %d %s with %q", a.status, a.raw, test.status, test.code, test.detail)
			}
		})
	}
	if stored := r.parts(); len(stored) != 1 {
		t.Errorf("%d sessions are stored, want the one that was taken", len(stored))
	}
}

// A buffer that is far larger than limit-raw-body is taken, since little of it is kept; too many kept records are refused.
func TestLimitsCountWhatIsKept(t *testing.T) {
	r := start(t, func(c *ingest.Config) { c.Defaults.MaxRawBytes = 1 << 20 })
	const warps, ring = 16, 1 << 16 // 16 MiB
	input := fmt.Appendf(nil, `{"session":{"per_warp_cap":%d,"grid_x":%d,"threads_per_block":32},"block_filter":[0],"trace_path":"t.json"}`,
		ring, warps)
	events, counters := make([]byte, 0, warps*ring*16), make([]byte, 0, 4*warps)
	for block := range warps {
		for i := range ring {
			events = intrakernel.AppendRecord(events, intrakernel.Record{TS: uint64(i), Type: intrakernel.Type(i % 2), Block: uint16(block)})
		}
		counters = append(counters, 0, 0, 1, 0)
	}
	a := r.send("", &capture{input, zip(events), counters})
	if a.status != http.StatusOK || a.Accepted != ring {
		t.Errorf("a buffer of %d bytes, of which %d are kept: %s", len(events), ring*16, a.raw)
	}
	all := bytes.Replace(input, []byte("[0]"), []byte("null"), 1)
	a = r.send("", &capture{all, zip(events), counters})
	if a.status != http.StatusRequestEntityTooLarge || a.Code != "too_many_records" {
		t.Errorf("a buffer of which all is kept: %s", a.raw)
	}
}

// While a large capture is read, whoever sent it, small ones are taken.
func TestSmallCapturesWaitForNobody(t *testing.T) {
	r := start(t, func(c *ingest.Config) { c.Sources = []ingest.Source{door.Busy()} })
	for _, name := range []string{"gemm_like", "marks"} {
		if a := r.send("", load(t, name)); a.status != http.StatusOK {
			t.Errorf("%s: %s", name, a.raw)
		}
	}
	trace := bytes.NewReader(readFile(t, vectors+"/samples/gemm_trace.json"))
	if a := r.post("session=gemm", "application/json", trace); a.status != http.StatusOK {
		t.Error(a.raw)
	}
}

// Of a buffer as long as the peer's sample, almost all of which is empty, and of a million records without a partner, little is in memory.
// A buffer that is declared too long is refused.
func TestHugeCaptures(t *testing.T) {
	if testing.Short() {
		t.Skip("a gigabyte takes minutes under the race detector; TestLargeCaptures sends several at once")
	}
	r := start(t, nil)
	input := func(cap, blocks int) []byte {
		return fmt.Appendf(nil, `{"session":{"per_warp_cap":%d,"grid_x":%d,"threads_per_block":256},"trace_path":"t.json"}`, cap, blocks)
	}
	alone := func(kind intrakernel.Type) []byte {
		const ring = 1 << 17
		events := make([]byte, 0, 8*ring*intrakernel.RecordSize)
		for i := range 8 * ring {
			events = intrakernel.AppendRecord(events, intrakernel.Record{TS: uint64(i % ring), Type: kind, Place: uint16(i / ring)})
		}
		return zip(events)
	}
	var empty bytes.Buffer
	z, _ := gzip.NewWriterLevel(&empty, gzip.BestSpeed)
	ring := make([]byte, 8192*intrakernel.RecordSize)
	slices := make([]byte, 0, 1<<10)
	for slot := range 1024 * 8 {
		slices = slices[:0]
		for i := range 4 {
			slices = intrakernel.AppendRecord(slices, intrakernel.Record{TS: uint64(slot + 32*i), Type: intrakernel.Type(i % 2),
				Block: uint16(slot / 8), Place: uint16(slot % 8)})
		}
		z.Write(append(slices, ring[len(slices):]...))
	}
	z.Close()
	for _, test := range []struct {
		name            string
		input, events   []byte
		counter         uint32 // of each slot
		slots           int
		records, visits int
		status          int
		allocated       uint64 // bytes, at most, whole buffers not among them
		wrong           string
	}{
		{name: "1 GiB, almost empty", input: input(8192, 1024), events: empty.Bytes(), counter: 4, slots: 8192, records: 32768, visits: 16384,
			status: 200, allocated: 64 << 20},
		{name: "begins alone", input: input(1<<17, 1), events: alone(intrakernel.Begin), counter: 1 << 17, slots: 8, records: 1 << 20,
			status: 200, allocated: 128 << 20},
		{name: "ends alone", input: input(1<<17, 1), events: alone(intrakernel.End), counter: 1 << 17, slots: 8, records: 1 << 20,
			status: 200, allocated: 128 << 20},
		{name: "over 8 GiB", input: input(1<<20, 128), slots: 1024, status: 400, allocated: 16 << 20, wrong: "at most 8589934592 are read"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var counters []byte
			for range test.slots {
				counters = binary.LittleEndian.AppendUint32(counters, test.counter)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			session := strings.ReplaceAll(test.name, " ", "-")
			a := r.send("session="+session, &capture{test.input, test.events, counters})
			runtime.ReadMemStats(&after)
			if a.status != test.status || a.Accepted != uint64(test.records) || !strings.Contains(a.Detail, test.wrong) {
				t.Fatalf("%d %s", a.status, a.raw)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > test.allocated {
				t.Errorf("%d MiB were allocated, want at most %d", got>>20, test.allocated>>20)
			}
			visits := 0
			for _, p := range r.parts()["ikp:"+session] {
				visits += len(p.Visits)
			}
			if visits != test.visits {
				t.Errorf("%d visits, want %d", visits, test.visits)
			}
		})
	}
}

// A large capture is stored whole, also when another one took its place meanwhile: of those that are paired ring by ring, and of others.
func TestLargeCaptures(t *testing.T) {
	r := start(t, nil)
	const ring = 1 << 17
	var wait sync.WaitGroup
	for n := range 4 {
		events := make([]byte, 0, ring*intrakernel.RecordSize)
		for i := range ring {
			events = intrakernel.AppendRecord(events, intrakernel.Record{TS: uint64(i + n), Type: intrakernel.Type(i % 2), Region: uint16(n),
				Block: uint16(n / 2)}) // block 1 is not the ring's
		}
		input := fmt.Appendf(nil, `{"session":{"per_warp_cap":%d,"grid_x":1,"threads_per_block":32},"trace_path":"t.json"}`, ring)
		wait.Go(func() {
			a := r.send(fmt.Sprintf("session=large%d", n), &capture{input, zip(events), []byte{0, 0, 2, 0}})
			if a.status != http.StatusOK || a.Accepted != ring {
				t.Error(a.raw)
			}
		})
	}
	wait.Wait()
	stored := r.parts()
	if len(stored) != 4 {
		t.Errorf("%d sessions", len(stored))
	}
	for session, parts := range stored {
		slices := 0
		for _, p := range parts {
			slices += len(p.Visits)
		}
		if slices != ring/2 {
			t.Errorf("%s: %d slices, want %d", session, slices, ring/2)
		}
	}
}

// A large capture whose upload ended half-way is stored whole when it comes again, at another gateway: parts are cut in the same places.
func TestLargeCaptureHalfSent(t *testing.T) {
	r := start(t, nil)
	other := r.gateway(nil)
	const blocks, ring = 64, 1 << 14
	var events, counters []byte
	for block := range blocks {
		for i := range ring {
			events = intrakernel.AppendRecord(events, intrakernel.Record{TS: uint64(i*i%977 + i*1000), Type: intrakernel.Type(i % 2),
				Region: uint16(i / 2 % 5), Block: uint16(block)})
		}
		counters = binary.LittleEndian.AppendUint32(counters, ring)
	}
	input := fmt.Appendf(nil, `{"session":{"per_warp_cap":%d,"grid_x":%d,"threads_per_block":32},"trace_path":"t.json"}`, ring, blocks)
	contentType, body := form(field{"input", input}, field{"events", zip(events)}, field{"counters", counters})
	stored := func() uint64 {
		info, err := r.streams.Ingest.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return info.State.Msgs
	}
	ctx, cancel := context.WithCancel(t.Context())
	url := r.server.URL + "/api/v1/intrakernel?session=half"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+devKey)
	req.Header.Set("Content-Type", contentType)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if res, err := http.DefaultClient.Do(req); err == nil {
			res.Body.Close()
		}
	}()
	for stored() < 2 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-ended
	r.server.CloseClientConnections()
	t.Logf("%d parts when the first upload ended", stored())
	a := r.postTo(other, "session=half", contentType, body)
	if a.status != http.StatusOK || a.Accepted != blocks*ring {
		t.Fatal(a.raw)
	}
	slices, parts := 0, r.parts()["ikp:half"]
	for i, p := range parts {
		slices += len(p.Visits)
		if p.Parts != len(parts) {
			t.Errorf("part %d says %d parts, and there are %d", i, p.Parts, len(parts))
		}
	}
	if slices != blocks*ring/2 || len(parts) < 4 {
		t.Errorf("%d slices in %d parts", slices, len(parts))
	}
}
