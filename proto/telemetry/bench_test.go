package telemetry_test

import (
	"io"
	"testing"

	"github.com/warpline/warpline/proto/telemetry"
)

const (
	compact = `{"schema_version":2,"timestamp_ns":1700000000123456789,"event_type":"allocation","collector":"stormlog.cuda_tracker",` +
		`"sampling_interval_ms":100,` +
		`"pid":4242,"host":"node-a","job_id":"job-7","rank":1,"local_rank":1,"world_size":4,"device_id":1,` +
		`"allocator_allocated_bytes":1073741824,` +
		`"allocator_reserved_bytes":2147483648,"allocator_active_bytes":1000000000,"allocator_inactive_bytes":73741824,` +
		`"allocator_change_bytes":4096,` +
		`"device_used_bytes":3221225472,"device_free_bytes":13958643712,"device_total_bytes":17179869184,"context":"step 10",` +
		`"metadata":{"backend":"cuda"}}`
	legacy = `{"timestamp":1700000000.25,"event_type":"allocation","memory_allocated":10000,"memory_reserved":15000,"memory_change":512,` +
		`"device_id":0,` +
		`"context":"alloc","metadata":{"usage_percent":81.5},"metadata_backend":"cuda"}`
)

func perSecond(b *testing.B, n int) { b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s") }

func BenchmarkValidate(b *testing.B) {
	for name, text := range map[string]string{"compact": compact, "spaced": good} {
		b.Run(name, func(b *testing.B) {
			var v telemetry.Validator
			text := []byte(text)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if r := v.Validate(text, telemetry.Peer029); r != nil {
					b.Fatal(r)
				}
			}
			perSecond(b, b.N)
		})
	}
}

func BenchmarkEvent(b *testing.B) {
	for name, text := range map[string]string{"v2": compact, "legacy": legacy, "v4": v4Record} {
		b.Run(name, func(b *testing.B) {
			var v telemetry.Validator
			var e telemetry.Event
			text := []byte(text)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if r := v.Event(&e, text, nil); r != nil {
					b.Fatal(r)
				}
			}
			perSecond(b, b.N)
		})
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	var v telemetry.Validator
	var e telemetry.Event
	if r := v.Event(&e, []byte(good), nil); r != nil {
		b.Fatal(r)
	}
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		out = e.AppendJSON(out[:0])
	}
	b.SetBytes(int64(len(out)))
	perSecond(b, b.N)
}

// An export of 200 000 events, from the reader to the events.
func BenchmarkDecoder(b *testing.B) {
	const n = 200_000
	for name, unit := range map[string]string{"compact": compact, "spaced": good} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(n * (len(unit) + 2)))
			for b.Loop() {
				d := telemetry.NewDecoder(&endless{head: "[", unit: unit, n: n, tail: "]"}, telemetry.Options{})
				for {
					r, err := d.Next()
					if err == io.EOF {
						break
					}
					if err != nil || r.Refusal != nil {
						b.Fatal(err, r)
					}
				}
			}
			perSecond(b, b.N*n)
		})
	}
}

func BenchmarkSurvey(b *testing.B) {
	const n = 200_000
	b.SetBytes(int64(n * (len(compact) + 2)))
	for b.Loop() {
		if _, err := telemetry.Survey(&endless{head: "[", unit: compact, n: n, tail: "]"}, telemetry.Options{}); err != nil {
			b.Fatal(err)
		}
	}
	perSecond(b, b.N*n)
}
