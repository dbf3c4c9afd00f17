package aggregate_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/telemetry"
)

const endsEpoch = int64(1795175929_000000000)

// said is one message of a session.
type said struct {
	what string
	at   int64 // the time it tells, ns; of session-complete when it came
}

// publish sends it as the gateway would, under an identity of its own: nothing is recognised by it.
func (m said) publish(t testing.TB, s *broker.Streams, session, identity string, received int64) {
	t.Helper()
	e := stream.Envelope{Session: session, Identity: identity, ReceivedAt: received}
	line := func(typ, rest string) { publish(t, s, e, []byte(lifeLine(typ, session, rest))) }
	status, summarized := strings.CutPrefix(m.what, "summary ")
	switch {
	case m.what == "session-complete":
		e.Kind, e.Source = stream.KindComplete, "gpu-flight"
		publish(t, s, e, nil)
	case m.what == "job_start":
		line("job_start", fmt.Sprintf(`"pid":7,"app":"a","ts_ns":%d`, m.at))
	case m.what == "kernel":
		line("kernel_event_batch", fmt.Sprintf(`"batch_id":%d,"base_time_ns":%d,"columns":["dt_ns","kernel_id","stream_id","duration_ns",`+
			`"corr_id","dyn_shared","num_regs","has_details"],"rows":[[0,0,7,1,1,0,32,0]]`, m.at%1e9, m.at))
	case m.what == "pc sample without a time":
		line("profile_sample_batch", `"batch_id":1,"base_time_ns":0,"columns":["dt_ns","corr_id","device_id","function_id","pc_offset",`+
			`"metric_id","metric_value","stall_reason","sample_kind","scope_name_id"],"rows":[[0,0,0,1,16,1,5,0,0,0]]`)
	case m.what == "shutdown":
		line("shutdown", fmt.Sprintf(`"pid":7,"app":"a","ts_ns":%d`, m.at))
	case m.what == "crash":
		line("shutdown", fmt.Sprintf(`"pid":7,"app":"a","ts_ns":%d,"synthetic":true,"exit_code":-9,"signaled":true,"signal":9,`+
			`"window_stopped":false,"crashed":true`, m.at))
	case m.what == "segment_end":
		line("segment_end", fmt.Sprintf(`"run_id":"r","segment_index":0,"ts_ns":%[1]d,"actual_end_ns":%[1]d,"requested_boundary_ns":null,`+
			`"boundary_delay_ns":0,"end_reason":"time","deferred_by":null,"records_outside_segment_window":0`, m.at))
	case m.what == "run_end":
		line("run_end", fmt.Sprintf(`"run_id":"r","final_segment_index":0,"ts_ns":%[1]d,"ended_ns":%[1]d`, m.at))
	case summarized:
		sum := telemetry.SessionSummary{SessionID: session, Status: status, StartedAtNS: endsEpoch - 5, EndedAtNS: m.at}
		body, err := telemetry.AppendSummary(nil, &sum)
		if err != nil {
			t.Fatal(err)
		}
		e.Kind, e.Source = stream.KindSummary, "telemetry"
		publish(t, s, e, body)
	default: // an event of memory telemetry; "of a summarized upload" says nothing of the end
		kind, of, _ := strings.Cut(m.what, " ")
		e.Kind, e.Source, e.Events, e.Summarized = stream.KindTelemetry, "telemetry", 1, of != ""
		x := sample{ns: m.at, kind: kind, collector: "c", host: "h", sampling: 1, world: 1, metadata: map[string]any{}}
		publish(t, s, e, x.frame(t, 0))
	}
}

// endOf is how a session shows that all of this was said of, in the plainest way: state, end_reason, started_at, ended_at.
func endOf(all []said) string {
	started, ended, last := int64(0), int64(0), int64(0)
	state, reason, best := "idle", "idle", 0
	rank := func(n int, st, why string, at int64) {
		if n > best {
			state, reason, ended = st, why, 0
		}
		if n >= best {
			best, ended = n, max(ended, at)
		}
	}
	first := int64(0)
	for _, m := range all {
		event := true
		switch m.what {
		case "session-complete":
			event = false
			rank(10, "crashed", "no_shutdown", 0)
		case "job_start":
			if started == 0 || m.at < started {
				started = m.at
			}
		case "run_end":
			rank(11, "complete", "run_end", m.at)
		case "segment_end":
			rank(12, "complete", "segment_end", m.at)
		case "shutdown":
			rank(13, "complete", "shutdown", m.at)
		case "crash":
			rank(14, "crashed", "crashed", m.at)
		case "summary running":
			event = false
		case "summary incomplete":
			event = false
			rank(2, "crashed", "incomplete", m.at)
		case "stop":
			rank(3, "complete", "stop", m.at)
		case "summary interrupted":
			event = false
			rank(4, "crashed", "interrupted", m.at)
		case "summary completed":
			event = false
			rank(5, "complete", "completed", m.at)
		case "pc sample without a time":
			event = false
		}
		if strings.HasPrefix(m.what, "summary ") {
			started = endsEpoch - 5
		}
		if event {
			last = max(last, m.at)
			if first == 0 || m.at < first {
				first = m.at
			}
		}
	}
	return fmt.Sprintf("%s\t%s\t%d\t%d", state, reason, cmp.Or(started, first), cmp.Or(ended, last))
}

