package gpuflight_test

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/reject"
)

func itoa(id uint32) string { return strconv.FormatUint(uint64(id), 10) }

const eight = `"columns":["dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"]`

// kernels makes a kernel batch with these rows.
func kernels(rows string) string {
	return `{"version":1,"type":"kernel_event_batch","session_id":"s1","batch_id":3,"base_time_ns":1000,` + eight + `,"rows":[` + rows + `]}`
}

func TestDecodeRefusesLines(t *testing.T) {
	const row = `[1,2,3,4,5,6,7,1]`
	good := kernels(row)
	for _, c := range []struct{ name, line, reason, detail string }{
		{"empty", ``, "bad_json", "empty line"},
		{"blank", " \t\r\n", "bad_json", "empty line"},
		{"not an object", `[1]`, "bad_json", "not a JSON object"},
		{"word", `hello`, "bad_json", "not a JSON object"},
		{"torn in rows", good[:len(good)-4], "bad_json", "ends in the middle"},
		{"torn in a key", `{"versi`, "bad_json", "ends in the middle"},
		{"unterminated string", `{"type":"shutdown`, "bad_json", "ends in the middle"},
		{"trailing junk", good + `x`, "bad_json", "near byte"},
		{"two objects", good + good, "bad_json", "near byte"},
		{"trailing comma", `{"type":"shutdown",}`, "bad_json", ""},
		{"nan in a row", kernels(`[1,2,3,nan,5,6,7,1]`), "bad_json", ""},
		{"nan in a field", `{"type":"perf_metric_event","l1_hit_rate_pct":nan}`, "bad_json", ""},
		{"minus inf", `{"type":"perf_metric_event","l1_hit_rate_pct":-inf}`, "bad_json", ""},
		{"leading zero in a row", kernels(`[01,2,3,4,5,6,7,1]`), "bad_json", ""},
		{"leading zero at the end", kernels(`[1,2,3,4,5,6,7,01]`), "bad_json", ""},
		{"leading zero of a long cell", kernels(`[1,2,3,0123456789,5,6,7,1]`), "bad_json", ""},
		{"plus sign", kernels(`[+1,2,3,4,5,6,7,1]`), "bad_json", ""},
		{"lone minus", kernels(`[-,2,3,4,5,6,7,1]`), "bad_json", ""},
		{"missing comma", kernels(`[1 2,3,4,5,6,7,1,1]`), "bad_json", ""},
		{"comma before bracket", kernels(`[1,2,3,4,5,6,7,1],`), "bad_json", ""},
		{"comma in row", kernels(`[1,2,3,4,5,6,7,1,]`), "bad_json", ""},
		{"row closed by brace", kernels(`[1,2,3,4,5,6,7,1}`), "bad_json", ""},
		{"control character", "{\"type\":\"shutdown\",\"app\":\"a\x01b\"}", "bad_json", ""},
		{"bad escape", `{"type":"shutdown","app":"a\x41"}`, "bad_json", ""},
		{"bad hex", `{"type":"shutdown","app":"\u12g4"}`, "bad_json", ""},
		{"nested beyond reason", `{"type":"shutdown","x":` + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + `}`, "bad_json", ""},
		{"no type", `{"session_id":"s1"}`, "missing_field", "type"},
		{"type no string", `{"type":5}`, "bad_value", "type"},
		{"session no string", `{"type":"shutdown","session_id":null}`, "bad_value", "session_id"},
		{"no base time", strings.Replace(good, `"base_time_ns":1000,`, ``, 1), "missing_field", "base_time_ns"},
		{"no columns", strings.Replace(good, eight+`,`, ``, 1), "missing_field", "columns"},
		{"no rows", strings.Replace(good, `"rows"`, `"lines"`, 1), "missing_field", "rows"},
		{"base time as text", strings.Replace(good, `1000`, `"1000"`, 1), "bad_value", "base_time_ns"},
		{"base time with fraction", strings.Replace(good, `1000`, `1000.5`, 1), "bad_value", "base_time_ns"},
		{"base time too large", strings.Replace(good, `1000`, `9223372036854775808`, 1), "out_of_range", "base_time_ns"},
		{"negative batch id", strings.Replace(good, `"batch_id":3`, `"batch_id":-3`, 1), "out_of_range", "batch_id"},
		{"column missing", strings.Replace(good, `"kernel_id"`, `"kernel"`, 1), "missing_column", "kernel_id"},
		{"no column at all", strings.Replace(good, eight, `"columns":[]`, 1), "missing_column", "dt_ns"},
		{"column twice", strings.Replace(good, `"kernel_id"`, `"dt_ns"`, 1), "bad_value", "dt_ns stands twice"},
		{"column no string", strings.Replace(good, `"kernel_id"`, `7`, 1), "bad_value", "column name"},
		{"columns no array", strings.Replace(good, eight, `"columns":{}`, 1), "bad_value", "columns"},
		{"too many columns", strings.Replace(good, `"columns":[`, `"columns":[`+strings.Repeat(`"x",`, 300), 1), "bad_value", "256"},
		{"rows no array", strings.Replace(good, `[`+row+`]`, `{"a":1}`, 1), "bad_value", "rows"},
		{"rows null", strings.Replace(good, `[`+row+`]`, `null`, 1), "bad_value", "rows"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var dec gpuflight.Decoder
			line, err := dec.Decode([]byte(c.line))
			var le *gpuflight.LineError
			if !errors.As(err, &le) || le.Reason != c.reason || !strings.Contains(le.Detail, c.detail) {
				t.Fatalf("got %v, want %s: %s", err, c.reason, c.detail)
			}
			if line == nil || line.Batch != nil || string(line.Raw) != c.line {
				t.Fatalf("line %+v", line)
			}
			if strings.HasPrefix(c.line, good[:40]) && line.Type != gpuflight.KernelEventBatch {
				t.Fatalf("type %v is lost", line.Type)
			}
			if len(c.line) < 10000 { // and the same again with the decoder's memory in use
				compare(t, &dec, []byte(good))
				compare(t, &dec, []byte(c.line))
			}
		})
	}
}

