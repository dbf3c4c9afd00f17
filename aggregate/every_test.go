package aggregate

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"

	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/parca"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/telemetry"
	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
	telemetrytable "github.com/warpline/warpline/sink/table/telemetry"
)

// Everything at once: whatever the parts are, in whatever order they come, how often, and whoever owns the partition meanwhile, every
// table of every type of event adds up to the same.

// everyFile is what a client wrote to one file: lines in their order, or frames of telemetry.
type everyFile struct {
	session, name string
	telemetry     bool
	alerts        bool // of a tracker's file
	lines         [][]byte
	kind          stream.Kind
	counts        []uint64 // lines are whole parts of kind, of so many events
}

// everyPart is one part on its way to the owner.
type everyPart struct {
	env  stream.Envelope
	body []byte
}

// olderEvents are lines of the types that have no example.
const olderEvents = `{"type":"init","pid":5,"app":"old","session_id":"old","ts_ns":1795175929000000000,"devices":[{"id":0,"name":"A100",` +
	`"uuid":"u","vendor":"NVIDIA"}]}
{"type":"kernel_event","session_id":"old","pid":5,"app":"old","name":"gemm","start_ns":1795175929972803352,"end_ns":1795175929972804352,` +
	`"corr_id":1,"grid":"(1,1,1)","block":"(32,1,1)","user_scope":"train|fwd","num_regs":32}
{"type":"kernel_event","session_id":"old","pid":5,"app":"old","name":"relu","start_ns":1795175929972805352,"duration_ns":77,"corr_id":2}
{"type":"memcpy_event","session_id":"old","start_ns":1795175929972806352,"end_ns":1795175929972806452,"bytes":4096,"copy_kind":"DtoD",` +
	`"corr_id":3}
{"type":"memcpy_event","session_id":"old","start_ns":1795175929972807352,"end_ns":1795175929972807552,"bytes":8,"copy_kind":"HtoD",` +
	`"corr_id":4}
{"type":"memcpy_event","session_id":"old","start_ns":1795175929972807952,"end_ns":1795175929972808052,"bytes":16,"copy_kind":1,"corr_id":4}
{"type":"scope_begin","session_id":"old","name":"train","user_scope":"train","ts_ns":1795175929972803000,"scope_depth":0,` +
	`"host":{"cpu_pct":5,"ram_used_mib":7,"ram_total_mib":99}}
{"type":"scope_begin","session_id":"old","name":"fwd","user_scope":"train|fwd","ts_ns":1795175929972803100,"scope_depth":1}
{"type":"scope_end","session_id":"old","name":"fwd","user_scope":"train|fwd","ts_ns":1795175929972803900,"scope_depth":1}
{"type":"scope_end","session_id":"old","name":"train","user_scope":"train","ts_ns":1795175929972809000,"scope_depth":0}
{"type":"synchronization_event","session_id":"old","start_ns":1795175929972803352,"end_ns":1795175929972804352,"sync_type":"stream",` +
	`"stack_trace":"main|step"}
{"type":"memory_alloc_event","session_id":"old","start_ns":1795175929972803352,"duration_ns":5,"memory_op":"alloc",` +
	`"memory_kind":"device","address":4096,"bytes":512}
{"type":"system_sample","session_id":"old","ts_ns":1795175929972803352,"host":{"cpu_pct":5,"ram_used_mib":7,"ram_total_mib":99},` +
	`"devices":[{"id":0,"used_mib":5,"free_mib":6,"total_mib":11,"temp_c":40}]}
{"type":"kernel_event_batch","session_id":"old","batch_id":1,"base_time_ns":1795175929972803352,"columns":["dt_ns","kernel_id",` +
	`"stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details","new_column"],"rows":[[0,1,7,5,901,0,32,1,8],[-9,2,7,5,902,0,` +
	`32,1,9]]}
{"type":"shutdown","pid":5,"app":"old","session_id":"old","ts_ns":1795175930972803352}
`

// lateEvents are a detail without a kernel, and durations that are none.
const lateEvents = `{"version":1,"type":"kernel_detail","session_id":"late","pid":5,"app":"late","corr_id":77,"grid":"(1,1,1)",` +
	`"block":"(32,1,1)","user_scope":"train"}
{"version":1,"type":"kernel_detail","session_id":"late","pid":5,"app":"late","corr_id":77,"grid":"(1,1,1)","block":"(32,1,1)",` +
	`"user_scope":"train"}
{"version":1,"type":"kernel_detail","session_id":"late","corr_id":78,"block":"(32,1,1)","grid":"(1,1,1)"}
{"version":1,"type":"capture_capabilities","session_id":"late","ts_ns":1795175931530422013,"requested_engine":"nvidia.trace",` +
	`"selected_engine":"nvidia.pm","capabilities":[{"feature":"kernel_events","requested":true,"status":"fallback",` +
	`"mode":"launch_callbacks_synthetic","reason_code":"x","message":"y"}]}
`

