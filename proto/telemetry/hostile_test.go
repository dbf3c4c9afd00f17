package telemetry_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/telemetry"
)

const good = `{"schema_version": 2, "timestamp_ns": 1700000000123456789, "event_type": "sample", "collector": "stormlog.cuda_tracker", ` +
	`"sampling_interval_ms": 100, "pid": 4242, "host": "node-a", "job_id": null, "rank": 1, "local_rank": 1, "world_size": 4, "device_id": ` +
	`0, ` +
	`"allocator_allocated_bytes": 1073741824, "allocator_reserved_bytes": 2147483648, "allocator_active_bytes": 1000000000, ` +
	`"allocator_inactive_bytes": 73741824, "allocator_change_bytes": 4096, "device_used_bytes": 3221225472, "device_free_bytes": ` +
	`13958643712, ` +
	`"device_total_bytes": 17179869184, "context": "step 10", "metadata": {"backend": "cuda", "supports_device_total": true, ` +
	`"sampling_source": "torch"}}`

func unquote(t *testing.T, b []byte) []byte {
	t.Helper()
	var s string
	if err := json.NewDecoder(bytes.NewReader(b)).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return []byte(s)
}

func with(key, value string) string {
	return strings.TrimSuffix(good, "}") + `,"` + key + `":` + value + "}"
}

// One bad record stands between two good ones; it must be refused for the right reason, and they must come through.
func TestHostile(t *testing.T) {
	big := strings.Repeat("x", 10<<20)
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	type hostile struct {
		name, record string
		code         telemetry.Code
	}
	tests := []hostile{
		{"10 MB string", with("context", `"`+big+`"`), telemetry.RecordTooLarge},
		{"10 MB key", with(big, `1`), telemetry.RecordTooLarge},
		{"10 MB of digits", with("pid", strings.Repeat("1", 10<<20)), telemetry.RecordTooLarge},
		{"10 MB that is not an object", `"` + big + `"`, telemetry.EventNotObject},
		{"10 MB of brackets", with("metadata", strings.Repeat("[", 1<<19)+strings.Repeat("]", 1<<19)+strings.Repeat(" ", 9<<20)),
			telemetry.RecordTooLarge},
		{"depth 10 000", with("metadata", `{"a":`+deep+`}`), telemetry.TooDeep},
		{"depth 10 000 of objects", with("metadata", strings.Repeat(`{"a":`, 10_000)+"1"+strings.Repeat("}", 10_000)), telemetry.TooDeep},
		{"depth 901", with("metadata", `{"a":`+strings.Repeat("[", 899)+strings.Repeat("]", 899)+`}`), telemetry.TooDeep},
		{"2^64", with("device_total_bytes", "18446744073709551616"), telemetry.IntegerRange},
		{"4301 digits", with("pid", strings.Repeat("9", 4301)), telemetry.IntegerTooLong},
		{"NaN", with("pid", "NaN"), telemetry.NotInteger},
		{"Infinity", with("timestamp_ns", "Infinity"), telemetry.NotInteger},
		{"not UTF-8", with("context", "\"\xff\""), telemetry.BadUTF8},
		{"200 000 unknown keys", `{` + strings.Repeat(`"":1,`, 200_000) + good[1:], telemetry.UnknownFields},
		{"duplicate key", with("schema_version", "5"), telemetry.UnsupportedSchema},
		{"not an object", "5", telemetry.EventNotObject},
	}
	keys := strings.Fields(requiredKeys + " " + optionalKeys)
	for _, k := range keys {
		wrong := "[1]"
		if k == "metadata" {
			wrong = `"x"`
		}
		code := telemetry.NotInteger
		switch k {
		case "event_type", "collector", "host", "job_id", "context":
			code = telemetry.NotString
		case "metadata":
			code = telemetry.NotObject
		}
		tests = append(tests, hostile{"wrong type in " + k, with(k, wrong), code})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			list := "[" + good + ",\n" + tt.record + ",\n" + good + "]"
			for name, got := range map[string]outcome{
				"two passes": inTwo(t, []byte(list), telemetry.Options{}),
				"one pass":   inOne(t, strings.NewReader(list), telemetry.Options{}),
				"an object":  inOne(t, strings.NewReader(`{"events":`+list+`, "x": 1}`), telemetry.Options{}),
				"lines":      inOne(t, strings.NewReader(good+"\n"+tt.record+"\n\n"+good), telemetry.Options{Lines: true}),
			} {
				code := tt.code
				if name == "lines" && strings.HasPrefix(tt.name, "10 MB") {
					code = telemetry.RecordTooLarge
				}
				if got.document != "" || len(got.codes) != 3 || got.codes[0] != "" || got.codes[1] != code || got.codes[2] != "" {
					t.Errorf("%s: %q %q, want %q between two that are accepted", name, got.document, got.codes, code)
				}
			}
		})
	}
	for name, record := range map[string]string{
		"depth 900":           with("metadata", `{"a":`+strings.Repeat("[", 898)+strings.Repeat("]", 898)+`}`),
		"4300 digits":         with("metadata", `{"a":`+strings.Repeat("9", 4300)+`}`),
		"NaN in metadata":     with("metadata", `{"a":[NaN,-Infinity]}`),
		"lone surrogate":      with("host", `"\udfff"`),
		"2^63-1":              with("device_total_bytes", "9223372036854775807"),
		"duplicate key":       with("pid", "77"),
		"1 MB less something": with("context", `"`+strings.Repeat("x", 1<<20-2000)+`"`),
	} {
		if got := inTwo(t, []byte("["+record+"]"), telemetry.Options{}); len(got.codes) != 1 || got.codes[0] != "" {
			t.Errorf("%s: %q %q", name, got.document, got.codes)
		}
	}
}

