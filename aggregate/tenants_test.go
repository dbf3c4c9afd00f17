package aggregate_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// oddNames is a session whose names are no words.
const oddNames = `{"type":"job_start","session_id":"it's","app":"a'b\\c%s\u0000d\n","pid":1,"ts_ns":1795175929972803352,` +
	`"devices":[{"id":0,"name":"x'\"\\","uuid":"u","vendor":"NVIDIA"}]}
{"type":"dictionary_update","session_id":"it's","kernel_dict":{"1":"k'\"\\\u0000\t\n|@ü"},"scope_name_dict":{"1":"a|b'","2":""},` +
	`"function_dict":{"1":"f@g@h'.cu"},"metric_dict":{"1":"m'{}"},"source_file_dict":{"1":"'"}}
{"type":"kernel_event_batch","session_id":"it's","batch_id":1,"base_time_ns":1795175929972803352,"columns":["dt_ns","kernel_id",` +
	`"stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"],"rows":[[0,1,18446744073709551615,9223372036854775807,` +
	`4294967295,0,32,0],[1,4294967295,7,0,1,0,32,0]]}
{"type":"scope_event_batch","session_id":"it's","batch_id":1,"base_time_ns":1795175929972803352,"columns":["dt_ns","scope_instance_id",` +
	`"name_id","event_type","depth"],"rows":[[0,18446744073709551615,1,0,0],[5,2,2,0,1],[6,3,9,1,70]]}
{"type":"profile_sample_batch","session_id":"it's","batch_id":1,"base_time_ns":1795175929972803352,"columns":["dt_ns","sample_kind",` +
	`"metric_id","metric_value","device_id","corr_id","function_id","pc_offset","source_file_id","source_line","stall_reason",` +
	`"scope_name_id"],"rows":[[0,0,1,18446744073709551615,0,1,1,18446744073709551615,1,4294967295,0,1],[0,1,1,5,0,1,9,16,9,0,0,9]]}
{"type":"deep_window_event","session_id":"it's","name":"'","start_ns":1795175929972803352,"end_ns":1795175929982803352}
{"type":"memset_event","session_id":"it's","name":"\u0000'","start_ns":0,"end_ns":9223372036854775807,"bytes":18446744073709551615}
{"type":"memcpy_event","session_id":"it's","start_ns":9223372036854775806,"duration_ns":9223372036854775807,"bytes":18446744073709551615,` +
	`"copy_kind":"'"}
{"type":"source_file_content","session_id":"it's","source_file_id":1,"lines":["'\u0000","\\"]}
`

// TestTenantsDoNotMeet has two tenants with the same sessions, ids and hosts, but other names and numbers: what a view says of one is the
// same with and without the other, and a purge of one leaves nothing of it anywhere. Every view answers, whatever names there are.
func TestTenantsDoNotMeet(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	stop := start(t, s, fast)
	d := newDatabase(t)
	views := tabletest.Schema().Views(table.Options{Database: d.name})
	for _, v := range views { // without a row
		d.post("SELECT * FROM "+v.From(), nil)
	}
	parts := map[string][]byte{}
	for _, name := range []string{"examples_by_type.ndjson", "examples_handbuilt.ndjson"} {
		text, err := os.ReadFile(filepath.Join("..", "testdata", "gpuflight", name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			_, session := gpuflight.Peek(line)
			parts[string(session)] = append(parts[string(session)], line...)
		}
	}
	for _, w := range vectorWindows(t, "scoped") {
		parts[w.session] = append(parts[w.session], w.lines...)
	}
	parts["it's"] = []byte(oddNames)
	evil := strings.NewReplacer("vecMul", "evilMul", "blockReduce", "evilReduce", "train", "evil0", "/src/", "/evl/", "NVIDIA", "AMD",
		"vectorized", "evilorized", "gemm", "evil",
		`"duration_ms":`, `"duration_ms":9`, "collected", "fallback", "cupti_activity", "launch_callbacks_synthetic", "wire_probe", "evil_probe",
		`"value":`, `"value":7`, "FFMA", "EVIL", "EXIT", "EVIL",
		"1795175929", "1795175931", "'", "''")
	var events uint64
	r := rand.New(rand.NewPCG(5, 5))
	for _, tenant := range []string{"good", "evil"} {
		for _, session := range slices.Sorted(maps.Keys(parts)) {
			body := parts[session]
			if tenant == "evil" && session != "it's" {
				body = []byte(evil.Replace(string(body)))
			}
			publish(t, s, stream.Envelope{Tenant: tenant, Session: session, Identity: "w"}, body)
			for line := range bytes.Lines(body) {
				events += uint64(gpuflight.CountEvents(line))
			}
		}
		var frames []byte
		const n = 200
		for i := range n {
			x := randomSample(r, i)
			x.ns, x.host = 1795175929_972803352+int64(i)*1e7, "vm"
			if i%9 == 0 {
				x.used, x.total = max(x.allocated, x.reserved), nil
			}
			frames = append(frames, x.frame(t, i)...)
		}
		publish(t, s, stream.Envelope{Tenant: tenant, Session: "mem:vm", Kind: stream.KindTelemetry, Source: "telemetry", Identity: "m",
			Events: n}, frames)
		events += n
		var names []string
		if tenant == "evil" {
			names = []string{"aten::", "evil::", "sgemm", "esgemm", `"dur": 1`, `"dur": 2`}
		}
		bodies, counts := aggregate.TraceParts(t, 1<<13, names...)
		for i, body := range bodies {
			publish(t, s, stream.Envelope{Tenant: tenant, Session: "trace:same", Recurs: true, Kind: stream.KindTrace, Source: "trace",
				Identity: "trace-1~2", Part: i, Events: counts[i], Last: i == len(bodies)-1}, body)
			events += counts[i]
		}
	}
	waitFor(t, s, "all folded", func(sum totals) bool { return sum["usage_data.events"] == events })
	stop()
	d.load(s)
	ask := func() map[string]string {
		answers := map[string]string{}
		for _, v := range views {
			where := " WHERE tenant = 'good'"
			if v.Name == "stall_reasons" {
				where = ""
			}
			answers[v.Name] = d.post("SELECT * FROM "+v.From()+where+" ORDER BY ALL", nil)
		}
		return answers
	}
	both := ask()
	targets := []table.Target{{Tenant: "evil"}}
	for _, def := range tabletest.Schema().Tables() {
		if sql := def.DeleteSQL(table.Options{Database: d.name}, targets); sql != "" {
			d.post(strings.Replace(sql, "mutations_sync = 0", "mutations_sync = 2", 1), nil)
		}
	}
	alone, quiet := ask(), 0
	for _, v := range views {
		if both[v.Name] != alone[v.Name] {
			a, b := strings.Split(both[v.Name], "\n"), strings.Split(alone[v.Name], "\n")
			for i := range min(len(a), len(b)) {
				if a[i] != b[i] {
					a, b = a[i:i+1], b[i:i+1]
					break
				}
			}
			t.Errorf("%s says of a tenant\n%.1500q, and once another one is gone\n%.1500q", v.Name, a[0], b[0])
		}
		if alone[v.Name] == "" {
			quiet++
		}
	}
	for _, def := range tabletest.Schema().Tables() {
		if def.Column("tenant") != nil {
			d.want("SELECT count() FROM `"+def.Name+"` WHERE tenant = 'evil'", "0")
		}
	}
	if quiet > len(views)/3 {
		t.Error(fmt.Sprint(quiet, " of ", len(views), " views say nothing: the test shows too little"))
	}
}
