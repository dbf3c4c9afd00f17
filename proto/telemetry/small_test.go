package telemetry_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/telemetry"
)

func event(t *testing.T, text string, o *telemetry.Options) telemetry.Event {
	t.Helper()
	var v telemetry.Validator
	var e telemetry.Event
	if r := v.Event(&e, []byte(text), o); r != nil {
		t.Fatalf("%s: %s", text, r.Message)
	}
	return e
}

func TestCollectors(t *testing.T) {
	for _, tt := range []struct{ name, backend, framework string }{
		{"stormlog.cuda_tracker", "cuda", "pytorch"}, {"gpumemprof.cuda_tracker", "cuda", "pytorch"},
		{"stormlog.rocm_tracker", "rocm", "pytorch"}, {"gpumemprof.rocm_tracker", "rocm", "pytorch"},
		{"stormlog.mps_tracker", "mps", "pytorch"}, {"gpumemprof.mps_tracker", "mps", "pytorch"},
		{"stormlog.cpu_tracker", "cpu", ""}, {"gpumemprof.cpu_tracker", "cpu", ""},
		{"stormlog.tensorflow.memory_tracker", "", "tensorflow"}, {"tfmemprof.memory_tracker", "", "tensorflow"},
		{"acme.custom/1", "", ""}, {"stormlog.", "", ""}, {"Stormlog.cuda_tracker", "", ""},
	} {
		if b, f := telemetry.CollectorOf(tt.name); b != tt.backend || f != tt.framework {
			t.Errorf("%s: %q %q, want %q %q", tt.name, b, f, tt.backend, tt.framework)
		}
	}
	for text, want := range map[string][2]string{
		`{"timestamp":1,"memory_mb":1}`:                                                                          {"", "tensorflow"},
		`{"timestamp":1,"memory_mb":1,"device":"/CPU:0"}`:                                                        {"cpu", "tensorflow"},
		`{"timestamp":1,"collector":"acme","metadata":{"backend":" ROCm "}}`:                                     {"rocm", ""},
		`{"timestamp":1,"collector":"acme","metadata":{"backend":"xpu"}}`:                                        {"", ""},
		`{"timestamp":1,"collector":"stormlog.cuda_tracker","metadata":{"backend":"rocm"}}`:                      {"cuda", "pytorch"},
		`{"timestamp":1,"collector":"tfmemprof.memory_tracker","metadata":{"a":{"backend":1},"backend":"cuda"}}`: {"cuda", "tensorflow"},
	} {
		e := event(t, text, nil)
		if b, f := e.Source(); b != want[0] || f != want[1] {
			t.Errorf("%s: %q %q, want %q", text, b, f, want)
		}
	}
}

func TestPresence(t *testing.T) {
	e := event(t, compact, nil)
	if e.Version != 2 || e.Has&telemetry.InferredCapabilities == 0 {
		t.Errorf("%+v", e)
	}
	e.Has &^= telemetry.InferredCapabilities
	all := telemetry.HasActive | telemetry.HasInactive | telemetry.HasFree | telemetry.HasTotal | telemetry.HasContext | telemetry.HasJobID |
		telemetry.HasRank | telemetry.HasLocalRank | telemetry.HasWorldSize
	if e.Has != all || e.Legacy || e.Rank != 1 || e.WorldSize != 4 || string(e.JobID) != "job-7" ||
		string(e.Metadata) != `{"backend":"cuda"}` {
		t.Errorf("%+v", e)
	}
	e = event(t, `{"timestamp":1,"metadata":{"rank":2,"world_size":3}}`, nil)
	if e.Has != telemetry.HasRank|telemetry.HasWorldSize|telemetry.InferredCapabilities || !e.Legacy || e.Rank != 2 || e.LocalRank != 2 ||
		string(e.Metadata) != "{}" {
		t.Errorf("%+v", e)
	}
}

// The events of an out-of-memory bundle, whose extra keys the peer loses.
func TestBundleKeys(t *testing.T) {
	const text = `{"timestamp":1700000000.25,"event_type":"error","memory_allocated":256,"memory_reserved":512,"memory_change":0,` +
		`"device_id":0,` +
		`"metadata":{},"active_memory":200,"inactive_memory":56,"device_used":600,"device_free":400,"device_total":1024,"backend":"cuda"}`
	as := event(t, text, nil)
	if as.Has&(telemetry.HasActive|telemetry.HasInactive) != 0 || as.DeviceUsed != 256 || as.DeviceFree != 768 {
		t.Errorf("as the peer: %+v", as)
	}
	e := event(t, text, &telemetry.Options{BundleKeys: true})
	const has = telemetry.HasActive | telemetry.HasInactive | telemetry.HasFree | telemetry.HasTotal
	if e.Active != 200 || e.Inactive != 56 || e.DeviceUsed != 600 || e.DeviceFree != 400 || e.DeviceTotal != 1024 || e.Has&has != has {
		t.Errorf("with its keys: %+v", e)
	}
	if e := event(t, strings.Replace(text, `"device_used"`, `"device_used_bytes":601,"device_used"`, 1),
		&telemetry.Options{BundleKeys: true}); e.DeviceUsed != 601 {
		t.Errorf("the canonical key must win: %+v", e)
	}
}

