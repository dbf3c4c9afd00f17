package parca

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/klauspost/compress/s2"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/parca"
)

// given makes the fold take parts as they are, since this is not about decoding.
func given(m *folding, in *parca.Part) {
	m.decode = func(to *parca.Part, _ []byte) error {
		*to = *in
		return nil
	}
}

// busyPart has rows as a process sends them: kernels, instructions, reasons, a few launch stacks.
func busyPart(n int) *parca.Part {
	b := newBuilder("node", "7", "train")
	reasons := []string{"selected", "wait", "long_scoreboard", "barrier", "not_selected_not_issued", "lg_throttle"}
	for i := range n {
		name := fmt.Sprint("_ZN2at6native18elementwise_kernelILi", i%20, "EEvv")
		stack := b.stack(uint64(i%50+1), "cudaLaunchKernel", "at::native::launch", fmt.Sprint("train.py:", i%50))
		if i%20 == 19 {
			b.kernel(noon+int64(i), name, 1000, stack)
		} else {
			b.pc(noon+int64(i), name, uint64(16*(i/7%100)), stallPrefix+reasons[i%6], 3, 433654, stack)
		}
	}
	return &b.Part
}

// BenchmarkFoldSamples folds and encodes without NATS: rows/s is what a partition's owner could do alone on one core. Half of the runs
// keep launch stacks out.
func BenchmarkFoldSamples(b *testing.B) {
	for _, size := range []int{500, 5000} {
		for _, stacks := range []bool{true, false} {
			b.Run(fmt.Sprint(size, " rows a batch, stacks ", stacks), func(b *testing.B) {
				in := busyPart(size)
				f, m := newTestFold()
				given(m, in)
				b.ReportAllocs()
				n := 0
				for i := 0; b.Loop(); i++ {
					msg := message(fmt.Sprint("s", i%50), fmt.Sprint(i), 0, noon+int64(i)*1e6, &parca.Part{})
					msg.env.NoStacks, msg.env.Events = !stacks, uint64(size)
					p := &aggregate.Part{Seq: uint64(i + 1), Now: noon, Env: msg.env}
					f.Take(p, f.Session(p), nil)
					if n += size; i%(200_000/size) == 0 {
						f.Flush(noon + int64(i)*1e9)
						if _, _, err := f.Out.Encode(rows.Tails{}); err != nil {
							b.Fatal(err)
						}
						f.Published()
						f.Out.Reset()
					}
				}
				b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}

// lifelong folds days of batches of sessions, each with more names and stacks than are remembered, and the parts of 20 minutes.
func lifelong(t testing.TB, sessions, days int) *owner {
	o := newOwner(t)
	o.rows = nil
	publish := func() {
		o.f.Flush(o.now)
		o.f.Published()
		o.f.Out.Reset()
	}
	for d := range days {
		for batch := range 250 {
			o.now = noon + int64(d)*day + int64(batch)*5e9
			b := newBuilder("node", "7", "train", parca.Label{Name: "request", Value: fmt.Sprint(batch)})
			for i := range 4 {
				name := fmt.Sprint("kernel_with_a_name_of_some_length_", (4*batch+i+10*d)%900)
				stack := b.stack(uint64((4*batch+i)%900+1), "train.py:1")
				b.kernel(o.now, name, 1000, stack).pc(o.now, name, 16, stalled, 1, 433654, stack)
			}
			b.refuse(reasonNotGPU, "samples", 20)
			given(o.m, &b.Part)
			for s := range sessions {
				in := message(fmt.Sprint("parca:node-", s, ":7:train"), fmt.Sprint(s, "-", d, "-", batch), 0, o.now, &parca.Part{})
				in.env.Events = 28
				o.take(in)
			}
			publish()
			o.f.Expire(o.now)
		}
		for range 70 {
			o.now += 1e9
			o.f.Expire(o.now)
			publish()
		}
	}
	return o
}

func heapBytes() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// A session that has used all that may be remembered, for days, takes less than 64 KiB of a worker's memory.
func TestMemoryOfASessionThatNeverEnds(t *testing.T) {
	const sessions = 200
	before := heapBytes()
	o := lifelong(t, sessions, 3)
	held := (heapBytes() - before) / sessions
	snapshot := len(s2.Encode(nil, o.f.AppendState(nil, true))) / sessions
	t.Logf("%d B a session, %d B of snapshot", held, snapshot)
	if held > 64<<10 {
		t.Errorf("a session takes %d bytes", held)
	}
	runtime.KeepAlive(o)
}

// BenchmarkSession5000 is 5 000 sessions with a day's names, stacks and parts.
func BenchmarkSession5000(b *testing.B) {
	for b.Loop() {
		before := heapBytes()
		o := lifelong(b, 5000, 1)
		b.ReportMetric(float64(heapBytes()-before)/5000, "B/session")
		b.ReportMetric(float64(len(s2.Encode(nil, o.f.AppendState(nil, true))))/5000, "snapshotB/session")
		runtime.KeepAlive(o)
	}
	b.ReportMetric(0, "ns/op")
}
