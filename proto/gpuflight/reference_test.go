package gpuflight_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/gpuflight"
)

// An independent reader on encoding/json. It shares nothing with the decoder: not the scanner, not the tables of columns.

type refColumn struct {
	name     string
	min, max *big.Int // nil: a float column
	optional bool
}

func refColumns(spec string) []refColumn {
	bound := func(lo, hi string) (a, b *big.Int) {
		a, _ = new(big.Int).SetString(lo, 10)
		b, _ = new(big.Int).SetString(hi, 10)
		return a, b
	}
	var out []refColumn
	for _, word := range strings.Fields(spec) {
		var c refColumn
		word, c.optional = strings.CutSuffix(word, "?")
		name, kind, _ := strings.Cut(word, ":")
		c.name = name
		switch kind {
		case "i64":
			c.min, c.max = bound("-9223372036854775808", "9223372036854775807")
		case "dur":
			c.min, c.max = bound("0", "9223372036854775807")
		case "u64":
			c.min, c.max = bound("0", "18446744073709551615")
		case "u32":
			c.min, c.max = bound("0", "4294967295")
		case "i32":
			c.min, c.max = bound("-2147483648", "2147483647")
		case "u8":
			c.min, c.max = bound("0", "255")
		}
		out = append(out, c)
	}
	return out
}

var refSchemas = map[string][]refColumn{
	"kernel_event_batch": refColumns("dt_ns:i64 kernel_id:u32 stream_id:u64 duration_ns:dur corr_id:u32 dyn_shared:i32 " +
		"num_regs:i32 has_details:u8 external_kind:u8? external_id:u64?"),
	"memcpy_event_batch": refColumns("dt_ns:i64 stream_id:u64 duration_ns:dur bytes:u64 copy_kind:u32 corr_id:u32"),
	"scope_event_batch": refColumns("dt_ns:i64 scope_instance_id:u64 name_id:u32 event_type:u8 depth:i32 repeat:i64? warmup:i64? " +
		"original_start_ns:i64?"),
	"profile_sample_batch": refColumns("dt_ns:i64 corr_id:u32 device_id:u32 function_id:u32 pc_offset:u64 metric_id:u32 " +
		"metric_value:u64 stall_reason:u32 sample_kind:u8 scope_name_id:u32 source_file_id:u32? source_line:u32?"),
	"host_metric_batch": refColumns("dt_ns:i64 cpu_pct_x100:u32 ram_used_mib:u64 ram_total_mib:u64"),
	"device_metric_batch": refColumns("dt_ns:i64 device_id:i32 gpu_util:u32 mem_util:u32 temp_c:i64 power_mw:u32 used_mib:u64 " +
		"total_mib:u64? clock_sm:u32? fan_speed_pct:u32? temp_mem_c:i64? temp_junction_c:i64? voltage_mv:u32? energy_uj:u64? clock_mem:u32? " +
		"pcie_bw_bps:u64? ecc_corrected:u64? ecc_uncorrected:u64?"),
	"synchronization_event_batch": refColumns("dt_ns:i64 duration_ns:dur sync_type:u8 stream_id:u64 event_id:u32 context_id:u32 corr_id:u32 " +
		"function_id:u32?"),
	"memory_alloc_event_batch": refColumns("dt_ns:i64 duration_ns:dur memory_op:u8 memory_kind:u8 address:u64 bytes:u64 device_id:u32 " +
		"stream_id:u64 corr_id:u32"),
	"pm_sample_batch": refColumns("sample_index:u64 dt_ns:i64 device_id:u32 metric_id:u32 value:f64 scope_name_id:u32?"),
}

// refKeys returns the first value of every top-level key.
func refKeys(line []byte) (map[string]json.RawMessage, bool) {
	if !json.Valid(line) {
		return nil, false
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, false
	}
	keys := map[string]json.RawMessage{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, false
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, false
		}
		if _, old := keys[tok.(string)]; !old {
			keys[tok.(string)] = raw
		}
	}
	_, err := dec.Token()
	return keys, err == nil
}

// refDepth returns how deep the line nests.
func refDepth(line []byte) (deepest int) {
	dec := json.NewDecoder(bytes.NewReader(line))
	depth := 0
	for {
		tok, err := dec.Token()
		if err != nil {
			return deepest
		}
		if d, ok := tok.(json.Delim); ok {
			if d == '{' || d == '[' {
				depth++
				deepest = max(deepest, depth)
			} else {
				depth--
			}
		}
	}
}

func refString(raw json.RawMessage) (s string, ok bool) {
	return s, len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &s) == nil
}

// refInteger reads an integer; reason is "" when it lies in [lo, hi].
func refInteger(raw json.RawMessage, lo, hi *big.Int) (v *big.Int, reason string) {
	if strings.ContainsAny(string(raw), ".eE\"[{ntf") {
		return nil, "bad_value"
	}
	v, ok := new(big.Int).SetString(string(raw), 10)
	if !ok {
		return nil, "bad_value"
	}
	if v.Cmp(lo) < 0 || v.Cmp(hi) > 0 {
		return nil, "out_of_range"
	}
	return v, ""
}