func TestDefaults(t *testing.T) {
	e := event(t, `{"timestamp":1}`, &telemetry.Options{DefaultCollector: "mine", DefaultSamplingIntervalMS: 250})
	if string(e.Collector) != "mine" || e.SamplingIntervalMS != 250 {
		t.Errorf("%+v", e)
	}
	var v telemetry.Validator
	for text, want := range map[string]string{
		`{"timestamp":1}`:                       "sampling_interval_ms must be >= 0",
		`{"timestamp":-1}`:                      "timestamp_ns must be >= 0",
		`{"timestamp":1,"host":3}`:              "host must be a string",
		`{"timestamp":1,"rank":-1,"context":5}`: "rank must be >= 0",
	} {
		if r := v.Event(&e, []byte(text), &telemetry.Options{DefaultSamplingIntervalMS: -1}); r == nil || r.Message != want {
			t.Errorf("%s: %v, want %q", text, r, want)
		}
	}
	if r := v.Event(&e, []byte(`{"timestamp":1}`), &telemetry.Options{DefaultCollector: " "}); r == nil || r.Code != telemetry.BlankString {
		t.Errorf("blank default collector: %v", r)
	}
}

// Every listed divergence of a verdict, and what stands just on this side of it.
func TestDivergences(t *testing.T) {
	legacy := func(device string) string { return `{"timestamp":1,"device":"` + device + `"}` }
	tests := []struct {
		code      telemetry.Code
		bad, good string
	}{
		{telemetry.IntegerRange, with("allocator_change_bytes", "-9223372036854775809"), with("allocator_change_bytes", "-9223372036854775808")},
		{telemetry.IntegerRange, `{"timestamp":9223372037}`, `{"timestamp":9223372036}`},
		{telemetry.IntegerRange, with("world_size", "9223372036854775808"), with("world_size", "9223372036854775807")},
		{telemetry.IntegerRange, legacy("cuda:9223372036854775808"), legacy("cuda:9223372036854775807")},
		{telemetry.NonASCIIDigits, legacy(`cuda:\u0663`), legacy(`cuda:\u00bd`)},
		{telemetry.NonASCIIDigits, legacy("cuda:1²"), legacy("²:x")},
		{telemetry.RecordTooLarge, "[" + with("context", `"`+strings.Repeat("x", 1<<20)+`"`) + "]",
			"[" + with("context", `"`+strings.Repeat("x", 1<<20-1000)+`"`) + "]"},
		{telemetry.TooDeep, with("metadata", `{"a":`+strings.Repeat("[", 899)+strings.Repeat("]", 899)+"}"),
			with("metadata", `{"a":`+strings.Repeat("[", 898)+strings.Repeat("]", 898)+"}")},
		{telemetry.IntegerTooLong, with("metadata", `{"a":`+strings.Repeat("9", 4301)+"}"),
			with("metadata", `{"a":`+strings.Repeat("9", 4300)+"}")},
		{telemetry.BadUTF8, with("context", "\"\xed\xa0\x80\""), with("context", `"\ud800"`)},
	}
	tested := map[telemetry.Code]bool{"": true}
	for _, tt := range tests {
		tested[tt.code] = true
		if got := inTwo(t, []byte(tt.bad), telemetry.Options{}); len(got.codes) != 1 || got.codes[0] != tt.code {
			t.Errorf("%.100s: %q %q, want %q", tt.bad, got.document, got.codes, tt.code)
		}
		if got := inTwo(t, []byte(tt.good), telemetry.Options{}); len(got.codes) != 1 || got.codes[0] != "" {
			t.Errorf("%.100s: %q %q, want it accepted", tt.good, got.document, got.messages)
		}
	}
	for _, d := range telemetry.Divergences() {
		if !tested[d.Code] {
			t.Errorf("%s is listed and not tested", d.Code)
		}
		if d.What == "" || d.Peer == "" || d.Here == "" {
			t.Errorf("%+v is not described", d)
		}
	}
	if e := event(t, with("metadata", `{"a":[1E2,-0,1e999,1180591620717411303424]}`), nil); string(e.AppendMetadata(nil)) != `{"a":[1E2,-0,`+
		`1e999,1180591620717411303424]}` {
		t.Errorf("numbers inside metadata: %s", e.AppendMetadata(nil))
	}
	// The peer's refusals come first, also for integers that do not fit.
	var v telemetry.Validator
	for text, want := range map[string]string{
		with("timestamp_ns", "-18446744073709551616"):                           "timestamp_ns must be >= 0",
		with("device_used_bytes", "18446744073709551616"):                       "device_used_bytes cannot exceed device_total_bytes",
		with("rank", "18446744073709551616"):                                    "rank must be < world_size",
		with("timestamp_ns", `18446744073709551616,"metadata":[]`):              "metadata must be an object",
		with("schema_version", "18446744073709551616"):                          "Unsupported schema_version: 18446744073709551616",
		`{"timestamp":1e300,"device_total_bytes":-1}`:                           "cannot convert float infinity to integer",
		`{"timestamp":1e280,"device_total_bytes":5,"device_used_bytes":6}`:      "device_used_bytes cannot exceed device_total_bytes",
		`{"timestamp":1,"memory_mb":1e200,"device_total":99999999999999999999}`: "device_used_bytes cannot exceed device_total_bytes",
	} {
		var e telemetry.Event
		if r := v.Event(&e, []byte(text), nil); r == nil || r.Message != want {
			t.Errorf("%s: %v, want %q", text, r, want)
		}
	}
}

