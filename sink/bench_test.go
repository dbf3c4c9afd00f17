package sink_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/table"
)

// kernelChunk is n kernel rows like those of design.md section 7, as the worker would publish them.
func kernelChunk(b *testing.B, p int, number uint64, n int) []byte {
	rng := rand.New(rand.NewPCG(uint64(p), number))
	zipf := rand.NewZipf(rng, 1.1, 1, 499)
	now := time.Now().UnixNano()
	day := int32(now / 86400e9)
	k := table.Kernels
	t := table.NewBatch(k.Table)
	at := now
	for i := range n {
		at += int64(rng.ExpFloat64() * 20000)
		id := zipf.Uint64()
		k.StartedAt.Append(t, at)
		k.DurationNS.Append(t, uint64(2000+rng.ExpFloat64()*float64(1000*(id+1))))
		k.LaunchID.Append(t, uint32(id))
		k.StreamID.Append(t, uint64(i%4))
		k.CorrID.Append(t, uint32(number)*uint32(n)+uint32(i))
	}
	k.Tenant.AppendN(t, k.Tenant.Index(t, "acme"), n)
	k.SessionID.AppendN(t, k.SessionID.Index(t, fmt.Sprintf("session-%d", p)), n)
	k.DeviceID.AppendN(t, 0, n)
	k.ExternalKind.AppendN(t, 0, n)
	k.ExternalID.AppendN(t, 0, n)
	k.ReceivedAt.AppendN(t, now, n)
	k.RetentionDays.AppendN(t, 7, n)
	k.RowsPartition.AppendN(t, uint16(p), n)
	k.Chunk.AppendN(t, number, n)
	schema, data, err := t.Encode(nil)
	if err != nil {
		b.Fatal(err)
	}
	c := stream.Chunk{Partition: p, Number: number, Epoch: 1, CreatedAt: now, OldestReceivedAt: now,
		Tables: []stream.Rows{{Table: k.Name, Fingerprint: k.Fingerprint(), Day: day, RetentionDays: 7,
			Rows: n, SchemaLen: len(schema), DataLen: len(data)}}}
	msg, err := stream.AppendChunk(nil, &c, nil, append(schema[:len(schema):len(schema)], data...))
	if err != nil {
		b.Fatal(err)
	}
	return msg
}

// BenchmarkSink measures kernel rows through the sink alone: 100 k rows a chunk wait in ROWS, NATS and engine on the same machine.
func BenchmarkSink(b *testing.B) {
	const rows, chunks = 100_000, 100
	for _, spanRows := range []int{1 << 18, 1 << 19, 1 << 20} {
		b.Run(fmt.Sprintf("span=%dk", spanRows>>10), func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				w := shared(b)
				size := 0
				for i := range chunks {
					m := kernelChunk(b, i%4, uint64(i/4+1), rows)
					size += len(m)
					w.send(i%4, m)
				}
				k := w.sink(func(c *sink.Config) { c.MaxRangeRows, c.MinInterval = spanRows, 300*time.Millisecond })
				b.StartTimer()
				stop := w.run(k)
				for {
					done := uint64(0)
					for _, l := range k.Status().Lanes {
						done = max(done, l.Mark)
						if l.Mark < chunks-1 {
							done = 0
							break
						}
					}
					if done == chunks && len(k.Status().Lanes) == 2 {
						break
					}
					time.Sleep(5 * time.Millisecond)
				}
				b.StopTimer()
				stop()
				b.ReportMetric(float64(size)/float64(rows*chunks), "B/row-in-ROWS")
				b.ReportMetric(float64(rows*chunks)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
				c := w.conn()
				var parts, ranges uint64
				c.QueryRow(b.Context(), "SELECT uniqExact(lane, last) FROM ledger").Scan(&ranges)
				c.QueryRow(b.Context(), "SELECT count() FROM kernels_data").Scan(&parts)
				if parts != rows*chunks {
					b.Fatalf("%d rows, want %d", parts, rows*chunks)
				}
				b.ReportMetric(float64(ranges), "spans")
				b.ReportMetric(engineMiB(w.e.Pid()), "engine-peak-MiB")
				c.Exec(b.Context(), "DROP DATABASE "+w.db)
				c.Close()
				b.StartTimer()
			}
		})
	}
}

// engineMiB is the most memory that the engine process has held so far.
func engineMiB(pid int) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, line, _ := strings.Cut(string(status), "VmHWM:")
	var kib float64
	fmt.Sscan(line, &kib)
	return kib / 1024
}
