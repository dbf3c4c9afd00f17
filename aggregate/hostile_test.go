package aggregate_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/stream"
)

func noise(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'a' + byte(r.IntN(26))
	}
	return string(b)
}

// Input that makes state instead of rows: the partition goes on, and its neighbours' rows come through.
func TestStateHeavyInputStopsNobody(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and much of it")
	}
	r := rand.New(rand.NewPCG(1, 1))
	for name, part := range map[string]func(i int) (session, body string){
		"huge applications": func(i int) (string, string) {
			s := fmt.Sprint("app", i)
			return s, fmt.Sprintf(`{"type":"job_start","session_id":"%s","pid":1,"app":"%s","ts_ns":1795175929972803352}`+"\n", s, noise(r, 240_000))
		},
		"nothing but new lines": func(i int) (string, string) {
			var b strings.Builder
			s := fmt.Sprint("lines", i%12)
			for n := range 9000 {
				fmt.Fprintf(&b, `{"type":"dictionary_update","session_id":"%s","n":%d}`+"\n", s, i*100_000+n)
			}
			return s, b.String()
		},
		"scopes that never end": func(i int) (string, string) {
			s := fmt.Sprint("scopes", i%6)
			var b strings.Builder
			fmt.Fprintf(&b, `{"type":"dictionary_update","session_id":"%s","scope_name_dict":{"%d":"%s"}}`+"\n", s, i+1, noise(r, 30_000))
			fmt.Fprintf(&b, `{"type":"scope_event_batch","session_id":"%s","batch_id":%d,"base_time_ns":1795175929972803352,"columns":["dt_ns",`+
				`"scope_instance_id","name_id","event_type","depth"],"rows":[`, s, i)
			for n := range 2000 {
				fmt.Fprintf(&b, "[%d,%d,%d,0,%d],", n, i*2000+n, i+1, n%50)
			}
			return s, strings.TrimSuffix(b.String(), ",") + "]}\n"
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := brokertest.Start(t, broker.Layout{Partitions: 1})
			cfg := fast
			cfg.ChunkAge = 3 * time.Second // what is heavy gathers in one chunk
			stop := start(t, s, cfg)
			for i := range 48 {
				session, body := part(i)
				publish(t, s, stream.Envelope{Session: session, Identity: fmt.Sprint("w", i)}, []byte(body))
			}
			kernels, total := load(t, s, 0, 20)
			sum := waitFor(t, s, "the neighbours' kernels", func(sum totals) bool {
				return sum["kernels_data"] >= kernels && sum["kernel_stats_data.calls"] >= kernels
			})
			if sum["kernels_data.duration_ns"] != total {
				t.Errorf("durations add up to %d, want %d", sum["kernels_data.duration_ns"], total)
			}
			stop()
			more, ns := load(t, s, 20, 20)
			start(t, s, fast) // the state can be read back
			sum = waitFor(t, s, "kernels after a take-over", func(sum totals) bool { return sum["kernel_stats_data.calls"] >= kernels+more })
			if sum["kernels_data.duration_ns"] != total+ns || sum["kernels_data"] != kernels+more {
				t.Errorf("%d kernels of %d ns, want %d of %d", sum["kernels_data"], sum["kernels_data.duration_ns"], kernels+more, total+ns)
			}
		})
	}
}

// Folding costs about the same per row whatever the rows are: a hundred thousand rows that wait for details, or that all lie in minutes
// of their own, are folded in the time of a test.
func TestFoldIsNotQuadratic(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and much of it")
	}
	const rows = 200_000
	batch := func(step, hasDetails int) []byte {
		var b bytes.Buffer
		b.WriteString(`{"version":1,"type":"kernel_event_batch","session_id":"x","batch_id":1,"base_time_ns":1000000000000000000,` +
			`"columns":["dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"],"rows":[`)
		for i := range rows {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "[%d,1,7,5,%d,0,32,%d]", i*step, i+1, hasDetails)
		}
		b.WriteString("]}\n")
		return b.Bytes()
	}
	for name, body := range map[string][]byte{"rows that wait": batch(1, 1), "a minute each": batch(60e9, 0)} {
		t.Run(name, func(t *testing.T) {
			s := brokertest.Start(t, broker.Layout{Partitions: 1})
			start(t, s, fast)
			publish(t, s, stream.Envelope{Session: "x", Identity: "a"}, body)
			waitFor(t, s, "every kernel", func(sum totals) bool { return sum["kernel_stats_data.calls"] == rows && sum["kernels_data"] == rows })
		})
	}
}

