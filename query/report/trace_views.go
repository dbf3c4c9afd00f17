package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// TraceBreakdown is how long a GPU of a trace was busy, and with what.
type TraceBreakdown struct {
	Session         string `json:"session_id"`
	Rank            int64  `json:"rank"`
	Device          int32  `json:"device_id"`
	SpanNS          uint64 `json:"span_ns"`
	BusyNS          uint64 `json:"busy_ns"`
	IdleNS          uint64 `json:"idle_ns"`
	ComputeNS       uint64 `json:"compute_ns"`
	CommunicationNS uint64 `json:"communication_ns"`
	MemoryNS        uint64 `json:"memory_ns"`
	OverlapNS       uint64 `json:"overlap_ns"` // of communication and computation
}

// TraceWait is what a stream waited for.
type TraceWait struct {
	Session  string `json:"session_id"`
	Rank     int64  `json:"rank"`
	Device   int32  `json:"device_id"`
	Stream   int64  `json:"stream_id"`
	HostNS   uint64 `json:"host_wait_ns"`
	KernelNS uint64 `json:"kernel_wait_ns"`
	OtherNS  uint64 `json:"other_ns"`
}

// TraceOp adds up the calls of an op, and the work of GPUs that was launched in it and in no op within it.
type TraceOp struct {
	Op      string `json:"op"`
	Calls   uint64 `json:"calls"`
	Kernels uint64 `json:"kernels"`
	Copies  uint64 `json:"copies"`
	GPUNS   uint64 `json:"gpu_ns"`
}

// TraceLaunched counts work of GPUs by what is known of its launch.
type TraceLaunched struct {
	Work      uint64 `json:"work"`      // kernels, copies and memsets
	Launched  uint64 `json:"launched"`  // of those whose call is known
	Slow      uint64 `json:"slow"`      // that began more than 100 us after their call had returned
	Inverted  uint64 `json:"inverted"`  // that began before their call
	Astray    uint64 `json:"astray"`    // that did so by more than a second, and are in no breakdown
	Ambiguous uint64 `json:"ambiguous"` // with several calls of one correlation
}

// slowNS is from which delay on a launch is slow.
const slowNS = 100_000

// TraceLaunch is a call on the host, and what it launched.
type TraceLaunch struct {
	Session     string `json:"session_id"`
	Rank        int64  `json:"rank"`
	Correlation uint64 `json:"correlation"`
	Call        string `json:"call"`
	Kernel      string `json:"kernel"`
	CPUNS       uint64 `json:"cpu_ns"`
	GPUNS       uint64 `json:"gpu_ns"`
	DelayNS     uint64 `json:"delay_ns"` // after the call had returned
	EarlyNS     uint64 `json:"early_ns"` // before the call began
}

// TraceStep is a step of the profiler, and how long a GPU was busy in it.
type TraceStep struct {
	Session    string `json:"session_id"`
	Rank       int64  `json:"rank"`
	Device     int32  `json:"device_id"` // -1 in a trace without work of GPUs
	Step       uint64 `json:"step"`
	DurationNS uint64 `json:"duration_ns"`
	BusyNS     uint64 `json:"busy_ns"`
}

// TraceQueue is how much work waited in a stream.
type TraceQueue struct {
	Session string  `json:"session_id"`
	Rank    int64   `json:"rank"`
	Device  int32   `json:"device_id"`
	Stream  int64   `json:"stream_id"`
	Longest uint64  `json:"longest"`
	Mean    float64 `json:"mean"`    // over time
	FullNS  uint64  `json:"full_ns"` // with 1,024 or more, when launches wait
}

// maxSteps bounds the steps of a report, and maxOps the names of ops of one trace, of which more have next to no time.
const maxSteps, maxOps = 4096, 10_000

// most are the largest of a list; of equal ones the order stays.
func most[T any](list []T, n int, of func(T) uint64) []T {
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(of(b), of(a)) })
	return list[:min(len(list), n)]
}

