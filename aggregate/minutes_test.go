package aggregate

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

func TestDecimal(t *testing.T) {
	for _, c := range []struct {
		v      float64
		key    int16
		digits uint64
	}{
		{0, 0, 0}, {7, 0, 7}, {999_999_999, 0, 999_999_999}, {1e9, 1, 100_000_000}, {12.3457, -7, 123_457_000}, {-12.3457, -7 + table.NegativePart, 123_457_000},
		{0.1, -9, 100_000_000}, {1e300, 292, 100_000_000}, {math.SmallestNonzeroFloat64, -332, 494_065_646}, {-5, table.NegativePart, 5}, {1.0000000004, -8, 100_000_000},
	} {
		if key, digits := decimal(c.v); key != c.key || digits != c.digits {
			t.Errorf("%v is %d at %d, want %d at %d", c.v, digits, key, c.digits, c.key)
		}
	}
}

// Whatever the order and however they are split, the parts of a sum are the same, and add up to what the client wrote.
func TestSumsDoNotDependOnOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and much of it")
	}
	r := rand.New(rand.NewPCG(3, 4))
	exact := new(big.Rat)
	var values []float64
	for range 5000 {
		text := fmt.Sprintf("%.6g", (r.Float64()-0.2)*math.Pow(10, float64(r.IntN(30)-12)))
		var v float64
		fmt.Sscan(text, &v)
		d, _ := new(big.Rat).SetString(text)
		exact.Add(exact, d)
		values = append(values, v)
	}
	var first pmAcc
	for round := range 4 {
		a := pmAcc{low: math.Inf(1), high: math.Inf(-1)}
		for _, v := range values {
			a.add(v)
		}
		sum := new(big.Rat)
		for _, p := range a.parts {
			power, digits := int64(p.key), new(big.Rat).SetInt(new(big.Int).SetUint64(p.digits))
			if power >= 1000 {
				power -= table.NegativePart
				digits.Neg(digits)
			}
			ten := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(max(power, -power)), nil))
			if power < 0 {
				ten.Inv(ten)
			}
			sum.Add(sum, digits.Mul(digits, ten))
		}
		if sum.Cmp(exact) != 0 {
			t.Fatalf("the parts add up to %s, want %s", sum.FloatString(9), exact.FloatString(9))
		}
		if round == 0 {
			first = a
		} else if !reflect.DeepEqual(a, first) {
			t.Fatalf("round %d: %+v, want %+v", round, a, first)
		}
		r.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
	}
}

// activityPart is a part with copies, waits and samples, different for each n.
func activityPart(n int) []byte {
	var b strings.Builder
	base := 1795175929972803352 + int64(n)*20e9
	fmt.Fprintf(&b, `{"type":"memcpy_event_batch","session_id":"s","batch_id":%d,"base_time_ns":%d,"columns":["dt_ns","stream_id","duration_ns","bytes","copy_kind","corr_id"],"rows":[[0,7,%d,10,1,1],[5,7,9,20,%d,2]]}`+"\n", n, base, n+1, 1+n%3)
	fmt.Fprintf(&b, `{"type":"synchronization_event_batch","session_id":"s","batch_id":%d,"base_time_ns":%d,"columns":["dt_ns","duration_ns","sync_type","stream_id","event_id","context_id","corr_id","function_id"],"rows":[[0,%d,3,7,0,1,3,%d]]}`+"\n", n, base, 100+n, n%2)
	fmt.Fprintf(&b, `{"type":"pm_sample_batch","session_id":"s","batch_id":%d,"base_time_ns":%d,"columns":["sample_index","dt_ns","device_id","metric_id","value","scope_name_id"],"rows":[[0,0,0,3,%d.25,2],[1,5,1,19,1e-3,0]]}`+"\n", n, base, n)
	return []byte(b.String())
}

func foldPart(f *Fold, n int, body []byte) *Session {
	p := &Part{Seq: uint64(n + 1), Now: 1, Env: stream.Envelope{Tenant: "t", Session: "s", Kind: stream.KindGPUFlight, Source: "gpu-flight", Identity: "w", Part: n,
		ReceivedAt: 1795175929972803352, RetentionDays: 7, RollupDays: 395}}
	s := f.Session(p)
	f.Take(p, s, body)
	return s
}