func TestLines(t *testing.T) {
	data := "\n" + `{"timestamp":1}` + "\r\n  \n" + `{"timestamp":2` + "\n[]\n{\"timestamp\":3} x\n\xff\n" + `{"events":[]}` + "\n" +
		` {"timestamp":4} `
	got := inOne(t, strings.NewReader(data), telemetry.Options{Lines: true})
	want := []string{"", "Expecting ',' delimiter: line 1 column 15 (char 14)", "Event at index 2 must be an object",
		"Extra data: line 1 column 17 (char 16)", "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
		"Legacy record is missing a valid timestamp", ""}
	if !slices.Equal(got.messages, want) || got.document != "" {
		t.Errorf("%q %q", got.document, got.messages)
	}
	if got := inTwo(t, nil, telemetry.Options{Lines: true}); got.document != "" || got.messages != nil {
		t.Errorf("an empty file: %+v", got)
	}
}

// An object with a list that does not fit in memory cannot be looked through twice in one pass.
func TestEventsKeyRepeated(t *testing.T) {
	pad := `,"pad":"` + strings.Repeat("x", 2<<20) + `"`
	data := `{"events":[{"timestamp":1},{"timestamp":2}]` + pad + `,"events":[{"timestamp":3}]}`
	one := inOne(t, strings.NewReader(data), telemetry.Options{})
	if len(one.messages) != 2 || !strings.Contains(one.document, "more than once") {
		t.Errorf("in one pass: %d records, %q", len(one.messages), one.document)
	}
	if two := inTwo(t, []byte(data), telemetry.Options{}); len(two.messages) != 1 || two.document != "" {
		t.Errorf("surveyed: the last list must count: %+v", two)
	}
	for data, want := range map[string]string{
		`{"timestamp":1` + pad + `}`:              "record is longer than 1048576 bytes",
		`{"a":1` + pad + `}`:                      "JSON payload does not contain telemetry events",
		`{"b` + strings.Repeat("é", 1<<20):        "Unterminated string starting at: line 1 column 2 (char 1)",
		"[\r\n\"" + strings.Repeat("é", 1<<20):    "Unterminated string starting at: line 2 column 1 (char 2)",
		`{"a":1` + pad + `} x`:                    "Extra data: line 1 column 2097170 (char 2097169)",
		`{"a":[1]` + pad + `,"events":[5,` + "\n": "Expecting value: line 2 column 1 (char 2097183)",
	} {
		one, two := inOne(t, strings.NewReader(data), telemetry.Options{}), inTwo(t, []byte(data), telemetry.Options{})
		for _, got := range []outcome{one, two} {
			if said := got.document + strings.Join(got.messages, ""); !strings.HasSuffix(
				strings.Replace(said, "Event at index 0 must be an object", "", 1), want) {
				t.Errorf("%.30s: %q %q, want %q", data, got.document, got.messages, want)
			}
		}
	}
}

