package gpuflight_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/gpuflight"
)

// kernelLine makes a kernel_event_batch line of n rows in the client's form; external adds the two columns of today's client.
func kernelLine(n int, external bool) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	b.WriteString(`{"version":1,"type":"kernel_event_batch","session_id":"dbca9991-838e-4545-b1e3-570e3dac0e39","batch_id":7,` +
		`"base_time_ns":1795175929972803352,`)
	b.WriteString(`"columns":["dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"`)
	if external {
		b.WriteString(`,"external_kind","external_id"`)
	}
	b.WriteString(`],"rows":[`)
	dt := 0
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "[%d,%d,%d,%d,%d,%d,%d,1", dt, 1+rng.IntN(300), 7+rng.IntN(16), 1500+rng.IntN(400000), 100000+i, 1024*rng.IntN(2),
			16*(1+rng.IntN(8)))
		if external {
			fmt.Fprintf(&b, ",4,%d", rng.Uint64())
		}
		b.WriteByte(']')
		dt += rng.IntN(20000)
	}
	b.WriteString("]}\n")
	return b.Bytes()
}

func BenchmarkDecodeKernelRows(b *testing.B) {
	for _, c := range []struct {
		name     string
		rows     int
		external bool
	}{{"8cols512rows", 512, false}, {"10cols2048rows", 2048, true}} {
		b.Run(c.name, func(b *testing.B) {
			line := kernelLine(c.rows, c.external)
			var dec gpuflight.Decoder
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			var sum int64
			for b.Loop() {
				l, err := dec.Decode(line)
				if err != nil {
					b.Fatal(err)
				}
				for r := range l.Batch.Rows() {
					sum += l.Batch.Row(r)[gpuflight.KernelDurationNS]
				}
			}
			if sum == 0 {
				b.Fatal("no durations")
			}
			b.ReportMetric(float64(c.rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric(float64(len(line))/float64(c.rows), "B/row")
		})
	}
}

// BenchmarkDecodePMRows takes the general path, as every batch with a float column does.
func BenchmarkDecodePMRows(b *testing.B) {
	line := []byte(`{"version":1,"type":"pm_sample_batch","session_id":"s","batch_id":1,"base_time_ns":1795175930038845730,` +
		`"columns":["sample_index","dt_ns","device_id","metric_id","value","scope_name_id"],"rows":[` +
		strings.Repeat(`[113,11360453,0,4,12.3457,2],`, 511) + `[1,100453,0,4,12.3457,2]]}`)
	var dec gpuflight.Decoder
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if l, err := dec.Decode(line); err != nil || l.Batch.Rows() != 512 {
			b.Fatal(err)
		}
	}
	b.ReportMetric(512*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

const detailLine = `{"version":1,"type":"kernel_detail","session_id":"dbca9991-838e-4545-b1e3-570e3dac0e39","pid":7570,` +
	`"app":"wire_probe","corr_id":100,"grid":"(256,1,1)","block":"(128,1,1)","static_shared":8192,"local_bytes":0,"const_bytes":0,` +
	`"occupancy":0.500000,"reg_occupancy":0.500000,"smem_occupancy":0.750000,"warp_occupancy":1.000000,"block_occupancy":1.000000,` +
	`"limiting_resource":"registers","max_active_blocks":8,"local_mem_total_bytes":0,"local_mem_per_thread_bytes":0,` +
	`"cache_config_requested":0,"cache_config_executed":0,"shared_mem_executed_bytes":16384,"user_scope":"train|fwd","stack_trace":""}`

func BenchmarkDetail(b *testing.B) {
	line := []byte(detailLine)
	run := func(name string, f func() bool) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				if !f() {
					b.Fatal("refused")
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
	run("peek", func() bool { t, s := gpuflight.Peek(line); return t == gpuflight.KernelDetail && len(s) == 36 })
	run("key", func() bool { id, tail, ok := gpuflight.DetailKey(line); return ok && id == 100 && len(tail) > 400 })
	run("decode", func() bool { d, err := gpuflight.DecodeDetail(line); return err == nil && d.CorrID == 100 })
	var dec gpuflight.Decoder
	run("envelope", func() bool { l, err := dec.Decode(line); return err == nil && l.Type == gpuflight.KernelDetail })
}

func BenchmarkCountEvents(b *testing.B) {
	long := []byte(`{"version":1,"type":"cubin_disassembly","session_id":"s","entries":[` +
		string(bytes.Repeat([]byte(`{"pc":0,"sass":"s_endpgm"},`), 20000)) + `{}]}`)
	for _, c := range []struct {
		name string
		line []byte
		want int
	}{{"batch", kernelLine(512, false), 512}, {"detail", []byte(detailLine), 1}, {"long", long, 1}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.line)))
			for b.Loop() {
				if gpuflight.CountEvents(c.line) != c.want {
					b.Fatal("wrong count")
				}
			}
		})
	}
}