// What is held of a minute goes over to the next owner, by changes and by snapshot, and is not written twice.
func TestMinutesSurviveAHandOver(t *testing.T) {
	cfg := testConfig()
	f, g := newFolder(&cfg, newCounters(nil)), newFolder(&cfg, newCounters(nil))
	var s *Session
	for n := range 5 {
		s = foldPart(f, n, activityPart(n))
		f.Flush(1)
		if err := g.ApplyState(f.AppendState(nil, false)); err != nil {
			t.Fatal(err)
		}
		f.Published()
	}
	if flightOf(s).minutes.count() < 6 || s.heldSince == 0 {
		t.Fatalf("%d minutes are held, since %d", flightOf(s).minutes.count(), s.heldSince)
	}
	h := newFolder(&cfg, newCounters(nil))
	if err := h.ApplyState(f.AppendState(nil, true)); err != nil {
		t.Fatal(err)
	}
	for name, other := range map[string]*Fold{"changes": g, "snapshot": h} {
		got := flightOf(other.sessions[s.Key]).minutes
		got.dirty = flightOf(s).minutes.dirty
		if !reflect.DeepEqual(got, flightOf(s).minutes) {
			t.Errorf("by %s: %+v, want %+v", name, got, flightOf(s).minutes)
		}
	}
	// Once written they are gone, for the next owner too.
	f.touch(s)
	f.Flush(1 + int64(maxHold))
	if n := f.Out.Batch(table.MemcpyStats.Table, s.FactPartition()).Rows(); flightOf(s).minutes.count() != 0 || n == 0 {
		t.Fatalf("%d are held still, %d rows", flightOf(s).minutes.count(), n)
	}
	if err := g.ApplyState(f.AppendState(nil, false)); err != nil {
		t.Fatal(err)
	}
	if n := flightOf(g.sessions[s.Key]).minutes.count(); n != 0 {
		t.Errorf("the next owner holds %d that are written", n)
	}
}

// More minutes than are held back go out with their chunk, whatever the session's kernels do.
func TestManyMinutesAreNotHeld(t *testing.T) {
	cfg := testConfig()
	f := newFolder(&cfg, newCounters(nil))
	var s *Session
	for n := range maxMinutes {
		s = foldPart(f, n, activityPart(3*n))
	}
	f.Flush(1)
	if flightOf(s).minutes.count() != 0 || s.heldSince == 0 {
		t.Errorf("%d minutes are held", flightOf(s).minutes.count())
	}
}

// A state that the version before wrote is read on.
func TestStateOfVersionTwo(t *testing.T) {
	old, err := os.ReadFile("testdata/state_v2.bin")
	if err != nil {
		t.Fatal(err)
	}
	cfg := testConfig()
	f := newFolder(&cfg, newCounters(nil))
	if err := f.ApplyState(old); err != nil {
		t.Fatal(err)
	}
	s := f.sessions[sessionKey{"t", "s"}]
	if s == nil || flightOf(s).waiting.live != 1 || flightOf(s).scopes.halves.count != 3 || flightOf(s).details.GetCardinality() != 300 || len(flightOf(s).configs) != 40 || len(flightOf(s).kernels.dirty) == 0 || s.Vendor != "NVIDIA" {
		t.Fatalf("%+v", s)
	}
	foldPart(f, 1000, activityPart(1))
	g := newFolder(&cfg, newCounters(nil))
	if err := g.ApplyState(f.AppendState(nil, true)); err != nil || flightOf(g.sessions[s.Key]).minutes.count() == 0 {
		t.Errorf("it cannot be written on: %v", err)
	}
}

// BenchmarkFoldSingles folds parts of one event a line: what a partition's owner could do alone on one core.
func BenchmarkFoldSingles(b *testing.B) {
	for name, format := range map[string]string{
		"memset": `{"type":"memset_event","pid":7570,"app":"wire_probe","session_id":"s","name":"memset","platform":"unknown","device_id":"0","stream_id":"7","stack_trace":"","user_scope":"train|fwd","scope_depth":0,"start_ns":%[1]d,"end_ns":%[2]d,"api_start_ns":0,"api_exit_ns":0,"corr_id":%[3]d,"bytes":65536}`,
		"nvtx":   `{"type":"nvtx_marker_event","pid":7570,"app":"wire_probe","session_id":"s","name":"torch::aten::mm@train.py:%[3]d","domain":"","start_ns":%[1]d,"end_ns":%[2]d,"duration_ns":2000,"marker_id":0}`,
	} {
		b.Run(name, func(b *testing.B) {
			const lines = 20000
			var body []byte
			for i := range lines {
				at := 1795175929972803352 + int64(i)*10_000
				body = append(fmt.Appendf(body, format, at, at+2000, i), '\n')
			}
			cfg := testConfig()
			f := newFolder(&cfg, newCounters(nil))
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				f.sessions = map[sessionKey]*Session{}
				foldPart(f, n, body)
				n++
				f.Flush(1)
				f.AppendState(nil, false)
				f.Published()
				f.Out.Reset()
				f.OutSerial++
			}
			b.ReportMetric(lines*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}