// olderSamples have no time of their own, so they are known again only with the bytes around them.
const olderSamples = `{"type":"profile_sample","session_id":"samples","ts_ns":1795175929972803352,"function_name":"gemm@a.cu",` +
	`"pc_offset":16,"stall_reason":4,"sample_count":9}
{"type":"profile_sample","session_id":"samples","ts_ns":1795175929972803353,"function_name":"gemm@a.cu","pc_offset":16,` +
	`"metric_name":"inst","metric_value":12}
`

// badEvents are refused, each for its reason.
const badEvents = `{"type":"tomorrow","session_id":"bad","x":1}
{"type":"kernel_event","session_id":"bad","start_ns":-5,"duration_ns":1}
{"type":"memset_event","session_id":"bad","start_ns":5}
{"type":"memset_event","session_id":"bad"
{"type":"graph_node_definition","session_id":"bad","node_index":"x"}
{"type":"kernel_event_batch","session_id":"bad","batch_id":1,"base_time_ns":1795175929972803352,"columns":["dt_ns","kernel_id",` +
	`"stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"],"rows":[[0,1,7,5,901,0,32,0],[0,1,7,-5,901,0,32,0],7]}
{"type":"scope_event_batch","session_id":"bad","batch_id":1,"base_time_ns":1795175929972803352,"columns":["dt_ns","scope_instance_id",` +
	`"name_id","event_type","depth"],"rows":[[0,1,1,9,0]]}
{"type":"memset_event","start_ns":5,"end_ns":6}
{"type":"memset_event","session_id":"other","start_ns":5,"end_ns":6}
`