// refRow is one element of the rows array: values by column name, or the reason it is bad.
type refRow struct {
	reason string
	ints   map[string]*big.Int
	floats map[string]float64
}

// refBatch is a batch line as the reference reads it; reason is set when the line is refused.
type refBatch struct {
	reason  string
	batchID uint64
	base    int64
	rows    []refRow
	unknown int
}

func refDecode(t string, keys map[string]json.RawMessage) (b refBatch) {
	schema := refSchemas[t]
	i64 := refColumns("x:i64")[0]
	u64 := refColumns("x:u64")[0]
	fail := func(reason string) refBatch { return refBatch{reason: reason} }
	// The order of checks among several faults is not part of the contract, so any reason is accepted when several apply.
	if raw, ok := keys["batch_id"]; ok {
		v, reason := refInteger(raw, u64.min, u64.max)
		if reason != "" {
			return fail(reason)
		}
		b.batchID = v.Uint64()
	}
	if raw, ok := keys["base_time_ns"]; !ok {
		return fail("missing_field")
	} else if v, reason := refInteger(raw, i64.min, i64.max); reason != "" {
		return fail(reason)
	} else {
		b.base = v.Int64()
	}
	rawColumns, ok := keys["columns"]
	rawRows, ok2 := keys["rows"]
	if !ok || !ok2 {
		return fail("missing_field")
	}
	var names, rows []json.RawMessage
	if rawColumns[0] != '[' || rawRows[0] != '[' || json.Unmarshal(rawColumns, &names) != nil || json.Unmarshal(rawRows, &rows) != nil ||
		len(names) > 256 {
		return fail("bad_value")
	}
	place := map[string]int{}
	byName := make([]*refColumn, len(names))
	for i, raw := range names {
		name, ok := refString(raw)
		if !ok {
			return fail("bad_value")
		}
		for j := range schema {
			if schema[j].name == name {
				byName[i] = &schema[j]
				if _, twice := place[name]; twice {
					return fail("bad_value")
				}
				place[name] = i
			}
		}
		if byName[i] == nil {
			b.unknown++
		}
	}
	for _, c := range schema {
		if _, ok := place[c.name]; !ok && !c.optional {
			return fail("missing_column")
		}
	}
	for _, raw := range rows {
		var cells []json.RawMessage
		row := refRow{ints: map[string]*big.Int{}, floats: map[string]float64{}}
		switch {
		case raw[0] != '[' || json.Unmarshal(raw, &cells) != nil:
			row.reason = "bad_value"
		case len(cells) != len(names):
			row.reason = "ragged_row"
		}
		for i := 0; row.reason == "" && i < len(cells); i++ {
			c := byName[i]
			if c == nil {
				continue
			}
			if c.min == nil {
				var f float64
				if s := cells[i][0]; s != '-' && (s < '0' || s > '9') {
					row.reason = "bad_value"
				} else if json.Unmarshal(cells[i], &f) != nil {
					row.reason = "out_of_range"
				}
				row.floats[c.name] = f
				continue
			}
			v, reason := refInteger(cells[i], c.min, c.max)
			if reason == "out_of_range" && c.name == "duration_ns" && cells[i][0] == '-' {
				reason = "negative_duration"
			}
			row.reason = reason
			row.ints[c.name] = v
		}
		b.rows = append(b.rows, row)
	}
	return b
}

// compare decodes the line with dec and with the reference and reports every difference.
func compare(t *testing.T, dec *gpuflight.Decoder, line []byte) *gpuflight.Line {
	t.Helper()
	got, err := dec.Decode(line)
	le, _ := err.(*gpuflight.LineError)
	if err != nil && le == nil {
		t.Fatalf("error is not a LineError: %v", err)
	}
	keys, valid := refKeys(line)
	if !valid {
		if le == nil || le.Reason != gpuflight.ReasonBadJSON {
			t.Fatalf("not a JSON object, yet %v: %q", err, line)
		}
		return got
	}
	if le != nil && le.Reason == gpuflight.ReasonBadJSON {
		if refDepth(line) <= gpuflight.MaxDepth {
			t.Fatalf("valid JSON refused: %v: %q", err, line)
		}
		return got
	}
	typ, isString := refString(keys["type"])
	session, sessionIsString := refString(keys["session_id"])
	_, hasType := keys["type"]
	_, hasSession := keys["session_id"]
	wantReason := ""
	switch {
	case !hasType:
		wantReason = "missing_field"
	case !isString, hasSession && !sessionIsString:
		wantReason = "bad_value"
	}
	if wantReason == "" || le == nil {
		if string(got.TypeName) != typ || string(got.SessionID) != session {
			t.Fatalf("type %q session %q, want %q %q", got.TypeName, got.SessionID, typ, session)
		}
	}
	schema, batch := refSchemas[typ]
	var want refBatch
	if batch {
		want = refDecode(typ, keys)
	}
	if wantReason == "" {
		wantReason = want.reason
	}
	if (wantReason == "") != (le == nil) {
		t.Fatalf("got %v, want %q: %q", err, wantReason, line)
	}
	if le != nil {
		return got
	}
	if pt, ps := gpuflight.Peek(line); pt != got.Type || string(ps) != string(got.SessionID) {
		t.Fatalf("Peek says %v %q, Decode %v %q", pt, ps, got.Type, got.SessionID)
	}
	if batch != (got.Batch != nil) || batch != got.Type.IsBatch() {
		t.Fatalf("%q: batch %v, decoded %v", typ, batch, got.Batch != nil)
	}
	if !batch {
		if n := gpuflight.CountEvents(line); n != 1 {
			t.Fatalf("CountEvents = %d for one %s line", n, typ)
		}
		return got
	}
	if got.BatchID != want.batchID || got.BaseTimeNS != want.base {
		t.Fatalf("batch_id %d base %d, want %d %d", got.BatchID, got.BaseTimeNS, want.batchID, want.base)
	}
	compareRows(t, got, schema, want)
	if n := gpuflight.CountEvents(line); n != len(want.rows) {
		t.Fatalf("CountEvents = %d, rows = %d: %q", n, len(want.rows), line)
	}
	return got
}