func TestDecodeRefusesRows(t *testing.T) {
	const first, last = `[1,2,3,4,5,6,7,1]`, `[8,9,10,11,12,13,14,0]`
	for _, c := range []struct{ name, row, reason, detail string }{
		{"short", `[1,2,3]`, "ragged_row", "fewer"},
		{"empty", `[]`, "ragged_row", "fewer"},
		{"long", `[1,2,3,4,5,6,7,1,9]`, "ragged_row", "more"},
		{"short with a bad value", `[1,"x"]`, "ragged_row", "fewer"},
		{"float", `[1,2,3,4.5,5,6,7,1]`, "bad_value", "duration_ns"},
		{"whole float", `[1,2,3,2.0,5,6,7,1]`, "bad_value", "duration_ns"},
		{"exponent", `[1e3,2,3,2,5,6,7,1]`, "bad_value", "dt_ns"},
		{"string", `[1,"2",3,2,5,6,7,1]`, "bad_value", "kernel_id"},
		{"null", `[1,null,3,2,5,6,7,1]`, "bad_value", "kernel_id"},
		{"bool", `[1,2,3,2,5,6,7,true]`, "bad_value", "has_details"},
		{"nested", `[1,[2],3,2,5,6,7,1]`, "bad_value", "kernel_id"},
		{"object cell", `[1,{"a":[]},3,2,5,6,7,1]`, "bad_value", "kernel_id"},
		{"not an array", `7`, "bad_value", "not an array"},
		{"object row", `{"dt_ns":1}`, "bad_value", "not an array"},
		{"null row", `null`, "bad_value", "not an array"},
		{"negative id", `[1,-2,3,2,5,6,7,1]`, "out_of_range", "kernel_id"},
		{"id beyond 32 bits", `[1,4294967296,3,2,5,6,7,1]`, "out_of_range", "kernel_id"},
		{"flag beyond 8 bits", `[1,2,3,2,5,6,7,256]`, "out_of_range", "has_details"},
		{"registers beyond 31 bits", `[1,2,3,2,5,6,2147483648,1]`, "out_of_range", "num_regs"},
		{"stream beyond 64 bits", `[1,2,18446744073709551616,2,5,6,7,1]`, "out_of_range", "stream_id"},
		{"negative stream", `[1,2,-1,2,5,6,7,1]`, "out_of_range", "stream_id"},
		{"dt beyond int64", `[9223372036854775808,2,3,2,5,6,7,1]`, "out_of_range", "dt_ns"},
		{"dt below int64", `[-9223372036854775809,2,3,2,5,6,7,1]`, "out_of_range", "dt_ns"},
		{"thousand digits", `[` + strings.Repeat("9", 1000) + `,2,3,2,5,6,7,1]`, "out_of_range", "dt_ns"},
		{"negative duration", `[1,2,3,-1,5,6,7,1]`, "negative_duration", "duration_ns"},
		{"very negative duration", `[1,2,3,-99999999999999999999999,5,6,7,1]`, "negative_duration", "duration_ns"},
		{"duration beyond int64", `[1,2,3,9223372036854775808,5,6,7,1]`, "out_of_range", "duration_ns"},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw := []byte(kernels(first + `,` + c.row + `,` + last))
			var dec gpuflight.Decoder
			line := compare(t, &dec, raw)
			b := line.Batch
			if b == nil || b.Rows() != 2 || b.WireRows() != 3 || len(b.BadRows) != 1 {
				t.Fatalf("batch %+v", b)
			}
			bad := b.BadRows[0]
			if bad.Row != 1 || bad.Count != 1 || bad.Reason != c.reason || !strings.Contains(bad.Detail, c.detail) ||
				string(raw[bad.Start:bad.End]) != c.row {
				t.Fatalf("bad row %+v %q", bad, raw[bad.Start:bad.End])
			}
			if b.Row(0)[gpuflight.KernelCorrID] != 5 || b.Row(1)[gpuflight.KernelCorrID] != 12 {
				t.Fatalf("neighbours %v %v", b.Row(0), b.Row(1))
			}
		})
	}
}

