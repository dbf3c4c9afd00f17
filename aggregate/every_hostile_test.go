package aggregate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/reject"
	"github.com/warpline/warpline/proto/stream"
)

// known are the reasons that a refused line of a known type may have.
var knownReasons = []string{
	gpuflight.ReasonBadJSON, gpuflight.ReasonMissingField, gpuflight.ReasonBadValue, gpuflight.ReasonOutOfRange,
	gpuflight.ReasonNegativeDuration, gpuflight.ReasonBadTime,
	gpuflight.ReasonMissingColumn, gpuflight.ReasonRaggedRow, reject.LineTooLong, gpuflight.ReasonArtifactTooLarge,
}

// spoiled are values that a field may hold in place of its own.
var spoiled = []string{
	`null`, `"x"`, `""`, `-1`, `0`, `1.5`, `1e99`, `true`, `[]`, `{}`, `[[]]`, `[null]`, `{"1":1}`, `18446744073709551615`,
	`18446744073709551616`, `-9223372036854775808`, `-9223372036854775809`,
	`9223372036854775807`, `"\u0000"`, `"\ud800"`, `"18446744073709551615"`,
}

// examplesOfEach returns a line of each known type.
func examplesOfEach(t testing.TB) map[gpuflight.Type][]byte {
	out := map[gpuflight.Type][]byte{}
	for _, f := range everyEvent(t) {
		if f.telemetry || f.session == "bad" {
			continue
		}
		for _, line := range f.lines {
			if typ, _ := gpuflight.Peek(line); typ != gpuflight.TypeUnknown && (out[typ] == nil || len(line) < len(out[typ])) && len(line) > 60 {
				out[typ] = bytes.TrimSpace(line)
			}
		}
	}
	for typ := gpuflight.TypeUnknown + 1; typ.String() != "unknown"; typ++ {
		if out[typ] == nil {
			t.Errorf("no example of %v", typ)
		}
	}
	return out
}