// rank is that of a session.
func (in *traceReader) rank(session string) int64 {
	for _, s := range in.r.Traces {
		if s.Session == session {
			return s.Rank
		}
	}
	return -1
}

func readTraceBreakdown(all *traceReader) error {
	return all.alone(func(in *traceReader) error {
		from, args := in.of("trace_breakdown")
		return in.each("SELECT toString(session_id), device_id, span_ns, busy_ns, idle_ns, compute_ns, communication_ns, memory_ns, "+
			"overlap_ns FROM "+from+" ORDER BY session_id, device_id", args, func(rows driver.Rows) error {
			var b TraceBreakdown
			err := rows.Scan(&b.Session, &b.Device, &b.SpanNS, &b.BusyNS, &b.IdleNS, &b.ComputeNS, &b.CommunicationNS, &b.MemoryNS, &b.OverlapNS)
			b.Rank = in.rank(b.Session)
			in.r.Breakdown = append(in.r.Breakdown, b)
			return err
		})
	})
}

func readTraceWaits(all *traceReader) error {
	err := all.alone(func(in *traceReader) error {
		from, args := in.of("trace_idle", "host_wait_ns + kernel_wait_ns + other_ns > 0")
		return in.each(fmt.Sprintf("SELECT toString(session_id) AS id, device_id, stream_id, host_wait_ns, kernel_wait_ns, other_ns FROM %s "+
			"ORDER BY host_wait_ns + kernel_wait_ns + other_ns DESC, id, device_id, stream_id LIMIT %d", from, in.r.Query.Top), args,
			func(rows driver.Rows) error {
				var w TraceWait
				err := rows.Scan(&w.Session, &w.Device, &w.Stream, &w.HostNS, &w.KernelNS, &w.OtherNS)
				w.Rank = in.rank(w.Session)
				in.r.Waits = append(in.r.Waits, w)
				return err
			})
	})
	all.r.Waits = most(all.r.Waits, all.r.Query.Top, func(w TraceWait) uint64 { return w.HostNS + w.KernelNS + w.OtherNS })
	return err
}

func readTraceOps(all *traceReader) error {
	ops := map[string]*TraceOp{}
	err := all.alone(func(in *traceReader) error {
		from, args := in.of("trace_ops")
		return in.each(fmt.Sprintf("SELECT toString(op) AS o, sum(calls), sum(kernels), sum(copies), sum(gpu_ns) AS ns FROM %s GROUP BY o "+
			"HAVING ns > 0 ORDER BY ns DESC, o LIMIT %d", from, maxOps), args, func(rows driver.Rows) error {
			var o TraceOp
			err := rows.Scan(&o.Op, &o.Calls, &o.Kernels, &o.Copies, &o.GPUNS)
			if of := ops[o.Op]; of != nil {
				o.Calls, o.Kernels, o.Copies, o.GPUNS = o.Calls+of.Calls, o.Kernels+of.Kernels, o.Copies+of.Copies, o.GPUNS+of.GPUNS
			}
			ops[o.Op] = &o
			return err
		})
	})
	for _, name := range slices.Sorted(maps.Keys(ops)) {
		all.r.Ops = append(all.r.Ops, *ops[name])
	}
	all.r.Ops = most(all.r.Ops, all.r.Query.Top, func(o TraceOp) uint64 { return o.GPUNS })
	return err
}

func readTraceLaunches(all *traceReader) error {
	err := all.alone(readLaunchesOfOne)
	r := all.r
	r.Slow = most(r.Slow, r.Query.Top, func(l TraceLaunch) uint64 { return l.DelayNS })
	r.Inverted = most(r.Inverted, r.Query.Top, func(l TraceLaunch) uint64 { return l.EarlyNS })
	return err
}