func TestDecodeAccepts(t *testing.T) {
	decode := func(raw string) *gpuflight.Batch {
		t.Helper()
		var dec gpuflight.Decoder
		b := compare(t, &dec, []byte(raw)).Batch
		if b == nil || len(b.BadRows) > 0 {
			t.Fatalf("refused: %+v", b)
		}
		return b
	}
	// Extremes of every width.
	b := decode(kernels(`[-9223372036854775808,4294967295,18446744073709551615,9223372036854775807,0,-2147483648,2147483647,255],[-0,0,` +
		`9223372036854775808,0,0,0,0,0]`))
	if uint64(b.At(0, gpuflight.KernelStreamID)) != math.MaxUint64 || b.At(0, gpuflight.KernelDtNS) != math.MinInt64 ||
		uint64(b.At(1, gpuflight.KernelStreamID)) != 1<<63 {
		t.Fatal(b.Row(0), b.Row(1))
	}
	// uint64 beyond 2^63 in today's last column.
	b = decode(strings.Replace(kernels(`[0,1,7,42000,100,0,64,1,4,17452669531790757359]`),
		`"has_details"`, `"has_details","external_kind","external_id"`, 1))
	if uint64(b.At(0, gpuflight.KernelExternalID)) != 17452669531790757359 {
		t.Fatal(b.Row(0))
	}
	// Absent optional columns are zero even where an earlier line left something.
	var dec gpuflight.Decoder
	compare(t, &dec, []byte(strings.Replace(kernels(`[0,1,7,42000,100,0,64,1,4,99]`), `"has_details"`,
		`"has_details","external_kind","external_id"`, 1)))
	b = compare(t, &dec, []byte(kernels(`[1,2,3,4,5,6,7,1]`))).Batch
	if b.At(0, gpuflight.KernelExternalID) != 0 {
		t.Fatal(b.Row(0))
	}
	// Columns in another order, with unknown ones of any kind between.
	b = decode(`{"type":"host_metric_batch","base_time_ns":5,"columns":["ram_total_mib","new","dt_ns","ram_used_mib","newer",` +
		`"cpu_pct_x100"],"rows":[[4,"x",-3,2,{"a":[1]},1],[40,7,-2,20,8,10]]}`)
	if got := fmt.Sprint(b.Row(0), b.Row(1), b.UnknownColumns); got != "[-3 1 2 4] [-2 10 20 40] 2" {
		t.Fatal(got)
	}
	if at, ok := b.Time(0); at != 2 || !ok {
		t.Fatal(at, ok)
	}
	// rows before columns before type, white space everywhere, repeated keys (the first counts), no batch id.
	decode(" { \"rows\" : [ [ 0 , 1 ,2, 3 ] ,\t[4,5,6,7]\r] , \"columns\":\t[ \"dt_ns\" ,\"cpu_pct_x100\", \"ram_used_mib\" ," +
		"\"ram_total_mib\" ] ,\"rows\":[[1]],\"base_time_ns\" : 1 , \"type\" : \"host_metric_batch\" ,\"type\":\"x\"} \r\n")
	// Escaped keys and column names.
	decode(`{"ty\u0070e":"host_metric_b\u0061tch","base_time_ns":1,"columns":["\u0064t_ns","cpu_pct_x100","ram_used_mib","ram_total_mib"],` +
		`"r\u006fws":[[0,1,2,3]]}`)
	// No rows.
	if b = decode(kernels(``)); b.Rows() != 0 {
		t.Fatal(b.Rows())
	}
	// Old forms: 5-column scopes, 7-column devices, 10-column profiles.
	decode(`{"type":"scope_event_batch","base_time_ns":1,"columns":["dt_ns","scope_instance_id","name_id","event_type","depth"],"rows":[[0,` +
		`1,1,0,0]]}`)
	decode(`{"type":"device_metric_batch","base_time_ns":1,"columns":["dt_ns","device_id","gpu_util","mem_util","temp_c","power_mw",` +
		`"used_mib"],"rows":[[0,0,50,30,70,150000,1024]]}`)
	decode(`{"type":"profile_sample_batch","base_time_ns":1,"columns":["dt_ns","corr_id","device_id","function_id","pc_offset","metric_id",` +
		`"metric_value","stall_reason","sample_kind","scope_name_id"],"rows":[[0,0,0,1,0,1,1000,0,1,2]]}`)
	// Floats.
	b = decode(`{"type":"pm_sample_batch","base_time_ns":1,"columns":["sample_index","dt_ns","device_id","metric_id","value",` +
		`"scope_name_id"],"rows":[[0,0,0,3,1e+06,2],[1,1,0,3,-0.5,2],[1,1,0,3,7,2]]}`)
	if b.Float(0, gpuflight.PMValue) != 1e6 || b.Float(1, gpuflight.PMValue) != -0.5 || b.Float(2, gpuflight.PMValue) != 7 {
		t.Fatal(b.Row(0), b.Row(1))
	}
	// Every cell width on the fast path, first and last column.
	for digits := 1; digits <= 19; digits++ {
		n := strings.Repeat("9", digits)
		if digits == 19 {
			n = "9223372036854775807"
		}
		rows := fmt.Sprintf(`[%s,1,%s,%s,1,1,1,1],[-%s,1,1,1,1,1,1,1],[1,1,1,1,1,1,1,1]`, n, n, n, n)
		if b = decode(kernels(rows)); strconv.FormatInt(b.At(0, gpuflight.KernelDurationNS), 10) != n {
			t.Fatal(b.Row(0))
		}
	}
}

