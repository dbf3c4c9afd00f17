package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// trace is a Chrome trace, and what encoding/json makes of it.
type trace struct {
	name     string // of the session
	body     []byte
	packed   []byte
	base     string // baseTimeNanoseconds
	rank     int64
	elements []element
}

// element is an element of the list of events.
type element struct {
	Ph, Cat, Name string
	TS, Dur       json.Number
	PID, TID, ID  any
	Args          json.RawMessage
}

// args are some of the args of an element.
type args struct {
	Correlation            *uint64
	Stream, Device         json.RawMessage
	External               *uint64 `json:"External id"`
	Registers              uint32  `json:"registers per thread"`
	Grid, Block            []uint32
	Bytes                  int64
	Addr                   uint64
	DeviceID               *int32 `json:"Device Id"`
	DeviceType             int    `json:"Device Type"`
	Kind                   string `json:"cuda_sync_kind"`
	Value, Context, WaitOn json.RawMessage
}

func (e *element) read(t *testing.T) (a args) {
	t.Helper()
	if len(e.Args) == 0 {
		return a
	}
	// encoding/json takes "Device" for "device": old files have both.
	var all map[string]json.RawMessage
	if err := json.Unmarshal(e.Args, &all); err != nil {
		t.Fatalf("%s: %v", e.Args, err)
	}
	delete(all, "Device")
	delete(all, "Stream")
	if v, ok := all["external id"]; ok {
		all["External id"] = v
		delete(all, "external id")
	}
	text, err := json.Marshal(all)
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err != nil {
		t.Fatalf("%s: %v", e.Args, err)
	}
	return a
}

// number is an integer of the args, or none where they say something else.
func number(v json.RawMessage, none int64) int64 {
	n := none
	if json.Unmarshal(v, &n) != nil {
		return none
	}
	return n
}

// traces are the vectors, and where WARPLINE_TRACE_VECTORS names a folder, those in it.
func traces(t *testing.T) (all []*trace) {
	t.Helper()
	for _, dir := range []string{"../../../testdata/traces/real", os.Getenv("WARPLINE_TRACE_VECTORS")} {
		found, err := filepath.Glob(filepath.Join(dir, "*.json.gz"))
		if err != nil || dir != "" && len(found) == 0 {
			t.Fatalf("%s: %d traces, %v", dir, len(found), err)
		}
		if dir == "" {
			continue
		}
		for _, path := range found {
			name := strings.TrimSuffix(filepath.Base(path), ".json.gz")
			if slices.ContainsFunc(all, func(have *trace) bool { return have.name == name }) {
				continue
			}
			tr := &trace{name: name, body: maybePacked(t, strings.TrimSuffix(path, ".gz")), rank: -1}
			if tr.packed, err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
			var whole struct {
				Base   json.Number           `json:"baseTimeNanoseconds"`
				Info   struct{ Rank *int64 } `json:"distributedInfo"`
				Events []element             `json:"traceEvents"`
			}
			d := json.NewDecoder(bytes.NewReader(tr.body))
			d.UseNumber()
			if err := d.Decode(&whole); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			tr.base, tr.elements = string(whole.Base), whole.Events
			if whole.Info.Rank != nil {
				tr.rank = *whole.Info.Rank
			}
			all = append(all, tr)
		}
	}
	return all
}

// ns is a time in microseconds as ns, with the base of the trace added where it is a time.
func (tr *trace) ns(t *testing.T, us json.Number, base string) int64 {
	t.Helper()
	if us == "" {
		return 0
	}
	r, ok := new(big.Rat).SetString(string(us))
	if !ok {
		t.Fatalf("%s: time %q", tr.name, us)
	}
	r.Mul(r, big.NewRat(1000, 1))
	if base != "" {
		b, _ := new(big.Rat).SetString(base)
		r.Add(r, b)
	}
	return r.Num().Int64()
}

// kindsOf are the kinds of categories.
var kindsOf = map[string]string{"kernel": "kernel", "Kernel": "kernel", "gpu_memcpy": "memcpy", "Memcpy": "memcpy", "gpu_memset": "memset",
	"Memset": "memset", "cuda_sync": "sync", "cuda_runtime": "runtime", "Runtime": "runtime", "cuda_driver": "driver", "cpu_op": "op",
	"Operator": "op", "user_annotation": "annotation", "gpu_user_annotation": "gpu_annotation", "python_function": "python",
	"overhead": "overhead"}