// everyEvent reads all that there is.
func everyEvent(t testing.TB) (files []everyFile) {
	t.Helper()
	add := func(session, name string, body []byte) {
		files = append(files, everyFile{session: session, name: name, lines: slices.Collect(bytes.Lines(body))})
	}
	root := filepath.Join("..", "testdata")
	windows, err := filepath.Glob(filepath.Join(root, "gpuflight", "*", "*", "*.log.gz"))
	if err != nil || len(windows) == 0 {
		t.Fatal("no windows", err)
	}
	for _, path := range windows {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(file)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		file.Close()
		add(filepath.Base(filepath.Dir(path)), filepath.Base(path), body)
	}
	for _, name := range []string{"examples_by_type.ndjson", "examples_handbuilt.ndjson"} {
		text, err := os.ReadFile(filepath.Join(root, "gpuflight", name))
		if err != nil {
			t.Fatal(err)
		}
		bySession := map[string][]byte{}
		for line := range bytes.Lines(text) {
			_, session := gpuflight.Peek(line)
			bySession["x"+string(session)] = append(bySession["x"+string(session)], bytes.ReplaceAll(line, session, append([]byte("x"),
				session...))...)
		}
		for session, body := range bySession {
			if session != "xs" { // of one letter, which stands elsewhere too
				add(session, name, body)
			}
		}
	}
	add("old", "old", []byte(olderEvents))
	add("late", "late", []byte(lateEvents))
	add("samples", "samples", []byte(olderSamples))
	add("bad", "bad", []byte(badEvents))
	cases, err := os.ReadFile(filepath.Join(root, "telemetry", "v2_cases.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	memory := everyFile{session: "mem:1", name: "mem", telemetry: true}
	var v telemetry.Validator
	for line := range bytes.Lines(cases) {
		var c struct{ Input json.RawMessage }
		var e telemetry.Event
		if json.Unmarshal(line, &c) == nil && len(c.Input) > 0 && c.Input[0] == '{' && v.Event(&e, c.Input, nil) == nil {
			e.TimestampNS = 1795175935000000000 + int64(len(memory.lines)) // one moment would make twins of them
			memory.lines = append(memory.lines, telemetry.AppendFrame(nil, len(memory.lines), &e))
		}
	}
	if len(memory.lines) < 10 {
		t.Fatalf("%d records of telemetry", len(memory.lines))
	}
	slices.SortFunc(files, func(a, b everyFile) int { return strings.Compare(a.session+a.name, b.session+b.name) })
	alerts := everyFile{session: "mem:1", name: "alerts", telemetry: true, alerts: true}
	for i := range 60 {
		alerts.lines = append(alerts.lines, telemetry.AppendAlert(nil,
			&telemetry.Alert{TimestampNS: 1795175935000000000 + int64(i), MemoryMB: 5, ThresholdMB: 4, Message: []byte("m")}))
	}
	return append(files, memory, alerts, everySample(), everyTrace(t))
}

// everyTrace is a real trace, cut fine, with a counter.
func everyTrace(t testing.TB) everyFile {
	e := everyFile{session: "trace:step", name: "trace", telemetry: true, kind: stream.KindTrace}
	e.lines, e.counts = TraceParts(t, 1<<12)
	return e
}

// everySample is batches of a process as Parca's agent sends them, a part a line.
func everySample() everyFile {
	e := everyFile{session: "parca:n:7:train", name: "parca", telemetry: true, kind: stream.KindParca}
	const at = 1795175935000000000
	for i := range uint64(40) {
		p := parca.Part{
			Process: parca.Process{Node: "n", PID: "7", Comm: "train", Labels: []parca.Label{{Name: "pod", Value: "p"}}},
			Strings: []string{"", "_Z4gemmv", "relu", "cubin-00000000a11ce121", "f997", "smsp__pcsamp_warps_issue_stalled_wait", "IMAD"},
			Stacks:  []parca.Stack{{}, {Hi: 1, Lo: i % 3, Frames: []string{"cudaLaunchKernel", fmt.Sprint("train.py:", i%3)}}},
			PC: []parca.PCRow{{At: at + int64(i), Samples: i + 1, PeriodNS: 433654, Offset: 16 * (i % 4), Function: 1, Cubin: 3, BuildID: 4,
				Reason: 5, SASS: 6, Stack: 1, Device: -1}},
			Kernels: []parca.KernelRow{{At: at + int64(i), DurationNS: 100 + i, StreamID: 7, Function: 1 + uint32(i%2), Stack: 1}},
		}
		n := uint64(2)
		if i == 5 {
			p.Refused = []parca.Refused{{Reason: "not_gpu", Detail: "of a CPU", Type: "samples", Minute: at, Rows: 19}}
			n += 19
		}
		body := parca.AppendPart(nil, &p)
		e.lines, e.counts = append(e.lines, body), append(e.counts, n)
	}
	return e
}

// cut makes parts of a file. Frames are cut by the gateway, and always alike.
func (e *everyFile) cut(r *rand.Rand, identity string, most int) (parts []everyPart) {
	for from := 0; from < len(e.lines); {
		n := min(1+r.IntN(most), len(e.lines)-from)
		if e.counts != nil {
			n = 1
		}
		p := everyPart{env: stream.Envelope{Tenant: "t", Session: e.session, Kind: stream.KindGPUFlight, Source: "gpu-flight",
			Identity: identity + e.name, Part: len(parts),
			ReceivedAt: 1795175935972803352, RetentionDays: 7, RollupDays: 395, Host: "h"}, body: bytes.Join(e.lines[from:from+n], nil)}
		if e.telemetry {
			p.env.Kind, p.env.Source = stream.KindTelemetry, "telemetry"
		}
		for _, line := range e.lines[from : from+n] {
			p.env.Events += uint64(gpuflight.CountEvents(line))
		}
		if e.telemetry {
			p.env.Events = uint64(n)
		}
		if e.counts != nil {
			p.env.Kind, p.env.Source, p.env.Events = e.kind, string(e.kind), e.counts[from]
		}
		if e.alerts {
			p.env.Kind, p.env.Events = stream.KindAlerts, 0
			p.body = append([]byte(`{"host":"h","job_id":"j","rank":0,"device_id":0}`+"\n"), p.body...)
		}
		parts = append(parts, p)
		from += n
	}
	return parts
}

// everyOwner is an owner without NATS, whose clock the test moves.
type everyOwner struct {
	t      testing.TB
	cfg    Config
	f      *Fold
	now    int64
	log    []everyPart // what the stream brought
	done   int         // position of the published chunks
	at     int         // position of the fold
	states [][]byte
	names  map[SessionKey]map[NameRef]string
	sums   everySums
	noRaw  bool
}

func newEveryOwner(t testing.TB) *everyOwner {
	o := &everyOwner{t: t, cfg: Config{Sources: Sources, RawWait: time.Hour, DetailWait: time.Hour, IdleAfter: time.Hour,
		DropNames: 3 * time.Second, Forget: time.Hour}.withDefaults(),
		now: 1_795_175_940_000_000_000, names: map[SessionKey]map[NameRef]string{}, sums: newEverySums(t)}
	o.f = newFold(&o.cfg, newCounters(nil))
	return o
}

// load is what owner.loadNames does.
func (o *everyOwner) load(s *Session) {
	if s.dictsLoaded {
		return
	}
	accepted := s.names
	s.names = 0
	for ref, text := range o.names[s.Key] {
		if _, known := s.dicts[ref.Dict][ref.ID]; !known {
			s.learn(ref, text)
		}
	}
	if s.names != accepted {
		o.t.Fatalf("%s: %d names were stored of %d", s.Key.ID, s.names, accepted)
	}
	s.dictsLoaded = true
}

// take folds the next part of the log, and looks whether the books balance.
func (o *everyOwner) take() {
	in := o.log[o.at]
	p := &Part{Seq: uint64(o.at + 1), Now: o.now, Env: in.env}
	p.Env.NoRaw = o.noRaw
	if d := in.env.Delete; d != nil {
		o.f.Erase(*d)
		o.at++
		return
	}
	if o.f.drops(p) {
		o.at++
		return
	}
	s := o.f.Session(p)
	o.load(s)
	books := func() (u Counts) {
		for _, a := range o.f.usage {
			u.Events, u.Stored, u.rejected, u.Duplicates = u.Events+a.Events, u.Stored+a.Stored, u.rejected+a.rejected, u.Duplicates+a.Duplicates
		}
		return u
	}
	before := books()
	o.f.Take(p, s, in.body)
	after := books()
	if after.Events-before.Events != after.Stored-before.Stored+after.rejected-before.rejected+after.Duplicates-before.Duplicates {
		o.t.Fatalf("the books do not balance: from %+v to %+v by\n%.2000s", before, after, in.body)
	}
	if after.Events-before.Events != in.env.Events && in.env.Session != "bad" { // a row that is no row is one only to who decodes it
		o.t.Fatalf("%d events came, the gateway counted %d, in\n%.2000s", after.Events-before.Events, in.env.Events, in.body)
	}
	o.at++
}

// pass lets time go by.
func (o *everyOwner) pass(d time.Duration) {
	o.now += int64(d)
	for range min(len(o.f.unnamed), 2) { // a few at a time
		o.load(o.f.unnamed[0])
		o.f.unnamed[0].awaited = false
		o.f.unnamed = o.f.unnamed[1:]
	}
	o.f.Expire(o.now)
	o.f.ExpireIdle(o.now)
}

// publish closes the chunk; its rows count from here on.
func (o *everyOwner) publish() {
	for i := range o.f.names {
		b := &o.f.names[i]
		if o.names[b.session.Key] == nil {
			o.names[b.session.Key] = map[NameRef]string{}
		}
		for _, e := range b.entries {
			o.names[b.session.Key][e.ref] = e.value
		}
	}
	o.f.Flush(o.now)
	rows, body, err := o.f.Out.Encode(rows.Tails{})
	if err != nil {
		o.t.Fatal(err)
	}
	for _, r := range rows {
		n := r.SchemaLen + r.DataLen
		if r.Table == table.Books.Name { // it counts rows, whose number depends on where chunks end
			body = body[n:]
			continue
		}
		o.sums.add(r.Table, append(slices.Clone(body[:n]), table.EOS()...))
		body = body[n:]
	}
	for _, d := range o.f.deletes { // as the sink does
		o.sums.forget(d.Session)
	}
	o.states = append(o.states, o.f.AppendState(nil, false))
	o.f.Published()
	o.f.Out.Reset()
	o.f.OutSerial++
	o.done = o.at
}

// die loses what was not published; a successor goes on from what was, by snapshot or by changes.
func (o *everyOwner) die(snapshot bool) {
	if snapshot && o.at == o.done {
		o.states = [][]byte{o.f.AppendState(nil, true)}
	}
	f := newFold(&o.cfg, newCounters(nil))
	for _, s := range o.states {
		if err := f.ApplyState(s); err != nil {
			o.t.Fatal(err)
		}
	}
	f.Resume(o.now, o.now, false)
	o.f, o.at = f, o.done
}

// end finalizes every session and writes all that is held.
func (o *everyOwner) end() {
	o.publish()
	for _, s := range o.f.Sessions {
		o.load(s)
		o.f.Close(s)
	}
	o.f.leaving = true
	o.publish()
	for s := range o.f.held { // what began to wait with the chunk before
		o.f.Touch(s)
	}
	o.publish()
	if o.f.HeldAccs != 0 || o.waiting() != 0 || len(o.f.held) != 0 {
		o.t.Fatalf("%d accumulators, %d waiting sessions, %d held ones are left", o.f.HeldAccs, o.waiting(), len(o.f.held))
	}
}

// everySums adds up all rows.
type everySums struct {
	t        testing.TB
	sum      map[string]uint64
	least    map[string]float64
	most     map[string]float64
	last     map[string]string // the largest text
	nodes    map[string]bool
	rows     map[string]int
	late     map[string]string            // names that came late, by session, dictionary and id
	unnamed  map[string]map[string]uint64 // what has no name, by the same
	launches map[string]string            // by session and id
	names    map[string]string            // of Parca's kernels, whose ids hang on the order, by session and id
	configs  map[string]string            // likewise
	kernels  map[string]map[uint32]uint64 // by session and launch: corr ids, as often as there are
	details  map[string]string            // by session and corr id: config
}

func newEverySums(t testing.TB) everySums {
	return everySums{t: t, sum: map[string]uint64{}, least: map[string]float64{}, most: map[string]float64{}, last: map[string]string{},
		nodes: map[string]bool{}, rows: map[string]int{}, late: map[string]string{},
		unnamed: map[string]map[string]uint64{}, launches: map[string]string{}, names: map[string]string{}, configs: map[string]string{},
		kernels: map[string]map[uint32]uint64{}, details: map[string]string{}}
}

// everyName is a column with a name that came from a dictionary, how it is made from the entry, and the column that says how much has it.
type everyName struct {
	column, id, weight string
	dict               gpuflight.Dict
	function           bool
}

var everyNames = map[string][]everyName{
	"kernel_stats_data": {{"kernel", "kernel_id", "calls", gpuflight.KernelDict, false}},
	"scope_stats_data":  {{"scope", "name_id", "calls", gpuflight.ScopeNameDict, false}},
	"scopes_data":       {{"name", "name_id", "matched", gpuflight.ScopeNameDict, false}},
	"pc_samples_data": {{"function", "function_id", "samples", gpuflight.FunctionDict, true}, {"stall_reason", "metric_id", "samples",
		gpuflight.MetricDict, false},
		{"scope", "scope_id", "samples", gpuflight.ScopeNameDict, false}},
	"profile_metrics_data": {{"function", "function_id", "hits", gpuflight.FunctionDict, true}, {"metric_name", "metric_id", "hits",
		gpuflight.MetricDict, false},
		{"scope", "scope_id", "hits", gpuflight.ScopeNameDict, false}},
	"source_map_data": {{"function", "function_id", "hits", gpuflight.FunctionDict, true}},
}

// everyIgnored are columns that rightly depend on what came first, or on when: ids of the worker's own, and what the views resolve.
var everyIgnored = map[string]bool{
	"rows_partition": true, "chunk": true, "config_id": true, "launch_id": true, "late": true, "kernels_data.device_id": true,
	"scopes_data.path":       true,
	"memcpys_data.copy_kind": true, "hostname": true, "rejects_data.payload_ref": true, "rejects_data.detail": true, "bucket_s": true,
	"file": true,
}

func (e *everySums) add(name string, piece []byte) {
	def := tabletest.Schema().Table(name)
	reader, err := ipc.NewReader(bytes.NewReader(piece))
	if err != nil {
		e.t.Fatal(err)
	}
	defer reader.Release()
	for reader.Next() {
		rec := reader.Record()
		e.rows[name] += int(rec.NumRows())
		if name == "usage_data" { // counts what comes twice, too
			continue
		}
		column := func(n string) arrow.Array {
			if i := rec.Schema().FieldIndices(n); len(i) == 1 {
				return rec.Column(i[0])
			}
			return nil
		}
		text := func(n string, row int) string {
			switch c := column(n).(type) {
			case *array.Dictionary:
				return c.Dictionary().ValueStr(c.GetValueIndex(row))
			case *array.Binary:
				return string(c.Value(row))
			}
			return ""
		}
		for row := range int(rec.NumRows()) {
			session := text("session_id", row)
			id := func(n string) string { return fmt.Sprint(session, "|", column(n).(*array.Uint32).Value(row)) }
			switch name {
			// a definition may rightly be written twice, and may be taken for one that is sent again: the view shows it once
			case "graph_nodes_data":
				e.nodes[fmt.Sprint("nodes of ", session, " ", text("graph_exec_key", row), " ", column("node_index").(*array.Uint32).Value(row))] = true
				e.sum["sessions_data "+session+" events"]--
				continue
			case "launches":
				e.launches[id("launch_id")] = fmt.Sprint(column("kernel_id").(*array.Uint32).Value(row), " ",
					column("registers").(*array.Uint32).Value(row), " ", column("dyn_shared_bytes").(*array.Uint32).Value(row)) + "\x00" + id("config_id")
				continue
			case "launch_configs":
				e.configs[id("config_id")] = text("grid", row) + text("user_scope", row)
			case "kernel_details_data":
				e.details[id("corr_id")] = id("config_id")
			case "dictionaries":
				if strings.HasPrefix(session, parca.SessionPrefix) {
					e.names[id("id")] = text("value", row)
					continue
				}
				if column("late").(*array.Uint8).Value(row) == 1 {
					e.late[session+"|"+text("dict", row)+"|"+fmt.Sprint(column("id").(*array.Uint32).Value(row))] = text("value", row)
				}
			case "kernels_data":
				if e.kernels[id("launch_id")] == nil {
					e.kernels[id("launch_id")] = map[uint32]uint64{}
				}
				e.kernels[id("launch_id")][column("corr_id").(*array.Uint32).Value(row)]++
			}
			key := name + " " + session + " "
			if bucket, ok := column("bucket").(*array.Timestamp); ok {
				key += fmt.Sprint(int64(bucket.Value(row))/rows.BucketNS, " ")
			}
			for _, n := range everyNames[name] {
				weight := uint64(0)
				switch c := column(n.weight).(type) {
				case *array.Uint64:
					weight = c.Value(row)
				case *array.Uint8:
					weight = uint64(c.Value(row))
				}
				what := key + n.column + "="
				number := column(n.id).(*array.Uint32).Value(row)
				if t := text(n.column, row); t != "" || number == 0 {
					e.sum[what+t] += weight
					continue
				}
				ref := fmt.Sprintf("%s|%s|%d", session, n.dict, number)
				if n.function {
					what += "\x00"
				}
				if e.unnamed[ref] == nil {
					e.unnamed[ref] = map[string]uint64{}
				}
				e.unnamed[ref][what] += weight
			}
			for i, c := range rec.Columns() {
				n := rec.ColumnName(i)
				if everyIgnored[n] || everyIgnored[name+"."+n] || slices.ContainsFunc(everyNames[name], func(x everyName) bool {
					return x.column == n ||
						x.id == n && n == "metric_id"
				}) {
					continue
				}
				typ := def.Column(n).Type
				if def.Retention == table.Rollup && !strings.HasPrefix(typ, "SimpleAggregateFunction") {
					continue
				}
				e.cell(key+n, typ, c, row)
			}
		}
	}
	if reader.Err() != nil {
		e.t.Fatal(name, reader.Err())
	}
}

// cell counts one cell as its column is counted.
func (e *everySums) cell(key, typ string, column arrow.Array, row int) {
	var v float64
	var n uint64
	switch c := column.(type) {
	case *array.Uint64:
		n, v = c.Value(row), float64(c.Value(row))
	case *array.Uint32:
		n, v = uint64(c.Value(row)), float64(c.Value(row))
	case *array.Uint16:
		n, v = uint64(c.Value(row)), float64(c.Value(row))
	case *array.Uint8:
		n, v = uint64(c.Value(row)), float64(c.Value(row))
	case *array.Int64:
		n, v = uint64(c.Value(row)), float64(c.Value(row))
	case *array.Int32:
		n, v = uint64(c.Value(row)), float64(c.Value(row))
	case *array.Int16:
		n, v = uint64(c.Value(row)), float64(c.Value(row))
	case *array.Timestamp:
		n, v = uint64(c.Value(row)), float64(c.Value(row))
	case *array.Date32:
		n, v = uint64(c.Value(row)), float64(c.Value(row))
	case *array.Float64:
		v = c.Value(row)
		n = uint64(int64(v * 1000))
	case *array.Float32:
		v = float64(c.Value(row))
		n = uint64(int64(v * 1000))
	case *array.Dictionary:
		text := c.Dictionary().ValueStr(c.GetValueIndex(row))
		if strings.HasPrefix(typ, "SimpleAggregateFunction(max") {
			e.last[key] = max(e.last[key], text)
			return
		}
		e.sum[key+"="+text]++
		return
	case *array.Binary:
		e.sum[key+"="+string(c.Value(row))]++
		return
	case *array.Map:
		from, to := c.ValueOffsets(row)
		for i := from; i < to; i++ {
			k := fmt.Sprint(key, "[", c.Keys().(*array.Int16).Value(int(i)), "]")
			e.count(k, typ, c.Items().(*array.Uint64).Value(int(i)), float64(c.Items().(*array.Uint64).Value(int(i))))
		}
		return
	default:
		e.t.Fatalf("%s: a column of type %s", key, column.DataType())
	}
	e.count(key, typ, n, v)
}

func (e *everySums) count(key, typ string, n uint64, v float64) {
	switch {
	case strings.HasPrefix(typ, "SimpleAggregateFunction(min"):
		if old, ok := e.least[key]; !ok || v < old {
			e.least[key] = v
		}
	case strings.HasPrefix(typ, "SimpleAggregateFunction(max"):
		if old, ok := e.most[key]; !ok || v > old {
			e.most[key] = v
		}
	default:
		e.sum[key] += n
	}
}

// forget takes out what there is of a session.
func (e *everySums) forget(session string) {
	is := func(key string) bool { return strings.Contains(key, " "+session+" ") }
	maps.DeleteFunc(e.sum, func(k string, _ uint64) bool { return is(k) })
	maps.DeleteFunc(e.least, func(k string, _ float64) bool { return is(k) })
	maps.DeleteFunc(e.most, func(k string, _ float64) bool { return is(k) })
	maps.DeleteFunc(e.last, func(k string, _ string) bool { return is(k) })
	maps.DeleteFunc(e.nodes, func(k string, _ bool) bool { return is(k) })
	maps.DeleteFunc(e.unnamed, func(k string, _ map[string]uint64) bool { return strings.HasPrefix(k, session+"|") })
	maps.DeleteFunc(e.kernels, func(k string, _ map[uint32]uint64) bool { return strings.HasPrefix(k, session+"|") })
}

// settled is what the views would say.
func (e *everySums) settled() map[string]string {
	out := map[string]string{}
	sum := map[string]uint64{}
	for k, v := range e.sum {
		sum[k] += v
	}
	for ref, counts := range e.unnamed {
		for what, n := range counts {
			name := e.late[ref]
			if w, function := strings.CutSuffix(what, "\x00"); function {
				what = w
				if i := strings.LastIndexByte(name, '@'); i >= 0 {
					name = name[:i]
				}
			}
			sum[what+name] += n
		}
	}
	for launch, corrs := range e.kernels {
		session, _, _ := strings.Cut(launch, "|")
		l, config, ok := strings.Cut(e.launches[launch], "\x00")
		if !ok {
			e.t.Fatalf("no row describes launch %s", launch)
		}
		if strings.HasPrefix(session, parca.SessionPrefix) {
			number, rest, _ := strings.Cut(l, " ")
			l = e.names[session+"|"+number] + " " + rest
		}
		for corr, n := range corrs {
			c := config
			if strings.HasSuffix(c, "|0") {
				c = e.details[fmt.Sprint(session, "|", corr)]
			}
			sum["kernels of "+session+" "+l+" "+e.configs[c]] += n
		}
	}
	for k, v := range sum {
		if v != 0 {
			out[k] = fmt.Sprint(v)
		}
	}
	for k, v := range e.least {
		out["least "+k] = fmt.Sprint(v)
	}
	for k := range e.nodes {
		out[k] = "there"
	}
	for k, v := range e.last {
		out["last "+k] = v
	}
	for k, v := range e.most {
		out["most "+k] = fmt.Sprint(v)
	}
	return out
}

// diff names what differs, tables first.
func (e *everySums) diff(want map[string]string, given func(string) bool) string {
	got := e.settled()
	ignore := func(k string) bool { // who takes a trace over writes its launch configurations again; kernels are compared by what theirs says
		return given(k) || strings.HasPrefix(k, "launch_configs trace:")
	}
	var out []string
	for k, v := range want {
		if got[k] != v && !ignore(k) {
			out = append(out, fmt.Sprintf("%.300s: %s, want %s", k, got[k], v))
		}
	}
	for k, v := range got {
		if _, ok := want[k]; !ok && !ignore(k) {
			out = append(out, fmt.Sprintf("%.300s: %s, want none", k, v))
		}
	}
	slices.Sort(out)
	if len(out) > 40 {
		out = append(out[:40], fmt.Sprint("and ", len(out)-40, " more"))
	}
	return strings.Join(out, "\n")
}

// straight folds every file once, in order, in one chunk.
func straight(t testing.TB, files []everyFile, noRaw bool) *everyOwner {
	o := newEveryOwner(t)
	o.noRaw = noRaw
	for i := range files {
		o.log = append(o.log, files[i].cut(rand.New(rand.NewPCG(1, 1)), "", 1<<30)...)
	}
	for range o.log {
		o.take()
	}
	o.end()
	return o
}

// TestEveryEventUnderEveryMishap is the promise that the worker makes, for all types of events together.
func TestEveryEventUnderEveryMishap(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and much of it")
	}
	files := everyEvent(t)
	one := straight(t, files, false)
	want := one.sums.settled()
	for _, def := range tabletest.Schema().Tables() {
		if def == telemetrytable.MemoryReplaced.Table {
			continue // what comes to it hangs on the order; see TestOneEventCountsOnce
		}
		if strings.HasPrefix(def.Name, "cubin") {
			continue // they come from uploads of cubins, see aggregate/parca
		}
		if strings.HasPrefix(def.Name, "region") {
			continue // they come from captures of kernels, see aggregate/intrakernel
		}
		if def.Name == "reject_replays_data" {
			continue // they come from reject replay, see TestRejectReplay in cmd/warpline
		}
		if def == table.AdminLog.Table || def == table.Books.Table {
			continue // no event comes to them: they tell of changes of tenants, see cmd/warpline/admin, and of the rows of other tables
		}
		if def.Retention != table.Static && one.sums.rows[def.Name] == 0 && def.Column("tenant") != nil {
			t.Errorf("no event comes to %s: the test shows too little", def.Name)
		}
	}
	for raw, rolled := range map[string][]string{
		"kernels_data": {"kernel_stats_data calls"}, "memcpys_data": {"memcpy_stats_data calls"}, "syncs_data": {"sync_stats_data calls"},
		"pm_samples_data":   {"pm_stats_data samples"},
		"host_metrics_data": {"host_metrics_1m_data samples"}, "device_metrics_data": {"device_metrics_1m_data samples"},
		"memory_events_data": {"memory_stats_data events"},
		"scopes_data":        {"scope_stats_data calls", "scope_stats_data unmatched_begin", "scope_stats_data unmatched_end"},
	} {
		n := uint64(0)
		for k, v := range one.sums.sum {
			name, _, _ := strings.Cut(k, " ")
			if slices.Contains(rolled, name+k[strings.LastIndexByte(k, ' '):]) {
				n += v
			}
		}
		if rows := one.sums.rows[raw]; uint64(rows) != n || n == 0 {
			t.Errorf("%d rows of %s, and %v say %d", rows, raw, rolled, n)
		}
	}
	// The records come from many processes, of which a session of telemetry is one: its row says what the last one said.
	process := func(k string) bool {
		_, of, _ := strings.Cut(k, " ")
		return strings.HasPrefix(of, "sessions_data mem:") && !strings.HasSuffix(of, "events") && !strings.HasSuffix(of, "samples")
	}
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 77))
		recut := seed%2 == 1 // what comes again is cut in another way: so are uploads without window headers
		o := newEveryOwner(t)
		var queues [][]everyPart
		for i := range files {
			e := &files[i]
			most := 1 + r.IntN(40)
			parts := e.cut(r, "", most)
			if recut && !e.telemetry && e.session != "bad" && e.session != "samples" {
				queues = append(queues, parts, e.cut(r, "again", 1+r.IntN(40)))
				continue
			}
			again := slices.Clone(parts)
			if !e.telemetry && r.IntN(2) == 0 {
				for j := range again {
					again[j].env.Identity = "again" + again[j].env.Identity
				}
			}
			queues = append(queues, parts, again)
		}
		for len(queues) > 0 { // windows of a file in order or not, files mixed
			i := r.IntN(len(queues))
			q := queues[i]
			j := 0
			if seed%3 == 0 {
				j = r.IntN(len(q))
			}
			o.log = append(o.log, q[j])
			if queues[i] = slices.Delete(q, j, j+1); len(queues[i]) == 0 {
				queues = slices.Delete(queues, i, i+1)
			}
		}
		for o.at < len(o.log) {
			o.take()
			switch r.IntN(60) {
			case 0, 1, 2, 3:
				o.publish()
			case 4:
				o.pass(time.Duration(r.IntN(3000)) * time.Millisecond)
			case 5:
				if r.IntN(3) == 0 {
					o.die(false)
				}
			case 6:
				o.publish()
				if r.IntN(3) == 0 {
					o.die(r.IntN(2) == 0)
					o.pass(time.Duration(r.IntN(4000)) * time.Millisecond)
				}
			}
		}
		o.publish()
		o.die(true)
		o.pass(5 * time.Second) // what was held goes out though nobody speaks
		o.publish()
		o.end()
		if d := o.sums.diff(want, process); d != "" {
			t.Fatalf("seed %d:\n%s", seed, d)
		}
	}
}

