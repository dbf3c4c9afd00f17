package aggregate_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/activity"
	"github.com/warpline/warpline/aggregate/state"
	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
)

// probe is a source of the tests alone. Its lines are a number, a kernel's name and a duration; a number that is not above the highest of
// its
// session was seen before. So it has names, rows and rollups that other sources fill too, and state that decides what counts.
func probe() aggregate.Source {
	return aggregate.Source{Name: "probe", Version: 1, Kinds: []stream.Kind{"probe"}, Open: func(f *aggregate.Fold) aggregate.Folding {
		return &probeFolding{fold: f, pool: activity.KernelPool{Fold: f}}
	}}
}

type probeFolding struct {
	fold *aggregate.Fold
	pool activity.KernelPool
}

// probeState is what is kept of a session.
type probeState struct {
	highest uint64
	kernels activity.Kernels
}

func (f *probeFolding) New(s *aggregate.Session) aggregate.State {
	own := &probeState{}
	own.kernels.Begin(s, &f.pool)
	return own
}

func (f *probeFolding) Fold(s aggregate.State, p *aggregate.Part, body []byte) {
	own := s.(*probeState)
	emit := own.kernels.Emitter(p.Env.ReceivedAt, p.Env.RetentionDays)
	for line := range bytes.Lines(body) {
		p.Line++
		f.fold.CheckLine(p)
		p.Received(1)
		var number, ns uint64
		var name string
		if _, err := fmt.Sscan(string(line), &number, &name, &ns); err != nil {
			f.fold.Reject(p, aggregate.Reject{Reason: gpuflight.ReasonBadValue, Detail: "not a number, a name and a duration", Events: 1,
				Payload: line})
			continue
		}
		if number <= own.highest {
			p.Duplicate(1)
			continue
		}
		own.highest = number
		id, _ := f.fold.Intern(p, gpuflight.KernelDict, []byte(name))
		k := activity.Kernel{ID: id, Start: p.Env.ReceivedAt, Duration: int64(ns), Device: -1}
		emit.Add(&k, 0, 0)
		p.Stored(1)
	}
}

func (f *probeFolding) Tick(int64) {}

func (s *probeState) Flush(all bool) {
	if all {
		s.kernels.Flush()
	}
}

func (s *probeState) Dense() bool { return s.kernels.Dense() }

func (s *probeState) Append(w *state.Writer, full bool) {
	w.U64(s.highest)
	s.kernels.Append(w, full)
}

func (s *probeState) Size(full bool) int { return 8 + 40*s.kernels.Held() }

func (s *probeState) Read(_ uint64, r *state.Reader) {
	s.highest = r.U64()
	s.kernels.ReadFlushed(r)
	s.kernels.Read(r)
}

func (s *probeState) Published()         { s.kernels.Published() }
func (s *probeState) Resume(int64, bool) { s.kernels.ForgetLaunches() }
func (s *probeState) Rest(bool)          { s.kernels.Rest() }
func (s *probeState) Close()             {}
func (s *probeState) Drop()              { s.kernels.Drop() }

func (s *probeState) Load() aggregate.Load {
	return aggregate.Load{Rollups: s.kernels.Held(), Index: s.kernels.IndexBytes()}
}

func probeLines(from, n int) []byte {
	var b strings.Builder
	for i := from; i < from+n; i++ {
		fmt.Fprintf(&b, "%d probe_%d %d\n", i, i%3, 100+i)
	}
	return []byte(b.String())
}

// A source that the core has never heard of is folded, goes over to a successor with what it remembers, and is deleted; its kernels are in
// the tables and rollups that other sources fill, and theirs are as they were.
func TestAThirdSource(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 2})
	cfg := fast
	cfg.Sources = append(slices.Clip(sources), probe())
	send := func(identity string, from, n int) {
		publish(t, s, stream.Envelope{Session: "probe:1", Kind: "probe", Source: "probe", Identity: identity, Events: uint64(n)}, probeLines(from,
			n))
	}
	stop := start(t, s, cfg)
	send("a", 1, 100)
	publish(t, s, stream.Envelope{Session: "flight", Identity: "w"}, []byte(kernelsOf("flight", 1, 1, 2, 3)))
	waitFor(t, s, "the first hundred", func(sum totals) bool { return sum["kernels_data"] == 103 })
	stop()
	start(t, s, cfg)
	send("in other clothes", 51, 100) // half of it was counted by the one before
	publish(t, s, stream.Envelope{Session: "probe:1", Kind: "probe", Source: "probe", Identity: "bad", Events: 1}, []byte("nonsense\n"))
	sum := waitFor(t, s, "all", func(sum totals) bool { return sum["usage_data.events"] == 204 && sum["kernel_stats_data.calls"] == 153 })
	for key, n := range map[string]uint64{
		"kernels_data": 153, "kernels_data.kernel=probe_0": 50, "kernels_data.kernel=probe_1": 50, "kernels_data.kernel=probe_2": 50,
		"usage_data.duplicates": 50,
		"usage_data.rejected":   1, "rejects_data.reason=bad_value": 1, "kernel_stats_data.total_ns": 150*100 + 150*151/2 + 3*1000,
		"sessions_data.rejects": 1,
	} {
		if sum[key] != n {
			t.Errorf("%s = %d, want %d", key, sum[key], n)
		}
	}
	tombstone(t, s, stream.Deletion{ID: "d", Tenant: "acme", Session: "probe:1"})
	send("after", 1000, 10)
	sum = waitFor(t, s, "the deletion", func(sum totals) bool { return sum["rejects_data.reason=session_deleted"] == 1 })
	if d := deletesOf(t, s); len(d) != 1 || d[0].Session != "probe:1" || sum["kernels_data"] != 153 {
		t.Errorf("deletions %+v, %d kernels", d, sum["kernels_data"])
	}
}

// A worker that has not a source of a state leaves the partition alone, and says which one it lacks: nothing that was remembered is lost.
func TestStateOfASourceThatIsNotThereWaits(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	cfg := fast
	cfg.Sources = append(slices.Clip(sources), probe())
	stop := start(t, s, cfg)
	publish(t, s, stream.Envelope{Session: "probe:1", Kind: "probe", Source: "probe", Identity: "a", Events: 10}, probeLines(1, 10))
	waitFor(t, s, "the first ten", func(sum totals) bool { return sum["kernels_data"] == 10 })
	stop()
	w := aggregate.New(s, fast)
	left := run(t, w)
	var n []aggregate.NotUnderstood
	for deadline := time.Now().Add(time.Minute); len(n) == 0 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		n = w.Status().NotUnderstood
	}
	if len(n) != 1 || !strings.Contains(n[0].Err, `"probe"`) || !strings.Contains(n[0].Err, "nothing is lost") {
		t.Fatalf("%+v", n)
	}
	left()
	start(t, s, cfg)
	publish(t, s, stream.Envelope{Session: "probe:1", Kind: "probe", Source: "probe", Identity: "again", Events: 10}, probeLines(1, 10))
	waitFor(t, s, "what was sent again", func(sum totals) bool { return sum["usage_data.duplicates"] == 10 && sum["kernels_data"] == 10 })
}