func TestDecodeText(t *testing.T) {
	var dec gpuflight.Decoder
	for _, c := range []struct{ raw, want string }{
		{`plain`, "plain"}, {`a\u00e9\n\"\/\\`, "aé\n\"/\\"}, {`\ud83d\ude00`, "😀"}, {`\ud83dx`, "\ufffdx"}, {`\ud83d\u0041`, "\ufffdA"},
		{`\ude00`, "\ufffd"},
		{"cut\xe2\x82", "cut\ufffd\ufffd"}, {"\xff\\n", "\ufffd\n"}, {``, ""},
	} {
		line := compare(t, &dec, []byte(`{"type":"shutdown","session_id":"`+c.raw+`"}`))
		if string(line.SessionID) != c.want {
			t.Errorf("%q: %q, want %q", c.raw, line.SessionID, c.want)
		}
	}
}

func TestDecodeLimits(t *testing.T) {
	dec := gpuflight.Decoder{MaxLine: 100}
	if _, err := dec.Decode([]byte(`{"type":"shutdown","x":"` + strings.Repeat("x", 100) + `"}`)); err == nil ||
		err.(*gpuflight.LineError).Reason != reject.LineTooLong {
		t.Fatal(err)
	}
	// A line of nothing but bad rows is not allowed to cost a record each.
	dec.MaxLine = 0
	line, err := dec.Decode([]byte(kernels(strings.Repeat("0,", 99999) + "0,[1,2,3,4,5,6,7,1],0")))
	if err != nil || line.Batch.WireRows() != 100002 || len(line.Batch.BadRows) > 1100 || line.Batch.Rows() != 1 {
		t.Fatalf("%v, %d of %d rows accepted, the others in %d records", err, line.Batch.Rows(), line.Batch.WireRows(), len(line.Batch.BadRows))
	}
	if last := line.Batch.BadRows[len(line.Batch.BadRows)-1]; last.Row != 100001 || last.Count != 1 {
		t.Fatalf("%+v", last)
	}
}

func TestDecodeDoesNotAllocate(t *testing.T) {
	var dec gpuflight.Decoder
	batch, detail := kernelLine(512, true), []byte(detailLine)
	if n := testing.AllocsPerRun(50, func() {
		if l, err := dec.Decode(batch); err != nil || l.Batch.Rows() != 512 {
			t.Fatal(err)
		}
		dec.Decode(detail)
		gpuflight.DetailKey(detail)
		gpuflight.Peek(detail)
		gpuflight.CountEvents(batch)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAddTime(t *testing.T) {
	for _, c := range []struct {
		base, offset, want int64
		ok                 bool
	}{
		{10, -3, 7, true}, {10, -10, 0, true}, {10, -11, 0, false}, {math.MaxInt64, 0, math.MaxInt64, true}, {math.MaxInt64, 1, 0, false},
		{math.MinInt64, -1, 0, false}, {math.MinInt64, math.MaxInt64, 0, false}, {-5, 9, 4, true},
	} {
		if got, ok := gpuflight.AddTime(c.base, c.offset); got != c.want || ok != c.ok {
			t.Errorf("%d + %d = %d %v, want %d %v", c.base, c.offset, got, ok, c.want, c.ok)
		}
	}
}