// TestEveryFieldSpoiled sends a line of each type as it is, with each field missing or spoiled, and torn. The books balance, a
// refused line has one of the known reasons, the chunk is encoded and its state read again.
func TestEveryFieldSpoiled(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and much of it")
	}
	long := `"` + strings.Repeat("n", 1<<20) + `"`
	for typ, line := range examplesOfEach(t) {
		o := newEveryOwner(t)
		send := func(what string, line []byte) Counts {
			t.Helper()
			p := &Part{Seq: uint64(o.at + 1), Now: o.now, Env: stream.Envelope{Tenant: "t", Session: "s", Kind: stream.KindGPUFlight,
				Source: "gpu-flight", Identity: fmt.Sprint(o.at),
				ReceivedAt: 1795175935972803352, RetentionDays: 7, RollupDays: 395, Events: uint64(gpuflight.CountEvents(line))}}
			o.at++
			o.f.Take(p, o.f.Session(p), append(line, '\n'))
			u := *p.usage
			if u.Events != u.Stored+u.rejected+u.Duplicates {
				t.Errorf("%v, %s: %+v", typ, what, u)
			}
			*p.usage = Counts{}
			return u
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(line, &fields); err != nil {
			t.Fatal(err)
		}
		fields["session_id"] = json.RawMessage(`"s"`)
		var keys []string
		for k := range fields {
			if k != "type" && k != "session_id" {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys)
		write := func(change string, value string) []byte {
			m := maps.Clone(fields)
			if value == "" {
				delete(m, change)
			} else if change != "" {
				m[change] = json.RawMessage(value)
			}
			var b bytes.Buffer // spoiled values need not be JSON
			b.WriteString(`{"type":` + string(m["type"]) + `,"session_id":"s"`)
			for _, k := range keys {
				if v, ok := m[k]; ok {
					fmt.Fprintf(&b, ",%q:%s", k, v)
				}
			}
			b.WriteByte('}')
			return b.Bytes()
		}
		if u := send("as it is", write("", "")); u.Stored == 0 || u.rejected > 0 {
			t.Errorf("%v: as it is %+v", typ, u)
		}
		if u := send("again", write("", "")); u.Duplicates == 0 || u.Stored+u.rejected > 0 {
			if typ != gpuflight.GraphNodeDefinition && typ != gpuflight.ProfileSample {
				t.Errorf("%v: again %+v", typ, u)
			}
		}
		whole := write("", "")
		for _, at := range []int{1, len(whole) / 3, len(whole) / 2, len(whole) - 1} {
			if u := send(fmt.Sprint("torn at ", at), whole[:at:at]); u.Stored > 0 && typ != gpuflight.KernelDetail {
				t.Errorf("%v: torn at %d is stored: %+v", typ, at, u)
			}
		}
		for _, k := range keys {
			send("without "+k, write(k, ""))
			for _, v := range append([]string{long}, spoiled...) {
				send(fmt.Sprintf("%s of %.30s", k, v), write(k, v))
			}
		}
		// Cells of batches, in each column.
		var rows [][]json.RawMessage
		if typ.IsBatch() && json.Unmarshal(fields["rows"], &rows) == nil && len(rows) > 0 {
			for c := range rows[0] {
				for _, v := range spoiled {
					row := slices.Clone(rows[0])
					row[c] = json.RawMessage(v)
					text, err := json.Marshal([][]json.RawMessage{rows[0], row, row[:c]})
					if err != nil {
						continue
					}
					send(fmt.Sprintf("cell %d of %s", c, v), write("rows", string(text)))
				}
			}
		}
		for ref := range o.f.Sessions {
			o.load(o.f.Sessions[ref])
		}
		o.end()
		f := newFold(&o.cfg, newCounters(nil))
		if err := f.ApplyState(o.f.AppendState(nil, true)); err != nil {
			t.Errorf("%v: the state cannot be read again: %v", typ, err)
		}
		for k := range o.sums.sum {
			if reason, ok := strings.CutPrefix(k, "rejects_data s reason="); ok && !slices.Contains(knownReasons, reason) {
				t.Errorf("%v is refused for %q", typ, reason)
			}
		}
	}
}

// What a session makes a worker remember of devices and kernel ids is bounded, and costs the same however many there are.
func TestDevicesAndKernelIDsAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and much of it")
	}
	o := newEveryOwner(t)
	n := 0
	send := func(line string) {
		p := &Part{Seq: uint64(n + 1), Now: o.now, Env: stream.Envelope{Tenant: "t", Session: "s", Kind: stream.KindGPUFlight,
			Source: "gpu-flight", Identity: "w", Part: n,
			ReceivedAt: 1795175935972803352, RetentionDays: 7, RollupDays: 395, NoRaw: true}}
		n++
		o.f.Take(p, o.f.Session(p), []byte(line))
	}
	for i := range 60 {
		var b strings.Builder
		fmt.Fprintf(&b, `{"type":"job_start","session_id":"s","ts_ns":%d,"devices":[`, 1795175929972803352+i)
		for d := range 1000 {
			fmt.Fprintf(&b, `{"id":%d},`, i*1000+d)
		}
		send(strings.TrimSuffix(b.String(), ",") + "]}\n")
	}
	s := o.f.Sessions[SessionKey{"t", "s"}]
	if len(s.DeviceIDs) != 1024 {
		t.Errorf("%d devices are remembered", len(s.DeviceIDs))
	}
	const rows = 2000
	for i := range 3 * 4 << 14 / rows {
		var b strings.Builder
		fmt.Fprintf(&b, `{"type":"kernel_event_batch","session_id":"s","batch_id":%d,"base_time_ns":1795175929972803352,"columns":["dt_ns",`+
			`"kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"],"rows":[`, i)
		for r := range rows {
			fmt.Fprintf(&b, "[0,%d,7,5,1,0,32,0],", 1_000_000+i*rows+r)
		}
		send(strings.TrimSuffix(b.String(), ",") + "]}\n")
		if i%5 == 4 {
			o.publish()
			if index := s.load().Index; index > 160*(4<<14+5*rows)+8<<14 {
				t.Fatalf("%d bytes of slots are kept", index)
			}
		}
	}
	o.end()
	if got := o.sums.sum["kernel_stats_data s 29919598 calls"]; got != uint64(3*4<<14/rows*rows) {
		t.Errorf("%d kernels are counted, want %d", got, 3*4<<14/rows*rows)
	}
}

// Names are bounded in bytes, not only in number, and what is beyond is a reject.
func TestNamesAreBoundedInBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and much of it")
	}
	o := newEveryOwner(t)
	name := strings.Repeat("n", 30<<10)
	refused := uint64(0)
	for i := range 300 {
		var b strings.Builder
		b.WriteString(`{"type":"dictionary_update","session_id":"s","kernel_dict":{`)
		for n := range 20 {
			fmt.Fprintf(&b, `"%d":"%s",`, 1+i*20+n, name)
		}
		p := &Part{Seq: uint64(i + 1), Now: o.now, Env: stream.Envelope{Tenant: "t", Session: "s", Kind: stream.KindGPUFlight,
			Source: "gpu-flight", Identity: "w", Part: i,
			ReceivedAt: 1795175935972803352, RetentionDays: 7, RollupDays: 395}}
		s := o.f.Session(p)
		o.f.Take(p, s, []byte(strings.TrimSuffix(b.String(), ",")+"}}\n"))
		refused += p.usage.rejected
		if s.nameBytes > MaxNameTotal {
			t.Fatalf("%d bytes of names", s.nameBytes)
		}
		o.f.Out.Reset()
		o.f.names, o.f.usage = nil, map[usageKey]*Counts{}
	}
	if want := uint64(300 - MaxNameTotal/(30<<10)/20); refused < want-1 || refused > want+1 {
		t.Errorf("%d lines are refused, want some %d", refused, want)
	}
}
