package aggregate_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
)

// countAll adds up the events of windows.
func countAll(windows []window) (events uint64) {
	for _, w := range windows {
		for line := range bytes.Lines(w.lines) {
			events += uint64(gpuflight.CountEvents(line))
		}
	}
	return events
}

// foldToViews folds windows and returns what they are in SQL.
func foldToViews(t *testing.T, windows []window, more func(s *broker.Streams)) *database {
	t.Helper()
	s := brokertest.Start(t, broker.Layout{Partitions: 2})
	stop := start(t, s, aggregate.Config{RawWait: time.Second, DetailWait: time.Second})
	publishWindows(t, s, windows)
	if more != nil {
		more(s)
	}
	want := countAll(windows)
	waitFor(t, s, "all folded", func(sum totals) bool { return sum["usage_data.events"] >= want })
	stop() // writes out what was held back
	return loadViews(t, s)
}

const segmentedRun = "3f2b8c1e-5d4a-4b6f-9a77-1c2d3e4f5a6b"

// A run of four sessions, its windows in any order: one row, complete, with the kernels of all.
func TestSegmentedRun(t *testing.T) {
	windows := vectorWindows(t, "segmented")
	backwards := slices.Clone(windows)
	slices.Reverse(backwards)
	var answers []string
	for _, order := range [][]window{windows, backwards} {
		d := foldToViews(t, order, nil)
		d.want("SELECT run_id, app, host, state, segments, final_segment_index, missing_segments, end_reason, sessions, "+
			"toUnixTimestamp64Nano(started_at), toUnixTimestamp64Nano(ended_at) FROM runs WHERE tenant = 'acme'",
			segmentedRun+"\twire_probe\tvm\tcomplete\t4\t3\t[]\tfinal\t4\t1795175945924463622\t1795175950975849665")
		d.want("SELECT segment_index, left(session_id, 8), left(previous_session_id, 8), end_reason, boundary_delay_ns, "+
			"toUnixTimestamp64Nano(started_at), toUnixTimestamp64Nano(ended_at), toUnixTimestamp64Nano(requested_boundary_at), "+
			"start_boundary_delay_ns FROM segments ORDER BY segment_index",
			"0\td0474543\t\ttime\t24017149\t1795175945924463622\t1795175947448885515\t1795175947424463622\t0\n"+
				"1\tfa3a65b5\td0474543\ttime\t5001486\t1795175947448885515\t1795175948953887309\t1795175948948885515\t24017149\n"+
				"2\t01a1bced\tfa3a65b5\ttime\t4903570\t1795175948953887309\t1795175950458790860\t1795175950453887309\t5001486\n"+
				"3\t6562da38\t01a1bced\tfinal\t0\t1795175950458790860\t1795175950975849665\t0\t4903570")
		d.want("SELECT (SELECT kernels FROM runs) = (SELECT sum(kernels) FROM sessions), (SELECT samples FROM runs) = (SELECT sum(samples) "+
			"FROM sessions), (SELECT kernels > 0 FROM runs)", "1\t1\t1")
		d.want("SELECT DISTINCT state, end_reason, synthetic FROM sessions", "complete\tshutdown\t0")
		d.want("SELECT count(), countIf(reason = 'not_yet' AND type IN ('segment_start', 'segment_end', 'run_end', 'capture_capabilities', "+
			"'deep_window_event')) > 0 FROM rejects FORMAT TSV", strings.Split(d.post("SELECT count() FROM rejects", nil), "\n")[0]+"\t0")
		d.want("SELECT feature, requested, status, mode FROM capture_capabilities ORDER BY feature",
			"kernel_events\t1\tcollected\tcupti_activity\npc_sampling\t0\tnot_requested\t")
		answers = append(answers, d.post("SELECT * EXCEPT (ended_at) FROM runs", nil))
	}
	if answers[0] != answers[1] {
		t.Errorf("the order of windows shows:\n%s\n%s", answers[0], answers[1])
	}
}

// lifeLine is a line of session s in the client's manner.
func lifeLine(typ, session, rest string) string {
	return fmt.Sprintf(`{"version":1,"type":%q,"session_id":%q,%s}`+"\n", typ, session, rest)
}

// Which end a session shows does not depend on which was folded first.
func TestSessionEndsInAnyOrder(t *testing.T) {
	now := time.Now().UnixNano() // so that silence is young, and sessions without an end are open
	at := func(s int) int64 { return now + int64(s)*1e9 }
	complete := func(session string) func(*broker.Streams) {
		return func(s *broker.Streams) {
			publish(t, s, stream.Envelope{Session: session, Identity: "complete", Kind: stream.KindComplete, ReceivedAt: at(9)}, nil)
		}
	}
	send := func(session, line string) func(*broker.Streams) {
		return func(s *broker.Streams) {
			publish(t, s, stream.Envelope{Session: session, Identity: line[:40] + line[len(line)-40:], ReceivedAt: at(8)}, []byte(line))
		}
	}
	segment := lifeLine("segment_end", "SID", fmt.Sprintf(`"run_id":"r","segment_index":0,"ts_ns":%[1]d,"actual_end_ns":%[1]d,`+
		`"requested_boundary_ns":null,"boundary_delay_ns":0,"end_reason":"time","deferred_by":null,"records_outside_segment_window":7`, at(2)))
	shutdown := lifeLine("shutdown", "SID", fmt.Sprintf(`"pid":1,"app":"a","ts_ns":%d`, at(3)))
	crash := lifeLine("shutdown", "SID", fmt.Sprintf(`"pid":1,"app":"a","ts_ns":%d,"synthetic":true,"exit_code":-11,"signaled":true,`+
		`"signal":11,"window_stopped":true,"crashed":false`, at(1)))
	type step = func(session string) func(*broker.Streams)
	line := func(l string) step {
		return func(session string) func(*broker.Streams) {
			return send(session, strings.ReplaceAll(l, "SID", session))
		}
	}
	for _, c := range []struct {
		name string
		ends []step
		want string
	}{
		{"segment", []step{line(segment), complete}, fmt.Sprintf("complete\tsegment_end\t%d\t0\t0\t0", at(2))},
		{"shutdown", []step{line(shutdown), complete, line(segment)}, fmt.Sprintf("complete\tshutdown\t%d\t0\t0\t0", at(3))},
		{"crash", []step{line(crash), line(segment), complete, line(shutdown)}, fmt.Sprintf("crashed\tcrashed\t%d\t1\t-11\t11", at(1))},
		{"complete", []step{complete}, "crashed\tno_shutdown\t0\t0\t0\t0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := brokertest.Start(t, broker.Layout{Partitions: 1})
			stop := start(t, s, fast)
			for i, order := range [][]step{c.ends, reversed(c.ends)} {
				session := fmt.Sprintf("%s-%d", c.name, i)
				for _, e := range order {
					e(session)(s)
				}
			}
			waitFor(t, s, "all ends", func(sum totals) bool { return sum["session_ends_data"] == uint64(2*len(c.ends)) })
			stop()
			d := loadViews(t, s)
			d.want("SELECT DISTINCT state, end_reason, toUnixTimestamp64Nano(ended_at), synthetic, exit_code, signal FROM sessions", c.want)
		})
	}
}

func reversed[T any](in []T) []T {
	out := slices.Clone(in)
	slices.Reverse(out)
	return out
}
