package aggregate

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/stream"
)

// kernelParts makes parts of about 1 MiB with names by Zipf and log-normal durations, rows in all. perLine rows a batch; details
// adds today's client's kernel_detail behind each batch.
func kernelParts(rows, perLine int, details bool) (parts [][]byte, n int) {
	r := rand.New(rand.NewPCG(1, 1))
	zipf := rand.NewZipf(r, 1.1, 1, 499)
	var b bytes.Buffer
	for id := range 500 {
		fmt.Fprintf(&b, `{"version":1,"type":"dictionary_update","session_id":"s","kernel_dict":{"%d":"void kernel_number_%d<float, 4, `+
			`256>(float const*, float*, int, int, float const*)"}}`+"\n", id+1, id)
	}
	corr, dt := 0, 0
	for batch := 0; n < rows; batch++ {
		columns, has := `"dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"`, 0
		if details {
			columns, has = columns+`,"external_kind","external_id"`, 1
		}
		fmt.Fprintf(&b, `{"version":1,"type":"kernel_event_batch","session_id":"s","batch_id":%d,"base_time_ns":%d,"columns":[%s],"rows":[`,
			batch, 1795175929972803352+int64(batch)*5e7, columns)
		for i := range perLine {
			if i > 0 {
				b.WriteByte(',')
			}
			dt += int(r.ExpFloat64() * 20000)
			id := zipf.Uint64() + 1
			fmt.Fprintf(&b, "[%d,%d,%d,%d,%d,0,32,%d", dt%40e6, id, 7+corr%4, int(20000*math.Exp(r.NormFloat64()/2)), corr+i+1, has)
			if details {
				b.WriteString(",0,0")
			}
			b.WriteByte(']')
		}
		b.WriteString("]}\n")
		if details {
			for i := range perLine {
				b.WriteString(fmt.Sprintf(`{"version":1,"type":"kernel_detail","session_id":"s","pid":7570,"app":"wire_probe","corr_id":%d,`+
					`"grid":"(%d,1,1)","block":"(128,1,1)","static_shared":8192,"local_bytes":0,"const_bytes":0,"occupancy":0.500000,`+
					`"reg_occupancy":0.500000,"smem_occupancy":0.750000,"warp_occupancy":1.000000,"block_occupancy":1.000000,`+
					`"limiting_resource":"registers","max_active_blocks":8,"local_mem_total_bytes":0,"local_mem_per_thread_bytes":0,`+
					`"cache_config_requested":0,"cache_config_executed":0,"shared_mem_executed_bytes":16384,"user_scope":"train|fwd","stack_trace":""}`+
					"\n", corr+i+1, 1+(corr+i)%40))
			}
		}
		corr += perLine
		n += perLine
		if b.Len() > stream.PartBytes*9/10 {
			parts = append(parts, bytes.Clone(b.Bytes()))
			b.Reset()
		}
	}
	return append(parts, bytes.Clone(b.Bytes())), n
}

// BenchmarkFold folds and encodes chunks without NATS: rows/s is what a partition's owner could do alone on one core.
func BenchmarkFold(b *testing.B) {
	for _, c := range []struct {
		name    string
		perLine int
		details bool
	}{{"columnar", 512, false}, {"full", 2048, true}} {
		b.Run(c.name, func(b *testing.B) {
			parts, kernels := kernelParts(200_000, c.perLine, c.details)
			cfg := testConfig()
			m := newCounters(nil)
			total, chunkBytes := 0, 0
			b.ReportAllocs()
			b.ResetTimer()
			f := newFold(&cfg, m)
			for b.Loop() {
				f.Sessions = map[SessionKey]*Session{} // the batches are reused, as an owner does
				for i, body := range parts {
					p := &Part{Seq: uint64(i), Now: time.Now().UnixNano(), Env: stream.Envelope{Tenant: "t", Session: "s", Kind: stream.KindGPUFlight,
						Source:   "gpu-flight",
						Identity: "w", Part: i, ReceivedAt: time.Now().UnixNano(), RetentionDays: 7, RollupDays: 395}}
					f.Take(p, f.Session(p), body)
					if _, bytes := f.Out.Size(); bytes > cfg.ChunkBytes || i == len(parts)-1 {
						f.Flush(time.Now().UnixNano())
						list, enc, err := f.Out.Encode(rows.Tails{})
						if err != nil {
							b.Fatal(err)
						}
						msg, _ := stream.AppendChunk(nil, &stream.Chunk{Tables: list}, f.AppendState(nil, false), enc)
						chunkBytes += len(msg)
						f.Published()
						f.Out.Reset()
						f.OutSerial++
					}
				}
				total += kernels
			}
			b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric(float64(chunkBytes)/float64(total), "chunkB/row")
		})
	}
}
