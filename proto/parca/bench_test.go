package parca_test

import (
	"fmt"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/parca"
	"github.com/warpline/warpline/proto/parca/parcatest"
)

// A batch of n rows as the agent sends it, decoded and cut. rows/cpu-s is rows a second of CPU time, whatever
// else the machine does.
func BenchmarkOTLP(b *testing.B) {
	for _, n := range []int{500, 5_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			msg := parcatest.OTLP(benchmarkRows(n))
			benchRows(b, n, func(batch *parca.Batch) error { return batch.DecodeOTLP(msg) })
		})
	}
}

func BenchmarkArrow(b *testing.B) {
	for _, n := range []int{500, 5_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			ipc := parcatest.Arrow(benchmarkRows(n))
			benchRows(b, n, func(batch *parca.Batch) error { return batch.DecodeArrow(ipc) })
		})
	}
}

func benchRows(b *testing.B, n int, decode func(*parca.Batch) error) {
	var batch parca.Batch
	for _, cut := range []bool{false, true} {
		name := "decode"
		if cut {
			name = "decode+cut"
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			from := cpuTime()
			for b.Loop() {
				if err := decode(&batch); err != nil {
					b.Fatal(err)
				}
				if batch.Len() != n {
					b.Fatal(batch.Len())
				}
				if cut {
					if err := batch.Cut(func(parca.Piece) error { return nil }); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/(cpuTime()-from).Seconds(), "rows/cpu-s")
		})
	}
}

func BenchmarkPart(b *testing.B) {
	var batch parca.Batch
	if err := batch.DecodeOTLP(parcatest.OTLP(benchmarkRows(5_000))); err != nil {
		b.Fatal(err)
	}
	var bodies [][]byte
	_ = batch.Cut(func(p parca.Piece) error {
		bodies = append(bodies, append([]byte(nil), p.Body...))
		return nil
	})
	var p parca.Part
	b.ReportAllocs()
	for b.Loop() {
		for _, body := range bodies {
			if err := p.Decode(body); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(5_000*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// benchmarkRows is rows of one process as the agent sends them: per launch a few instructions with several reasons each.
func benchmarkRows(n int) []parca.WireRow {
	rows := make([]parca.WireRow, n)
	for i := range rows {
		pc := i / 4
		rows[i] = parca.WireRow{
			TimestampUnixNS: 1795168800000000000 + int64(pc/50), Producer: "parca_agent", SampleType: "gpu_pcsample", SampleUnit: "count",
			PeriodType: "gpu_pcsample", PeriodUnit: "nanoseconds", Temporality: "delta", Period: 433654, Duration: 1e9, Value: int64(i%7 + 1),
			Labels: map[string]string{
				"node": "gpu-node-a", "pid": "4242", "comm": "python3", "cpu": strconv.Itoa(pc / 50 % 8), "thread_id": "4242",
				"thread_name": "python3", "cuda_stall_reason": "smsp__pcsamp_warps_issue_stalled_" + strconv.Itoa(i*7%18),
				"cuda_sass_instruction": []string{"LDG", "IMAD", "FFMA", "BAR"}[pc%4],
			},
			StacktraceID: fmt.Sprintf("%032x", pc%1000),
		}
		leaf := parca.WireFrame{Address: uint64(pc%1000) * 16, FrameType: "cuda-pc", MappingFile: "cubin-00000000a11ce121",
			MappingBuildID: "f997d878b89aff181c99b1498d76e7be", SystemName: "_Z10hash_churnPjiy", HasLines: true}
		rows[i].Stacktrace = append(rows[i].Stacktrace, leaf)
		for k := range 30 {
			rows[i].Stacktrace = append(rows[i].Stacktrace, parca.WireFrame{Address: uint64(0x1000 + pc/50%5*64 + k), FrameType: "native",
				MappingFile: "libtorch.so", MappingBuildID: "aa11bb22cc33dd44ee55ff6677889900aabbccdd"})
		}
	}
	return rows
}