// Whatever is said of a session's end, in whatever order, as often as one likes, by one worker or several that have forgotten the session
// in between: its row says the same.
func TestEndsOfAnyOrder(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	r := rand.New(rand.NewPCG(8, 6))
	families := [][]string{
		{"session-complete", "job_start", "kernel", "kernel", "shutdown", "crash", "segment_end", "run_end", "pc sample without a time"},
		{"summary running", "summary incomplete", "summary interrupted", "summary completed", "stop", "stop", "stop of a summarized upload",
			"sample", "sample"},
	}
	type session struct {
		id   string
		all  []said
		want string
	}
	var sessions []session
	var queue []func()
	received := time.Now().Add(-2 * time.Hour).UnixNano()
	for n := range 60 {
		family := families[n%2]
		var all []said
		for range 1 + r.IntN(5) {
			all = append(all, said{family[r.IntN(len(family))], endsEpoch + r.Int64N(1e12)})
		}
		want := endOf(all)
		for order := range 2 {
			id := fmt.Sprintf("s%d-%d", n, order)
			r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			sessions = append(sessions, session{id, slices.Clone(all), want})
			for i, m := range append(slices.Clone(all), all[:r.IntN(len(all)+1)]...) {
				queue = append(queue, func() { m.publish(t, s, id, fmt.Sprint("m", i), received+int64(i)) })
			}
		}
	}
	// What comes of a session stays in its order, but sessions mix, and workers come and go.
	cfg := aggregate.Config{RawWait: 50 * time.Millisecond, DetailWait: 50 * time.Millisecond, Forget: time.Millisecond}
	stop := func() {}
	for i, send := range queue {
		if i%(len(queue)/4+1) == 0 {
			stop()
			stop = start(t, s, cfg)
		}
		send()
	}
	publish(t, s, stream.Envelope{Session: "fin", Identity: "fin"}, []byte(lifeLine("job_start", "fin",
		`"pid":1,"app":"fin","ts_ns":1795175929000000000`)))
	waitFor(t, s, "the last of them", func(sum totals) bool { return sum["sessions_data.app=fin"] > 0 })
	stop()
	d := loadViews(t, s)
	rows := map[string]string{}
	for line := range strings.Lines(d.post("SELECT session_id, state, end_reason, toUnixTimestamp64Nano(started_at), "+
		"toUnixTimestamp64Nano(ended_at) FROM sessions", nil)) {
		id, row, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		rows[id] = row
	}
	for _, x := range sessions {
		if rows[x.id] != x.want {
			t.Errorf("%s of %v:\n got %q\nwant %q", x.id, x.all, rows[x.id], x.want)
		}
	}
}

// A client that died and whose agent said session-complete 37 hours later has crashed, with its last event; a line of its end that comes
// a day after that still tells how it ended, whichever worker is there by then.
func TestClientThatDied(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	cfg := aggregate.Config{RawWait: 50 * time.Millisecond, DetailWait: 50 * time.Millisecond, Forget: time.Millisecond}
	stop := start(t, s, cfg)
	hour := int64(time.Hour)
	last := endsEpoch + 5e9
	for i, m := range []said{{"job_start", endsEpoch}, {"kernel", last}, {"pc sample without a time", 0}, {"session-complete", 0}} {
		m.publish(t, s, "died", fmt.Sprint(i), endsEpoch+37*hour)
	}
	said{"session-complete", 0}.publish(t, s, "unheard of", "complete", endsEpoch)
	waitFor(t, s, "both ends", func(sum totals) bool { return sum["session_ends_data"] == 2 })
	stop()
	loadViews(t, s).want("SELECT session_id, state, end_reason, toUnixTimestamp64Nano(ended_at) FROM sessions ORDER BY session_id",
		fmt.Sprintf("died\tcrashed\tno_shutdown\t%d\nunheard of\tcrashed\tno_shutdown\t0", last))
	start(t, s, cfg)
	said{"shutdown", last + 9}.publish(t, s, "died", "late", endsEpoch+61*hour)
	said{"run_end", last + 9}.publish(t, s, "unheard of", "late", endsEpoch+61*hour)
	waitFor(t, s, "the late lines", func(sum totals) bool { return sum["session_ends_data"] == 4 })
	loadViews(t, s).want("SELECT session_id, state, end_reason, toUnixTimestamp64Nano(ended_at) FROM sessions ORDER BY session_id",
		fmt.Sprintf("died\tcomplete\tshutdown\t%d\nunheard of\tcomplete\trun_end\t%d", last+9, last+9))
}
