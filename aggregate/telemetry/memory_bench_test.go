package telemetry

import (
	"fmt"
	"testing"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/telemetry"
)

// BenchmarkFoldMemory folds and encodes memory telemetry without NATS: rows/s is what a partition's owner could do alone on one core.
func BenchmarkFoldMemory(b *testing.B) {
	var v telemetry.Validator
	var e telemetry.Event
	var body []byte
	n := 0
	for len(body) < stream.PartBytes*9/10 {
		text := fmt.Sprintf(`{"schema_version":2,"timestamp_ns":%d,"event_type":"allocation","collector":"stormlog.cuda_tracker",`+
			`"sampling_interval_ms":100,"pid":7,"host":"node","job_id":"job","rank":1,"local_rank":1,"world_size":8,"device_id":1,`+
			`"allocator_allocated_bytes":%d,"allocator_reserved_bytes":40000000000,"allocator_active_bytes":null,`+
			`"allocator_inactive_bytes":null,"allocator_change_bytes":512,"device_used_bytes":40000000000,"device_free_bytes":null,`+
			`"device_total_bytes":80000000000,"context":"Memory allocated: 512 B","metadata":{"backend":"cuda","supports_device_total":true,`+
			`"sampling_source":"torch.cuda"}}`, 1700000000000000000+n*1e8, n)
		if r := v.Event(&e, []byte(text), nil); r != nil {
			b.Fatal(r)
		}
		body = telemetry.AppendFrame(body, n, &e)
		n++
	}
	f, m := newExportFold()
	events := 0
	b.SetBytes(int64(len(body)))
	for i := 0; b.Loop(); i++ {
		p := &aggregate.Part{Seq: uint64(i + 1), Now: 1, Env: stream.Envelope{Tenant: "t", Session: "s", Kind: stream.KindTelemetry,
			Source: "telemetry", Identity: "w", Part: i, ReceivedAt: 1700000000e9, RetentionDays: 7, RollupDays: 395}}
		f.Take(p, f.Session(p), body)
		for s := range m.own { // or its events would be known
			s.keys = eventKeys{}
		}
		m.eventKeys = 0
		if events += n; i%40 == 39 {
			f.Flush(1)
			if _, _, err := f.Out.Encode(rows.Tails{}); err != nil {
				b.Fatal(err)
			}
			f.Published()
			f.Out.Reset()
		}
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "rows/s")
}