func readLaunchesOfOne(in *traceReader) error {
	const early = "toUnixTimestamp64Nano(call_at) - toUnixTimestamp64Nano(started_at)"
	from, args := in.of("trace_gpu")
	l := &in.r.Launched
	if err := in.each(fmt.Sprintf("SELECT count(), countIf(launched = 1), countIf(launched = 1 AND -(%s) > toInt64(call_ns) + %d), "+
		"countIf(inverted = 1), countIf(astray = 1), countIf(ambiguous = 1) FROM %s", early, slowNS, from), args,
		func(rows driver.Rows) error {
			var x TraceLaunched
			err := rows.Scan(&x.Work, &x.Launched, &x.Slow, &x.Inverted, &x.Astray, &x.Ambiguous)
			*l = TraceLaunched{l.Work + x.Work, l.Launched + x.Launched, l.Slow + x.Slow, l.Inverted + x.Inverted, l.Astray + x.Astray,
				l.Ambiguous + x.Ambiguous}
			return err
		}); err != nil {
		return err
	}
	for _, list := range []struct {
		of          *[]TraceLaunch
		only, order string
	}{{&in.r.Slow, fmt.Sprintf("delay_ns > %d", slowNS), "delay_ns"}, {&in.r.Inverted, "inverted = 1", "early"}} {
		from, args := in.of("trace_launches", list.only)
		if err := in.each(fmt.Sprintf("SELECT toString(session_id) AS id, correlation, toString(call), toString(kernel), cpu_ns, gpu_ns, "+
			"delay_ns, toUInt64(greatest(toUnixTimestamp64Nano(launched_at) - toUnixTimestamp64Nano(started_at), 0)) AS early FROM %s "+
			"ORDER BY %s DESC, id, correlation LIMIT %d", from, list.order, in.r.Query.Top), args, func(rows driver.Rows) error {
			var x TraceLaunch
			err := rows.Scan(&x.Session, &x.Correlation, &x.Call, &x.Kernel, &x.CPUNS, &x.GPUNS, &x.DelayNS, &x.EarlyNS)
			x.Rank = in.rank(x.Session)
			*list.of = append(*list.of, x)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

func readTraceSteps(all *traceReader) error {
	return all.alone(func(in *traceReader) error {
		from, args := in.of("trace_steps")
		return in.each(fmt.Sprintf("SELECT toString(session_id) AS id, device_id, step, duration_ns, busy_ns FROM %s "+
			"ORDER BY id, device_id, started_at, step LIMIT %d", from, maxSteps-len(in.r.Steps)), args, func(rows driver.Rows) error {
			var s TraceStep
			err := rows.Scan(&s.Session, &s.Device, &s.Step, &s.DurationNS, &s.BusyNS)
			s.Rank = in.rank(s.Session)
			in.r.Steps = append(in.r.Steps, s)
			return err
		})
	})
}

func readTraceQueues(all *traceReader) error {
	err := all.alone(func(in *traceReader) error {
		from, args := in.of("trace_queues")
		return in.each(fmt.Sprintf("SELECT id, device, stream, toUInt64(max(length)) AS longest, "+
			"sum(length * lasts) / greatest(sum(lasts), 1), "+
			"toUInt64(sumIf(lasts, length >= 1024)) FROM (SELECT toString(session_id) AS id, device_id AS device, stream_id AS stream, "+
			"toInt64(length) AS length, leadInFrame(toUnixTimestamp64Nano(at), 1, toUnixTimestamp64Nano(at)) OVER (PARTITION BY session_id, "+
			"device_id, stream_id ORDER BY at ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING) - toUnixTimestamp64Nano(at) AS lasts FROM %s) "+
			"GROUP BY id, device, stream ORDER BY longest DESC, id, device, stream LIMIT %d", from, in.r.Query.Top), args,
			func(rows driver.Rows) error {
				var x TraceQueue
				err := rows.Scan(&x.Session, &x.Device, &x.Stream, &x.Longest, &x.Mean, &x.FullNS)
				x.Rank = in.rank(x.Session)
				in.r.Queues = append(in.r.Queues, x)
				return err
			})
	})
	all.r.Queues = most(all.r.Queues, all.r.Query.Top, func(q TraceQueue) uint64 { return q.Longest })
	return err
}
