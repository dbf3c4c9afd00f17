package telemetry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/warpline/warpline/proto/telemetry"
)

// readAll reads a document to its end: for each record its event as JSON, or "!" and the code.
func readAll(t testing.TB, in telemetry.Reader) (out []string) {
	t.Helper()
	for {
		r, err := in.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.Index != len(out) {
			t.Fatalf("record %d has index %d", len(out), r.Index)
		}
		if r.Refusal != nil {
			out = append(out, "!"+string(r.Refusal.Code))
			continue
		}
		out = append(out, string(r.Event.AppendJSON(nil)))
	}
}

func table(t testing.TB, text string, o telemetry.Options) []string {
	t.Helper()
	in, err := telemetry.NewTable(strings.NewReader(text), o)
	if err != nil {
		t.Fatal(err)
	}
	out := readAll(t, in)
	slow, err := telemetry.NewTable(iotest.OneByteReader(strings.NewReader(text)), o)
	if err != nil {
		t.Fatal(err)
	}
	if again := readAll(t, slow); fmt.Sprint(again) != fmt.Sprint(out) {
		t.Fatalf("byte by byte it reads %q, else %q", again, out)
	}
	return out
}

func exportFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "testdata", "telemetry", "exports", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The tracker's CSV says what its JSON says, digit by digit.
func TestTableOfTheTracker(t *testing.T) {
	for i, got := range table(t, string(exportFile(t, "cpu_tracker_events.csv")), telemetry.Options{}) {
		if strings.HasPrefix(got, "!") {
			t.Errorf("row %d: %s", i, got)
		}
	}
	// The same events in both forms.
	d := telemetry.NewDecoder(bytes.NewReader(exportFile(t, "gpu_tracker_rank1_events.json")), telemetry.Options{})
	var csv strings.Builder
	var want []string
	csv.WriteString("\ufeff" + strings.Join(columns, ",") + "\r\n")
	for {
		r, err := d.Next()
		if err == io.EOF {
			break
		}
		line := r.Event.AppendJSON(nil)
		want = append(want, string(line))
		var m map[string]any
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.UseNumber()
		if err := dec.Decode(&m); err != nil {
			t.Fatal(err)
		}
		for i, key := range columns {
			if i > 0 {
				csv.WriteByte(',')
			}
			switch v := m[key].(type) {
			case nil:
			case json.Number:
				csv.WriteString(v.String() + ".0") // as a float, which would lose the last digits of a time
			case string:
				csv.WriteString(`"` + strings.ReplaceAll(v, `"`, `""`) + `"`)
			default:
				b, _ := json.Marshal(v)
				repr := strings.NewReplacer(`"`, `'`, "true", "True", "false", "False", "null", "None").Replace(string(b))
				csv.WriteString(`"` + repr + `"`)
			}
		}
		csv.WriteString("\r\n")
	}
	got := table(t, csv.String(), telemetry.Options{})
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

var columns = strings.Split("schema_version,timestamp_ns,event_type,collector,sampling_interval_ms,pid,host,job_id,rank,local_rank,"+
	"world_size,device_id,allocator_allocated_bytes,allocator_reserved_bytes,allocator_active_bytes,allocator_inactive_bytes,"+
	"allocator_change_bytes,device_used_bytes,device_free_bytes,device_total_bytes,context,metadata", ",")

func TestTableRows(t *testing.T) {
	head := strings.Join(columns, ",") + "\n"
	row := func(change map[string]string) string {
		cells := map[string]string{"schema_version": "2", "timestamp_ns": "1", "event_type": "sample",
			"collector": "c", "sampling_interval_ms": "0", "pid": "1", "host": "h",
			"device_id": "0", "allocator_allocated_bytes": "1", "allocator_reserved_bytes": "1", "allocator_change_bytes": "0",
			"device_used_bytes": "1"}
		for k, v := range change {
			cells[k] = v
		}
		var out []string
		for _, c := range columns {
			out = append(out, cells[c])
		}
		return strings.Join(out, ",") + "\n"
	}
	good := row(nil)
	for name, c := range map[string]struct{ row, want string }{
		"nothing odd":    {good, `"rank":0,"local_rank":0,"world_size":1,`},
		"all digits":     {row(map[string]string{"timestamp_ns": "1795175672618408705.000"}), `"timestamp_ns":1795175672618408705,`},
		"exponent":       {row(map[string]string{"allocator_allocated_bytes": "1.5e3"}), `"allocator_allocated_bytes":1500,`},
		"leading zeros":  {row(map[string]string{"pid": "007"}), `"pid":7,`},
		"plus and space": {row(map[string]string{"pid": " +7 "}), `"pid":7,`},
		"fraction":       {row(map[string]string{"pid": "7.5"}), "!not_integer"},
		"hex":            {row(map[string]string{"pid": "0x7"}), "!not_integer"},
		"underscore":     {row(map[string]string{"pid": "1_0"}), "!not_integer"},
		"nan":            {row(map[string]string{"pid": "nan"}), "!not_integer"},
		"2^64":           {row(map[string]string{"timestamp_ns": "18446744073709551616"}), "!integer_range"},
		"1e30":           {row(map[string]string{"timestamp_ns": "1e30"}), "!integer_range"},
		"1e999":          {row(map[string]string{"timestamp_ns": "1e999"}), "!not_integer"},
		"empty pid":      {row(map[string]string{"pid": ""}), "!not_integer"},
		"blank host":     {row(map[string]string{"host": "  "}), "!blank_string"},
		"json metadata": {row(map[string]string{"metadata": `"{""b"": [1, null], ""a"": ""x,y""}"`}),
			`"metadata":{"a":"x,y","b":[1,null]}`},
		"repr metadata": {row(map[string]string{"metadata": `"{'b': [1, None, True], 'a': ""it's"", 'f': 1e-05, 3: (1, 2,), 'u': ` +
			`'\xe9\u20ac\n'}"`}), `"metadata":{"3":[1,2],"a":"it's","b":[1,null,true],"f":1e-05,"u":"é€\n"}`},
		"repr of a call": {row(map[string]string{"metadata": `"{'a': np.float64(1.0)}"`}), "!not_object"},
		"repr of a list": {row(map[string]string{"metadata": `[1]`}), "!not_object"},
		"deep metadata": {row(map[string]string{"metadata": `"{""a"":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}"`}),
			"!too_deep"},
		"deep repr": {row(map[string]string{"metadata": `"{'a':` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}"`}),
			"!not_object"},
		"line end in a cell":    {row(map[string]string{"context": "\"a\r\nb\""}), `"context":"a\r\nb"`},
		"quote inside":          {row(map[string]string{"context": `a"b`}), `"context":"a\"b"`},
		"text behind a quote":   {row(map[string]string{"context": `"a"b`}), "!malformed_row"},
		"too many cells":        {"x," + good, "!malformed_row"},
		"too few cells":         {"2,5\n", "!missing_fields"},
		"not utf-8":             {row(map[string]string{"context": "\xff"}), "!bad_utf8"},
		"long cell":             {row(map[string]string{"context": strings.Repeat("x", 5000)}), "!record_too_large"},
		"long quoted cell":      {row(map[string]string{"context": `"` + strings.Repeat("x", 5000) + `"`}), "!record_too_large"},
		"escapes make it long":  {row(map[string]string{"context": strings.Repeat("\x01", 1000)}), "!record_too_large"},
		"negative device total": {row(map[string]string{"device_total_bytes": "-1"}), "!below_minimum"},
	} {
		t.Run(name, func(t *testing.T) {
			got := table(t, head+good+c.row+"\n"+good, telemetry.Options{Peer: telemetry.Peer029, MaxRecordBytes: 4096})
			if len(got) != 3 || strings.HasPrefix(got[0], "!") || got[2] != got[0] || !strings.Contains(got[1], c.want) {
				t.Errorf("%q, want %q between its neighbours", got, c.want)
			}
		})
	}
	// A quote that never closes costs its line, also at the end of the file and in a file far longer than a record.
	many := strings.Repeat(good, 200)
	got := table(t, head+good+row(map[string]string{"context": `"open`})+many+row(map[string]string{"context": `"open`})+good,
		telemetry.Options{MaxRecordBytes: 4096})
	bad := 0
	for _, g := range got {
		if strings.HasPrefix(g, "!") {
			bad++
		}
	}
	if bad != 2 || len(got) != 204 {
		t.Errorf("%d of %d rows refused, want 2 of 204", bad, len(got))
	}
}

// Rows of before schema version 2 are converted, memory_mb included; an empty cell is as good as none.
func TestTableOfLegacyRecords(t *testing.T) {
	got := table(t, ",timestamp,type,memory_mb,device,metadata_step,metadata_name,other\n0,1700000000.25,sample,2.5,/GPU:1,7,x y,z\n1,"+
		"1700000001,,3,,,,\n2,,,3,,,,\n", telemetry.Options{Peer: telemetry.Peer029})
	if len(got) != 3 || got[2] != "!timestamp_missing" {
		t.Fatal(got)
	}
	for _, want := range []string{`"timestamp_ns":1700000000249999872,`, `"allocator_allocated_bytes":2621440,`, `"device_id":1,`,
		`"metadata":{"name":"x y","step":7}`} {
		if !strings.Contains(got[0], want) {
			t.Errorf("%s lacks %s", got[0], want)
		}
	}
	if !strings.Contains(got[1], `"event_type":"sample"`) || !strings.Contains(got[1], `"device_id":0,`) {
		t.Error(got[1])
	}
}

func TestTableHeader(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "unknown": "a,b\n", "open quote": `"pid`, "json": `[{"pid":1}]`, "not utf-8": "pid,\xff\n",
		"too long": strings.Repeat("pid,", 5000) + "\n", "too many": strings.Repeat("pid,", 600) + "\n",
	} {
		var de *telemetry.DocumentError
		if _, err := telemetry.NewTable(strings.NewReader(text), telemetry.Options{MaxRecordBytes: 4096}); !errors.As(err, &de) ||
			de.Code != telemetry.NoEvents {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := telemetry.NewTable(iotest.ErrReader(io.ErrNoProgress), telemetry.Options{}); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("an error of the reader becomes %v", err)
	}
}

// Rows many times longer than what is kept in memory, with quotes and without, in the middle and at the end.
func TestTableLongRows(t *testing.T) {
	for _, size := range []int{100, 1100, 300 << 10, 3 << 20} {
		for _, open := range []string{"", `"`} {
			for _, end := range []string{"\n1,2,a\n", ""} {
				text := "timestamp,memory_mb,type\n1,2,a\n1,2," + open + strings.Repeat("x", size) + end
				in, err := telemetry.NewTable(strings.NewReader(text), telemetry.Options{MaxRecordBytes: 1 << 10})
				if err != nil {
					t.Fatal(err)
				}
				got := readAll(t, in)
				want := 3
				if end == "" {
					want = 2
				}
				if len(got) != want || strings.HasPrefix(got[0], "!") || size > 1000 && got[1] != "!record_too_large" || got[want-1][0] == '!' &&
					want == 3 {
					t.Errorf("%d bytes behind %q: %.200q", size, open, got)
				}
			}
		}
	}
}

func TestTrack(t *testing.T) {
	track := func(text string) []string {
		in, err := telemetry.NewTrack(strings.NewReader(text), telemetry.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return readAll(t, in)
	}
	got := track(`{"x":[1,{"memory_usage":[9]}],"memory_usage":[5],"memory_usage":[100.0, 2.5e0 ,"3",null,NaN,7],` +
		`"alerts":[{"timestamps":[5]}],"timestamps":[1700000000.5,1700000001,1700000002,1700000003,1700000004]}`)
	if len(got) != 6 || !strings.Contains(got[0], `"timestamp_ns":1700000000500000000,"event_type":"sample",`+
		`"collector":"stormlog.tensorflow.memory_tracker"`) ||
		!strings.Contains(got[1], `"allocator_allocated_bytes":2621440,`) || got[2] != "!not_finite" ||
		got[3] != "!not_finite" || got[4] != "!not_finite" || got[5] != "!timestamp_missing" {
		t.Errorf("%q", got)
	}
	if got := track(`{"memory_usage":[1],"timestamps":[1,2]}`); len(got) != 2 || got[1] != "!not_finite" {
		t.Errorf("a time without a value: %q", got)
	}
	var de *telemetry.DocumentError
	for _, other := range []string{`{"a":{"memory_usage":[1]}}`, `{"timestamps":[1],"allocated":[2]}`} {
		if _, err := telemetry.NewTrack(strings.NewReader(other), telemetry.Options{}); !errors.As(err, &de) || de.Code != telemetry.NoEvents {
			t.Errorf("%s: %v", other, err)
		}
	}
	long := `{"timestamps":[1` + strings.Repeat(",1", telemetry.MaxTrackSamples) + `]}`
	if _, err := telemetry.NewTrack(strings.NewReader(long), telemetry.Options{}); !errors.As(err, &de) ||
		de.Code != telemetry.RecordTooLarge {
		t.Errorf("too many samples: %v", err)
	}
}

func TestFrame(t *testing.T) {
	var v, w telemetry.Validator
	var e, back telemetry.Event
	if r := v.Event(&e, []byte(`{"timestamp":1,"memory_mb":2,"metadata":{"b":1,"a":"\ud800"},"rank":0,"message":"\n"}`), nil); r != nil {
		t.Fatal(r)
	}
	line := telemetry.AppendFrame(nil, 41, &e)
	if bytes.Count(line, []byte("\n")) != 1 || !bytes.HasPrefix(line, []byte("41 ")) {
		t.Fatalf("%q", line)
	}
	f, err := telemetry.ParseFrame(line)
	if err != nil || f.Index != 41 || !f.Legacy || f.Has != e.Has {
		t.Fatal(f, err)
	}
	if r := f.Event(&w, &back); r != nil || back.Has != e.Has || !back.Legacy || !sameEvent(t, e, back) {
		t.Errorf("%v\n%+v\n%+v", r, e, back)
	}
	for _, bad := range []string{"", "1", "1 ", " 2 {}", "x 2 {}", "1 x {}", "-1 2 {}", "1 999999999 {}", "99999999999999999999999 1 {}",
		"{}"} {
		if _, err := telemetry.ParseFrame([]byte(bad)); err == nil {
			t.Errorf("%q is taken for a frame", bad)
		}
	}
}

// A record too long to be read leaves its beginning and its length, wherever the reads fall.
func TestRecordTooLargeKeepsItsHead(t *testing.T) {
	giant := `{"timestamp":1,"context":"` + strings.Repeat("x", 3<<20) + `"}`
	for name, c := range map[string]struct {
		text string
		o    telemetry.Options
	}{
		"list":   {"[" + giant + ",\n{\"timestamp\":1}," + giant + "]", telemetry.Options{}},
		"lines":  {giant + "\n{\"timestamp\":1}\n" + giant, telemetry.Options{Lines: true}},
		"events": {`{"events":[` + giant + `,{"timestamp":1},` + giant + `]}`, telemetry.Options{}},
	} {
		d := telemetry.NewDecoder(strings.NewReader(c.text), c.o)
		for i := range 3 {
			r, err := d.Next()
			if err != nil {
				t.Fatal(name, err)
			}
			if i == 1 {
				if r.Event == nil || r.Size != int64(len(`{"timestamp":1}`)) {
					t.Errorf("%s: neighbour %+v", name, r)
				}
				continue
			}
			if r.Refusal == nil || r.Refusal.Code != telemetry.RecordTooLarge || r.Size != int64(len(giant)) ||
				string(r.Head) != giant[:telemetry.HeadBytes] {
				t.Errorf("%s %d: %v, %d bytes with a head of %d", name, i, r.Refusal, r.Size, len(r.Head))
			}
		}
	}
}

func FuzzTable(f *testing.F) {
	head := strings.Join(columns, ",") + "\n"
	f.Add(exportFile(f, "cpu_tracker_events.csv"))
	f.Add([]byte("timestamp,memory_mb,metadata_a\n1,2,\"{'a': 1}\"\n"))
	f.Add([]byte(head + "2,1,a,c,0,1,h,,,,,0,1,1,,,0,1,,,\"x\"\"y\r\n\",\"{'a': [1, None], 'b': \"\"it's\"\"}\"\n\"open\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		o := telemetry.Options{MaxRecordBytes: 1 << 10}
		in, err := telemetry.NewTable(bytes.NewReader(text), o)
		if err != nil {
			return
		}
		var passed int64
		var all []string
		for {
			r, err := in.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if passed += r.Size; r.Refusal == nil {
				roundTrip(t, r.Event.AppendJSON(nil))
			} else if r.Raw == nil && (r.Head == nil || r.Size <= int64(o.MaxRecordBytes)) {
				t.Fatalf("%s of %d bytes", r.Refusal, r.Size)
			}
			all = append(all, string(r.Raw))
		}
		if passed > int64(len(text)) {
			t.Fatalf("rows of %d bytes in a file of %d", passed, len(text))
		}
		slow, err := telemetry.NewTable(iotest.HalfReader(bytes.NewReader(text)), o)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; ; i++ {
			r, err := slow.Next()
			if err == io.EOF {
				if i != len(all) {
					t.Fatalf("%d rows in small reads, else %d", i, len(all))
				}
				break
			}
			if i >= len(all) || string(r.Raw) != all[i] {
				t.Fatalf("row %d differs in small reads", i)
			}
		}
	})
}

func FuzzRepr(f *testing.F) {
	for _, s := range []string{`{'a': 1, "b": [True, None, -1.5e-07], 3: ('x',), 'u': '\xe9\u20ac\U0001f600\ud800'}`, `{}`, `[`, `'\`, `nan`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		out, ok := telemetry.AppendRepr(nil, text)
		if !ok {
			return
		}
		if _, r := telemetry.AppendCanonical(nil, out); r != nil {
			t.Fatalf("%q became %q: %s", text, out, r)
		}
	})
}

func FuzzTrack(f *testing.F) {
	f.Add([]byte(`{"memory_usage":[1,2],"timestamps":[1,null]}`))
	f.Add(exportFile(f, "tf_track_output.json"))
	f.Fuzz(func(t *testing.T, text []byte) {
		in, err := telemetry.NewTrack(bytes.NewReader(text), telemetry.Options{})
		if err != nil {
			return
		}
		readAll(t, in)
	})
}

func FuzzFrame(f *testing.F) {
	f.Add([]byte(`1 513 {"schema_version":2}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		fr, err := telemetry.ParseFrame(line)
		if err != nil {
			return
		}
		var v telemetry.Validator
		var e telemetry.Event
		fr.Event(&v, &e)
	})
}