// rows adds what is to be in SQL of the trace: lines with how often each is there, by table.
func (tr *trace) rows(t *testing.T, want map[string]map[string]uint64) {
	add := func(table, format string, values ...any) {
		if want[table] == nil {
			want[table] = map[string]uint64{}
		}
		want[table]["trace:"+tr.name+"|"+fmt.Sprintf(format, values...)]++
	}
	type slice struct {
		name    string
		at, dur int64
	}
	launches, starts := map[uint64][]slice{}, map[string]slice{}
	launched := func(a *args, s slice) {
		if a.Correlation != nil && *a.Correlation != 0 {
			for _, from := range launches[*a.Correlation] {
				add("trace_flows", "launch|%d|%s|%d|%d|%s|%d|%d", *a.Correlation, from.name, from.at, from.dur, s.name, s.at, s.dur)
			}
		}
	}
	for pass := range 2 { // launches and starts of arrows may stand behind what they lead to
		var last element
		for _, e := range tr.elements {
			if e.Ph == "M" {
				continue
			}
			a, s := e.read(t), slice{e.Name, tr.ns(t, e.TS, tr.base), tr.ns(t, e.Dur, "")}
			kind := kindsOf[e.Cat]
			if e.Ph != "X" {
				kind = ""
			}
			key := fmt.Sprint(e.Cat, e.Name, e.ID)
			switch {
			case pass == 0:
				if (kind == "runtime" || kind == "driver") && a.Correlation != nil {
					launches[*a.Correlation] = append(launches[*a.Correlation], s)
				}
				if e.Ph == "X" {
					last = e
				}
				if e.Ph == "s" {
					s.name = last.Name
					s.dur = tr.ns(t, last.Dur, "")
					starts[key] = s
				}
				continue
			case e.Ph == "X":
				last = e
				tr.gpu(t, &e, &a, kind, add)
				if kind == "kernel" || kind == "memcpy" || kind == "memset" || kind == "sync" {
					launched(&a, s)
				}
			case e.Ph == "f" && e.Cat == "fwdbwd":
				from := starts[key]
				add("trace_flows", "fwdbwd|%v|%s|%d|%d|%s|%d|%d", e.ID, from.name, from.at, from.dur, last.Name, s.at, tr.ns(t, last.Dur, ""))
			case e.Ph == "i" && e.Name == "[memory]":
				kind = "memory"
				op, size, device := "alloc", a.Bytes, int32(-1)
				if size < 0 {
					op, size = "free", -size
				}
				if a.DeviceID != nil {
					device = *a.DeviceID
				}
				add("allocations", "%d|%s|%s|%d|%d|%d", s.at, op, map[bool]string{true: "device", false: "unknown"}[a.DeviceType > 0], a.Addr, size,
					device)
			}
			if e.Ph != "X" && e.Ph != "i" {
				continue
			}
			device, stream := number(a.Device, -1), number(a.Stream, -1)
			if kind == "kernel" || kind == "memcpy" || kind == "memset" || kind == "gpu_annotation" {
				if len(a.Device) == 0 {
					device = number(json.RawMessage(plain(e.PID)), -1)
				}
				if len(a.Stream) == 0 {
					stream = number(json.RawMessage(plain(e.TID)), -1)
				}
			}
			correlation, external := uint64(0), uint64(0)
			if a.Correlation != nil {
				correlation = *a.Correlation
			}
			if a.External != nil {
				external = *a.External
			}
			text := new(bytes.Buffer)
			if len(e.Args) > 2 {
				json.Compact(text, e.Args)
			}
			if text.String() == "{}" {
				text.Reset()
			}
			add("trace_slices", "%d|%d|%s|%s|%s|%s|%v|%v|%d|%d|%d|%d|%s", s.at, s.dur, e.Ph, kind, e.Cat, e.Name, plain(e.PID), plain(e.TID), device,
				stream, correlation, external, text)
		}
	}
}

// plain is a number or a text as text.
func plain(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case float64:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprint(v)
}

// gpu adds what is to be in GPU Flight's tables of a slice.
func (tr *trace) gpu(t *testing.T, e *element, a *args, kind string, add func(table, format string, values ...any)) {
	at, dur := tr.ns(t, e.TS, tr.base), tr.ns(t, e.Dur, "")
	corr := uint64(0)
	if a.Correlation != nil {
		corr = *a.Correlation
	}
	stream := max(number(a.Stream, -1), 0)
	dims := func(d []uint32) string {
		if len(d) != 3 {
			return ""
		}
		return fmt.Sprintf("(%d,%d,%d)", d[0], d[1], d[2])
	}
	switch kind {
	case "kernel":
		external := uint64(0)
		if a.External != nil {
			external = *a.External
		}
		add("kernels", "%d|%d|%s|%d|%d|%d|%d|%s|%s|%d", at, dur, e.Name, stream, corr, number(a.Device, -1), external,
			dims(a.Grid), dims(a.Block), a.Registers)
	case "memcpy":
		add("memcpys", "%d|%d|%s|%d|%d|%d", at, dur, strings.Fields(e.Name)[1], a.Bytes, stream, corr)
	case "memset":
		add("memsets", "%d|%d|%s|%d|%d|%d|%d", at, dur, e.Name, a.Bytes, number(a.Device, -1), stream, corr)
	case "sync":
		add("syncs", "%d|%d|%s|%d|%d", at, dur, strings.ToLower(strings.TrimSuffix(strings.ReplaceAll(a.Kind, " ", "_"), "_Sync")), stream, corr)
	case "annotation":
		add("markers", "%d|%d|%s|%s", at, dur, e.Name, plain(e.PID))
	}
}

// traceRows asks for the lines that rows makes.
var traceRows = map[string]string{
	"trace_slices": "toUnixTimestamp64Nano(started_at), duration_ns, phase, kind, category, name, pid, tid, device_id, stream_id, " +
		"correlation, external_id, args",
	"trace_flows": "kind, correlation, from_name, toUnixTimestamp64Nano(from_started_at), from_duration_ns, to_name, " +
		"toUnixTimestamp64Nano(to_started_at), to_duration_ns",
	"kernels": "toUnixTimestamp64Nano(started_at), duration_ns, kernel, stream_id, corr_id, device_id, external_id, grid, " +
		"block, registers",
	"memcpys":     "toUnixTimestamp64Nano(started_at), duration_ns, copy_kind, bytes, stream_id, corr_id",
	"memsets":     "toUnixTimestamp64Nano(started_at), duration_ns, name, bytes, device_id, stream_id, corr_id",
	"syncs":       "toUnixTimestamp64Nano(started_at), duration_ns, sync_type, stream_id, corr_id",
	"allocations": "toUnixTimestamp64Nano(started_at), memory_op, memory_kind, address, bytes, device_id",
	"markers":     "toUnixTimestamp64Nano(started_at), duration_ns, name, pid",
}