// A tenant without raw rows has none, of no type, and the same rollups and facts.
func TestEveryEventWithoutRawRows(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and much of it")
	}
	files := everyEvent(t)
	want := straight(t, files, false).sums.settled()
	o := straight(t, files, true)
	raw := func(k string) bool {
		name, _, _ := strings.Cut(k, " ")
		def := tabletest.Schema().Table(name)
		return def == nil || def.Retention == table.Raw || name == "launches"
	}
	for _, def := range tabletest.Schema().Tables() {
		if n := o.sums.rows[def.Name]; def.Retention == table.Raw && def.Name != "rejects_data" && n > 0 {
			t.Errorf("%d rows of %s", n, def.Name)
		}
	}
	if d := o.sums.diff(want, raw); d != "" {
		t.Error(d)
	}
}

// A session that is deleted anywhere in the stream, whoever owns the partition, is gone: nothing of it comes behind its tombstone, its
// state
// is empty, and its neighbours are what they would be without it.
func TestEveryEventOfADeletedSessionGoes(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and much of it")
	}
	files := everyEvent(t)
	want := straight(t, files, false).sums.settled()
	sessions := map[string]bool{}
	for _, f := range files {
		sessions[f.session] = true
	}
	names := slices.Sorted(maps.Keys(sessions))
	for seed := range uint64(len(names)) {
		r := rand.New(rand.NewPCG(seed, 5))
		gone := names[int(seed)%len(names)]
		o := newEveryOwner(t)
		for i := range files {
			o.log = append(o.log, files[i].cut(r, "", 200)...)
		}
		r.Shuffle(len(o.log), func(i, j int) { o.log[i], o.log[j] = o.log[j], o.log[i] })
		at := r.IntN(len(o.log) + 1)
		d := &stream.Deletion{ID: "d", Tenant: "t", Session: gone, At: 1795175935972803352}
		o.log = slices.Insert(o.log, at, everyPart{env: stream.Envelope{Tenant: "t", Session: gone, Kind: stream.KindDelete, Delete: d}})
		for o.at < len(o.log) {
			o.take()
			if o.f.deletesDue() || r.IntN(15) == 0 {
				o.publish()
			}
			switch r.IntN(20) {
			case 0:
				o.pass(time.Duration(r.IntN(3000)) * time.Millisecond)
			case 1:
				if r.IntN(4) == 0 {
					o.die(r.IntN(2) == 0)
				}
			}
		}
		o.publish()
		if r.IntN(2) == 0 {
			o.die(true)
		}
		o.pass(2 * time.Hour) // whatever waits goes out
		o.publish()
		o.end()
		if s := o.f.Sessions[SessionKey{"t", gone}]; s != nil {
			t.Fatalf("seed %d: session %s is there", seed, gone)
		}
		dropped := func(k string) bool { // rejects of dropped parts and contents name no session
			name, _, _ := strings.Cut(k, " ")
			if def := tabletest.Schema().Table(name); def != nil && def.LinkedBy != "" {
				return true
			}
			return strings.Contains(k, " "+gone+" ") || strings.HasPrefix(k, "rejects_data  ") || strings.Contains(k, "mem:1")
		}
		for k := range o.sums.settled() {
			if strings.Contains(k, " "+gone+" ") {
				t.Fatalf("seed %d: behind the deletion of %s came %s", seed, gone, k)
			}
		}
		if d := o.sums.diff(want, dropped); d != "" {
			t.Fatalf("seed %d, without %s:\n%s", seed, gone, d)
		}
	}
}

// waiting is how many sessions have something that waits for another half.
func (o *everyOwner) waiting() (n int) {
	for _, s := range o.f.Sessions {
		if s.load().Waits {
			n++
		}
	}
	return n
}