func compareRows(t *testing.T, got *gpuflight.Line, schema []refColumn, want refBatch) {
	t.Helper()
	b := got.Batch
	if b.WireRows() != len(want.rows) || b.UnknownColumns != want.unknown {
		t.Fatalf("%d rows, %d unknown columns; want %d, %d", b.WireRows(), b.UnknownColumns, len(want.rows), want.unknown)
	}
	bad := map[int]gpuflight.BadRow{}
	for _, r := range b.BadRows {
		for i := range r.Count {
			bad[r.Row+i] = r
		}
	}
	if len(bad) != b.WireRows()-b.Rows() {
		t.Fatalf("BadRows stand for %d rows, WireRows less Rows says %d", len(bad), b.WireRows()-b.Rows())
	}
	next := 0
	for i, row := range want.rows {
		if row.reason != "" {
			if bad[i].Reason != row.reason {
				t.Fatalf("row %d: %+v, want %s", i, bad[i], row.reason)
			}
			if bad[i].Count == 1 && !json.Valid(got.Raw[bad[i].Start:bad[i].End]) {
				t.Fatalf("row %d: bytes %q are not a JSON value", i, got.Raw[bad[i].Start:bad[i].End])
			}
			continue
		}
		if r, isBad := bad[i]; isBad {
			t.Fatalf("good row %d refused: %+v", i, r)
		}
		for _, c := range schema {
			col := gpuflight.ColumnOf(got.Type, c.name)
			cell := b.Row(next)[col]
			if c.min == nil {
				if math.Float64bits(row.floats[c.name]) != uint64(cell) {
					t.Fatalf("row %d %s: %v, want %v", i, c.name, math.Float64frombits(uint64(cell)), row.floats[c.name])
				}
				continue
			}
			have := big.NewInt(cell)
			if _, kind, _ := gpuflight.ColumnInfo(got.Type, col); kind == gpuflight.KindU64 {
				have.SetUint64(uint64(cell))
			}
			expect := row.ints[c.name]
			if expect == nil {
				expect = new(big.Int)
			}
			if have.Cmp(expect) != 0 || cell != b.At(next, col) {
				t.Fatalf("row %d %s: %v, want %v", i, c.name, have, expect)
			}
		}
		at, ok := b.Time(next)
		exact := new(big.Int).Add(big.NewInt(want.base), row.ints["dt_ns"])
		if wantOK := exact.Sign() >= 0 && exact.IsInt64(); ok != wantOK || ok && at != exact.Int64() {
			t.Fatalf("row %d: time %d %v, want %v", i, at, ok, exact)
		}
		next++
	}
	if next != b.Rows() {
		t.Fatalf("%d rows, want %d", b.Rows(), next)
	}
}

// readLines splits NDJSON without bufio's line limit.
func readLines(t testing.TB, r io.Reader) [][]byte {
	t.Helper()
	all, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(bytes.TrimSuffix(all, []byte("\n")), []byte("\n"))
}

func TestReferenceItself(t *testing.T) {
	// The reference must be able to say no, or agreement means nothing.
	keys, ok := refKeys([]byte(`{"base_time_ns":1,"columns":["dt_ns","cpu_pct_x100","ram_used_mib","ram_total_mib"],"rows":[[0,1,2,3],[0,-1,` +
		`2,3],[0]]}`))
	if !ok {
		t.Fatal("valid line refused")
	}
	b := refDecode("host_metric_batch", keys)
	if got := fmt.Sprint(b.rows[0].reason, "|", b.rows[1].reason, "|", b.rows[2].reason); got != "|out_of_range|ragged_row" {
		t.Fatal(got)
	}
}