// endless gives head, then n times unit with a comma between, then tail.
type endless struct {
	head, unit, tail string
	n                int
	now              string
}

func (e *endless) Read(b []byte) (n int, _ error) {
	for n < len(b) {
		if e.now == "" {
			switch {
			case e.head != "":
				e.now, e.head = e.head, ""
			case e.n > 0:
				e.n--
				if e.now = e.unit; e.n > 0 {
					e.now += ",\n"
				}
			case e.tail != "":
				e.now, e.tail = e.tail, ""
			default:
				if n == 0 {
					return 0, io.EOF
				}
				return n, nil
			}
		}
		m := copy(b[n:], e.now)
		n, e.now = n+m, e.now[m:]
	}
	return n, nil
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// An export of 200 000 events, and one of 100 MB in a single value, are read in little memory.
func TestBoundedMemory(t *testing.T) {
	tests := []struct {
		name    string
		source  func() io.Reader
		records int
	}{
		{"200 000 events", func() io.Reader { return &endless{head: "[", unit: good, n: 200_000, tail: "]"} }, 200_000},
		{"200 000 events under a key", func() io.Reader {
			return &endless{head: `{"peak": 1, "events": [`, unit: good, n: 200_000, tail: `], "duration": 2}`}
		}, 200_000},
		{"100 MB string", func() io.Reader { return &endless{head: `["`, unit: strings.Repeat("y", 1000), n: 100_000, tail: `"]`} }, 0},
		{"10 million levels", func() io.Reader { return &endless{head: ``, unit: strings.Repeat(`[`, 1000), n: 10_000} }, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := heap()
			var most uint64
			n := 0
			d := telemetry.NewDecoder(tt.source(), telemetry.Options{})
			for {
				r, err := d.Next()
				if err != nil {
					if tt.records > 0 && err != io.EOF {
						t.Fatal(err)
					}
					break
				}
				if r.Event != nil {
					n++
				}
				if n%50_000 == 1 {
					most = max(most, heap())
				}
			}
			most = max(most, heap())
			runtime.KeepAlive(d)
			if n != tt.records {
				t.Errorf("%d records accepted, want %d", n, tt.records)
			}
			if _, err := telemetry.Survey(tt.source(), telemetry.Options{}); tt.records > 0 && err != nil {
				t.Error(err)
			}
			grown := int64(most) - int64(before)
			t.Logf("%d KiB more than before", grown>>10)
			if grown > 8<<20 {
				t.Errorf("the heap grew by %d bytes", grown)
			}
		})
	}
}

// A file that is cut keeps what came before, in one pass.
func TestCutDocument(t *testing.T) {
	for cut := range len(good) {
		data := "[" + good + "," + good[:cut]
		one := inOne(t, strings.NewReader(data), telemetry.Options{})
		if len(one.codes) != 1 || one.codes[0] != "" || one.document == "" {
			t.Fatalf("cut at %d: %q %q", cut, one.codes, one.document)
		}
		if two := inTwo(t, []byte(data), telemetry.Options{}); two.document != one.document || len(two.codes) != 0 {
			t.Fatalf("cut at %d: %q, in one pass %q", cut, two.document, one.document)
		}
	}
}

func TestReaderError(t *testing.T) {
	d := telemetry.NewDecoder(io.MultiReader(strings.NewReader("["+good+","), broken{}), telemetry.Options{})
	if r, err := d.Next(); err != nil || r.Event == nil {
		t.Fatal(r, err)
	}
	for range 2 {
		if _, err := d.Next(); err != errBroken {
			t.Fatalf("%v, want the reader's error", err)
		}
	}
}

var errBroken = fmt.Errorf("connection reset")

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errBroken }
