package telemetry_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/telemetry"
)

func zzDoc(n int, form string) []byte {
	caps := `"backend": "cuda", "supports_device_total": true, "supports_device_free": true, "sampling_source": "torch.cuda.memory_allocated/reserved", "collector_health_status": "healthy", "telemetry_partial": false, "collector_partial_fields": [], "collector_last_error": null, "collector_consecutive_failures": 0, "collector_next_retry_epoch_s": null, "memory_capabilities": {"backend": "cuda", "telemetry_collector": "stormlog.cuda_tracker", "sampling_source": "torch.cuda.memory_allocated/reserved", "supports_allocator_allocated": true, "supports_allocator_reserved": true, "supports_allocator_active": true, "supports_allocator_inactive": true, "supports_device_used": true, "supports_device_free": true, "supports_device_total": true, "supports_native_allocator_history": true, "supports_fragmentation_analysis": true, "supports_allocator_attribution": true, "supports_bounded_profiling": true}`
	var b bytes.Buffer
	if form == "csv" {
		b.WriteString("schema_version,session_id,timestamp_ns,event_type,collector,sampling_interval_ms,pid,host,job_id,rank,local_rank,world_size,device_id,allocator_allocated_bytes,allocator_reserved_bytes,allocator_active_bytes,allocator_inactive_bytes,allocator_change_bytes,device_used_bytes,device_free_bytes,device_total_bytes,context,metadata\n")
	} else if form == "json" {
		b.WriteString("[")
	}
	py := strings.NewReplacer(`"`, `'`, "true", "True", "false", "False", "null", "None")
	for i := range n {
		if form == "csv" {
			fmt.Fprintf(&b, "4,0b0e7a52-7d5e-4c3c-9a44-8f0d7be0c101,%d,sample,stormlog.cuda_tracker,100,4242,node-a,job-1,0,0,1,0,1073741824,2147483648,1000000000,73741824,%d,3221225472,13958643712,17179869184,step 10,\"{%s}\"\n", 1795000000123456789+i, i, py.Replace(caps))
			continue
		}
		if form == "json" && i > 0 {
			b.WriteString(",\n")
		}
		fmt.Fprintf(&b, `{"schema_version": 4, "session_id": "0b0e7a52-7d5e-4c3c-9a44-8f0d7be0c101", "timestamp_ns": %d, "event_type": "sample", "collector": "stormlog.cuda_tracker", "sampling_interval_ms": 100, "pid": 4242, "host": "node-a", "job_id": "job-1", "rank": 0, "local_rank": 0, "world_size": 1, "device_id": 0, "allocator_allocated_bytes": 1073741824, "allocator_reserved_bytes": 2147483648, "allocator_active_bytes": 1000000000, "allocator_inactive_bytes": 73741824, "allocator_change_bytes": %d, "device_used_bytes": 3221225472, "device_free_bytes": 13958643712, "device_total_bytes": 17179869184, "context": "step 10", "metadata": {%s}}`, 1795000000123456789+i, i, caps)
		if form == "ndjson" {
			b.WriteByte('\n')
		}
	}
	if form == "json" {
		b.WriteByte(']')
	}
	return b.Bytes()
}

func BenchmarkZZ(b *testing.B) {
	const n = 2000
	for _, form := range []string{"json", "ndjson", "csv"} {
		doc := zzDoc(n, form)
		b.Run("survey/"+form, func(b *testing.B) {
			for b.Loop() {
				if _, err := telemetry.Survey(bytes.NewReader(doc), telemetry.Options{}); err != nil && form == "json" {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/rec")
		})
		for _, frame := range []bool{false, true} {
			b.Run(fmt.Sprintf("read/%s/frame=%v", form, frame), func(b *testing.B) {
				b.ReportAllocs()
				var out []byte
				for b.Loop() {
					var d telemetry.Reader = telemetry.NewDecoder(bytes.NewReader(doc), telemetry.Options{Lines: form == "ndjson"})
					if form == "csv" {
						d, _ = telemetry.NewTable(bytes.NewReader(doc), telemetry.Options{})
					} else if form == "json" {
						l, _ := telemetry.Survey(bytes.NewReader(doc), telemetry.Options{})
						d = l.Decoder(bytes.NewReader(doc), telemetry.Options{})
					}
					for {
						r, err := d.Next()
						if err == io.EOF {
							break
						}
						if r.Refusal != nil {
							b.Fatal(r.Refusal)
						}
						if frame {
							out = telemetry.AppendFrame(out[:0], r.Index, r.Event)
						}
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/rec")
			})
		}
		if form == "json" {
			var frames [][]byte
			l, _ := telemetry.Survey(bytes.NewReader(doc), telemetry.Options{})
			d := l.Decoder(bytes.NewReader(doc), telemetry.Options{})
			for {
				r, err := d.Next()
				if err == io.EOF {
					break
				}
				frames = append(frames, telemetry.AppendFrame(nil, r.Index, r.Event))
			}
			b.Run("frame", func(b *testing.B) {
				b.ReportAllocs()
				var v telemetry.Validator
				var e telemetry.Event
				var h telemetry.HealthReader
				for b.Loop() {
					for _, line := range frames {
						f, _ := telemetry.ParseFrame(line)
						if r := f.Event(&v, &e); r != nil {
							b.Fatal(r)
						}
						h.Read(e.Metadata)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/rec")
			})
		}
	}
}
