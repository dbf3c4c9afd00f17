package aggregate

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"

	"github.com/warpline/warpline/proto/stream"
)

// BenchmarkSilentSessions is about sessions that have sent 40 kernels with 30 names and ended: what each takes in a worker's memory, in a
// snapshot, and how long a successor needs to read it, in memory and time.
func BenchmarkSilentSessions(b *testing.B) {
	const sessions = 20_000
	var names, kernels []string
	for id := 1; id <= 30; id++ {
		names = append(names, fmt.Sprintf(`"%d":"void kernel_number_%d<float, 4, 256>(float const*, float*, int, int, float const*)"`, id, id))
	}
	for i := range 40 {
		kernels = append(kernels, fmt.Sprintf("[%d,%d,7,%d,%d,0,32,0]", i*20_000, 1+i%30, 1000+i, i+1))
	}
	dictionary := `{"version":1,"type":"dictionary_update","session_id":"s","kernel_dict":{` + strings.Join(names, ",") + "}}\n"
	columns := `"columns":["dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"],"rows":[` +
		strings.Join(kernels, ",") + "]}\n"
	var held, read, snapshot, took float64
	for b.Loop() {
		before := heapBytes()
		g := newFolding()
		at := noon
		publish := func() {
			g.f.Flush(at.UnixNano())
			g.f.Published()
			g.f.Out.Reset()
		}
		for i := range sessions {
			body := fmt.Appendf(nil, `%s{"version":1,"type":"kernel_event_batch","session_id":"s","batch_id":1,"base_time_ns":%d,%s`, dictionary,
				1795175929972803352+i*1_000_003, columns)
			for _, kind := range []stream.Kind{stream.KindGPUFlight, stream.KindComplete} {
				p := g.part("a", fmt.Sprintf("0d9a3c5e-7b1f-4a80-9f7e-%012d", i), at)
				p.Env.Kind = kind
				s := g.f.Session(p)
				g.f.Take(p, s, body)
				g.f.charge(s)
			}
			if i%500 == 499 {
				publish()
			}
		}
		for range 30 {
			at = at.Add(time.Second)
			g.f.Expire(at.UnixNano())
			publish()
			g.f.ExpireIdle(at.UnixNano())
		}
		held += float64(heapBytes()-before) / sessions
		state := s2.Encode(nil, g.f.AppendState(nil, true))
		snapshot += float64(len(state)) / sessions

		before = heapBytes()
		next, began := newFolding(), time.Now()
		plain, err := s2.Decode(nil, state)
		if err == nil {
			err = next.f.ApplyState(plain)
		}
		took += float64(time.Since(began).Microseconds()) / sessions
		if err != nil || len(next.f.Sessions) != sessions {
			b.Fatalf("%d sessions: %v", len(next.f.Sessions), err)
		}
		plain = nil
		read += float64(heapBytes()-before) / sessions
		runtime.KeepAlive(g)
		runtime.KeepAlive(next)
		runtime.KeepAlive(state)
	}
	n := float64(b.N)
	b.ReportMetric(held/n, "B/session")
	b.ReportMetric(snapshot/n, "snapshotB/session")
	b.ReportMetric(read/n, "readB/session")
	b.ReportMetric(took/n, "read-us/session")
	b.ReportMetric(0, "ns/op")
}

func heapBytes() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