// A part of nothing but broken lines makes few reject rows that count them all.
func TestRejectFloodIsFewRows(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	start(t, s, fast)
	publish(t, s, stream.Envelope{Session: "x", Identity: "a"}, bytes.Repeat([]byte("x\n"), 50_000))
	sum := waitFor(t, s, "all counted", func(sum totals) bool { return sum["usage_data.events"] == 50_000 })
	if sum["rejects_data.events"] != 50_000 || sum["usage_data.rejected"] != 50_000 || sum["rejects_data"] > 200 {
		t.Errorf("%d reject rows for %d events, usage says %d rejected", sum["rejects_data"], sum["rejects_data.events"],
			sum["usage_data.rejected"])
	}
}

// The worker's books balance for rows that are no rows.
func TestBooksBalance(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	start(t, s, fast)
	publish(t, s, stream.Envelope{Session: "x", Identity: "a"}, []byte(`{"version":1,"type":"kernel_event_batch","session_id":"x",`+
		`"batch_id":1,"base_time_ns":1795175929972803352,"columns":["dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared",`+
		`"num_regs","has_details"],"rows":[[0,1,7,5,1,0,32,0],1,[[2]],3]}`+"\n"))
	sum := waitFor(t, s, "the batch", func(sum totals) bool { return sum["usage_data.events"] > 0 })
	if sum["usage_data.events"] != 4 || sum["usage_data.rejected"] != 3 || sum["kernels_data"] != 1 {
		t.Errorf("received %d = stored %d + rejected %d, want 4 = 1 + 3", sum["usage_data.events"], sum["kernels_data"],
			sum["usage_data.rejected"])
	}
}

// A session that was forgotten goes on with its names when it speaks again.
func TestForgottenSessionKeepsItsNames(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	var now clock
	cfg := fast.WithClock(now.at)
	cfg.ChunkAge, cfg.Forget, cfg.DropNames = 30*time.Millisecond, 24*time.Hour, 10*time.Minute
	w := aggregate.New(s, cfg)
	run(t, w)
	sessions := func() (n int) {
		for _, p := range w.Status().Partitions {
			n += p.Sessions
		}
		return n
	}
	line := func(i int) string {
		return fmt.Sprintf(`{"version":1,"type":"kernel_event_batch","session_id":"x","batch_id":%d,"base_time_ns":1795175929972803352,`+
			`"columns":["dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"],"rows":[[0,1,7,5,%d,0,32,`+
			`0]]}`+"\n", i, i)
	}
	publish(t, s, stream.Envelope{Session: "x", Identity: "a"}, []byte(`{"type":"dictionary_update","session_id":"x",`+
		`"kernel_dict":{"1":"known"}}`+"\n"+line(1)))
	waitFor(t, s, "the first row", func(sum totals) bool { return sum["kernel_stats_data.kernel=known"] == 1 })
	const walk = 11 * time.Second // sessions are looked through every ten
	if now.forward(t, walk); sessions() != 1 {
		t.Fatalf("%d sessions, want the one that is not silent for long", sessions())
	}
	now.forward(t, cfg.Forget)
	for tries := 0; sessions() != 0; tries++ { // what it has left to say goes out first
		if now.forward(t, walk); tries > 100 {
			t.Fatal("the session is not forgotten")
		}
	}
	publish(t, s, stream.Envelope{Session: "x", Identity: "b"}, []byte(line(2)))
	sum := waitFor(t, s, "the second row", func(sum totals) bool { return sum["kernel_stats_data.calls"] == 2 })
	if sum["kernel_stats_data.kernel="] != 0 {
		t.Error("a row of the rollup has no name though the session's dictionary is known")
	}
}