// admits evaluates what of JSON Schema the embedded schema uses.
func admits(schema map[string]any, v any) bool {
	if choices := asList(schema["oneOf"]); choices != nil {
		n := 0
		for _, s := range choices {
			if admits(s.(map[string]any), v) {
				n++
			}
		}
		return n == 1
	}
	kinds, _ := schema["type"].([]any)
	if s, ok := schema["type"].(string); ok {
		kinds = []any{s}
	}
	kind := ""
	n, isNumber := v.(float64)
	switch x := v.(type) {
	case nil:
		kind = "null"
	case bool:
		kind = "boolean"
	case string:
		kind = "string"
		if least, ok := schema["minLength"].(float64); ok && float64(len(x)) < least {
			return false
		}
	case float64:
		if kind = "number"; n == math.Trunc(n) {
			kind = "integer"
		}
	case map[string]any:
		kind = "object"
		properties, _ := schema["properties"].(map[string]any)
		for _, k := range asList(schema["required"]) {
			if _, ok := x[k.(string)]; !ok {
				return false
			}
		}
		for k, value := range x {
			p, ok := properties[k].(map[string]any)
			if !ok && schema["additionalProperties"] == false || ok && !admits(p, value) {
				return false
			}
		}
	}
	if !slices.Contains(kinds, any(kind)) {
		return false
	}
	if c, ok := schema["const"]; ok && c != v {
		return false
	}
	least, ok := schema["minimum"].(float64)
	return !ok || !isNumber || n >= least
}

func asList(v any) []any { l, _ := v.([]any); return l }

// Our schema says what the peer's says about every case, and what the rules accept it never refuses.
func TestSchema(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(telemetry.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	laxer := 0
	cases(t, "v2_cases.jsonl", func(line []byte) {
		var c struct {
			Name     string
			Input    any
			Validate struct{ Verdict string }
			Schema   struct{ Verdict string } `json:"json_schema"`
		}
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		if got := admits(schema, c.Input); got != (c.Schema.Verdict == "accept") {
			t.Errorf("%s: %v, the peer's schema says %s", c.Name, got, c.Schema.Verdict)
		} else if got && c.Validate.Verdict != "accept" {
			laxer++
		}
	})
	for _, file := range []string{"v4/v3_cases.jsonl", "v4/v4_cases.jsonl"} {
		cases(t, file, func(line []byte) {
			var c struct {
				Name     string
				Input    any
				Validate struct{ Verdict string }
			}
			if err := json.Unmarshal(line, &c); err != nil {
				t.Fatal(err)
			}
			if got := admits(schema, c.Input); !got && c.Validate.Verdict == "accept" {
				t.Errorf("%s: the schema refuses what the peer accepts", c.Name)
			} else if got && c.Validate.Verdict != "accept" {
				laxer++
			}
		})
	}
	t.Logf("the schema admits %d cases that the rules refuse", laxer)
	if laxer == 0 || !strings.Contains(schema["$comment"].(string), "stricter") {
		t.Error("the schema does not say where it is laxer")
	}
	if own := telemetry.Schema(); true {
		own[0] = 'x'
		if bytes.Equal(own, telemetry.Schema()) {
			t.Error("the schema is shared")
		}
	}
	file, err := os.ReadFile("schema.json")
	if err != nil || !bytes.Equal(file, telemetry.Schema()) {
		t.Error("the schema is not the file", err)
	}
}

// The 23 keys, in order.
func TestKeyOrder(t *testing.T) {
	e := event(t, good, nil)
	d := json.NewDecoder(bytes.NewReader(e.AppendJSON(nil)))
	var keys []string
	for depth := 0; d.More() || depth > 0; {
		tok, err := d.Token()
		if err != nil {
			break
		}
		if tok == json.Delim('{') {
			depth++
		} else if depth == 1 {
			keys = append(keys, tok.(string))
			var value json.RawMessage
			if err := d.Decode(&value); err != nil {
				t.Fatal(err)
			}
		}
		if !d.More() {
			break
		}
	}
	want := strings.Fields("schema_version session_id timestamp_ns event_type collector sampling_interval_ms pid host job_id rank " +
		"local_rank world_size device_id " +
		"allocator_allocated_bytes allocator_reserved_bytes allocator_active_bytes allocator_inactive_bytes allocator_change_bytes " +
		"device_used_bytes " +
		"device_free_bytes device_total_bytes context metadata")
	if !slices.Equal(keys, want) {
		t.Errorf("%q", keys)
	}
}

func TestNoAllocation(t *testing.T) {
	var v telemetry.Validator
	var e telemetry.Event
	var health telemetry.HealthReader
	for _, record := range []string{good, v4Record} {
		text := []byte(record)
		if n := testing.AllocsPerRun(200, func() {
			if r := v.Event(&e, text, nil); r != nil {
				t.Fatal(r)
			}
			e.Source()
			health.Read(e.Metadata)
		}); n > 0 {
			t.Errorf("%v allocations a record", n)
		}
	}
	var out []byte
	if n := testing.AllocsPerRun(200, func() { out = e.AppendJSON(out[:0]) }); n > 2 { // the race detector empties pools at random
		t.Errorf("%v allocations a line", n)
	}
}
