package e2e_test

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// gpuWork is a kernel, a copy or a memset, with its launch.
type gpuWork struct {
	name, kind, work string
	at, till         int64
	device, stream   int64
	correlation      uint64
	call             *span // nil: not known
}

// span is a slice of a thread.
type span struct {
	name, thread string
	at, till     int64
	id           uint64
}

var collective = regexp.MustCompile(`^(nccl|rccl|hccl)|ncclKernel`)

// work is what the views of a trace are made of.
func (tr *trace) work(t *testing.T) (all []gpuWork, ops, steps []span) {
	calls := map[uint64]*span{}
	for _, e := range tr.elements {
		if e.Ph != "X" {
			continue
		}
		a, at := e.read(t), tr.ns(t, e.TS, tr.base)
		s := span{name: e.Name, thread: plain(e.PID) + " " + plain(e.TID), at: at, till: at + tr.ns(t, e.Dur, "")}
		if a.External != nil {
			s.id = *a.External
		}
		correlation := uint64(0)
		if a.Correlation != nil {
			correlation = *a.Correlation
		}
		kind := kindsOf[e.Cat]
		if strings.HasPrefix(e.Name, "ProfilerStep#") && (kind == "op" || kind == "annotation") {
			steps = append(steps, s)
		}
		switch kind {
		case "op":
			ops = append(ops, s)
		case "runtime", "driver":
			if c := calls[correlation]; correlation != 0 && (c == nil || s.at < c.at) {
				calls[correlation] = &s
			}
		case "kernel", "memcpy", "memset":
			g := gpuWork{name: e.Name, kind: kind, work: "compute", at: s.at, till: s.till, correlation: correlation,
				device: number(a.Device, -1), stream: number(a.Stream, -1)}
			if kind != "kernel" {
				g.work = "memory"
			} else if collective.MatchString(e.Name) {
				g.work = "communication"
			}
			all = append(all, g)
		}
	}
	for i := range all {
		all[i].call = calls[all[i].correlation]
	}
	slices.SortStableFunc(all, func(a, b gpuWork) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.till, b.till)) })
	return all, ops, steps
}

// union merges the times of work of some kinds; all is sorted.
func union(all []gpuWork, works ...string) (merged [][2]int64) {
	for _, g := range all {
		if !slices.Contains(works, g.work) {
			continue
		}
		if n := len(merged); n > 0 && g.at <= merged[n-1][1] {
			merged[n-1][1] = max(merged[n-1][1], g.till)
			continue
		}
		merged = append(merged, [2]int64{g.at, g.till})
	}
	return merged
}

func sum(merged [][2]int64) (ns int64) {
	for _, m := range merged {
		ns += m[1] - m[0]
	}
	return ns
}

// views adds what the views are to say of the trace.
func (tr *trace) views(t *testing.T, want map[string]map[string]uint64) {
	add := func(view, format string, values ...any) {
		if want[view] == nil {
			want[view] = map[string]uint64{}
		}
		want[view]["trace:"+tr.name+"|"+fmt.Sprintf(format, values...)]++
	}
	all, ops, steps := tr.work(t)
	devices, streams := map[int64][]gpuWork{}, map[[2]int64][]gpuWork{}
	for _, g := range all {
		devices[g.device] = append(devices[g.device], g)
		streams[[2]int64{g.device, g.stream}] = append(streams[[2]int64{g.device, g.stream}], g)
		if c := g.call; c != nil {
			inverted := 0
			if g.at < c.at {
				inverted = 1
			}
			add("trace_launches", "%d|%s|%s|%d|%d|%d|%d", g.correlation, c.name, g.name, c.till-c.at, g.till-g.at, max(0, g.at-c.till), inverted)
		}
	}
	if len(devices) == 0 {
		for _, s := range steps {
			add("trace_steps", "%s|-1|%d|0", strings.TrimPrefix(s.name, "ProfilerStep#"), s.till-s.at)
		}
	}
	for device, of := range devices {
		busy := union(of, "compute", "communication", "memory")
		compute, communication := sum(union(of, "compute")), sum(union(of, "communication"))
		last, summed := int64(0), int64(0)
		for _, g := range of {
			last, summed = max(last, g.till), summed+g.till-g.at
		}
		add("trace_breakdown", "%d|%d|%d|%d|%d|%d|%d|%d|%d", device, last-of[0].at, sum(busy), last-of[0].at-sum(busy), compute, communication,
			sum(union(of, "memory")), compute+communication-sum(union(of, "compute", "communication")), summed)
		overlaps(of, func(kinds string, ns int64) { add("trace_overlaps", "%d|%s|%d", device, kinds, ns) })
		for _, s := range steps {
			within := int64(0)
			for _, b := range busy {
				within += max(0, min(b[1], s.till)-max(b[0], s.at))
			}
			n, _ := strconv.Atoi(strings.TrimPrefix(s.name, "ProfilerStep#"))
			add("trace_steps", "%d|%d|%d|%d", n, device, s.till-s.at, within)
		}
	}
	for row, of := range streams {
		var host, kernel, other int64
		before := of[0].till
		type change struct{ at, step int64 }
		var queue []change
		for i, g := range of {
			if gap := g.at - before; i > 0 && gap > 0 {
				switch {
				case g.call != nil && g.call.at > before:
					host += gap
				case gap < 30_000:
					kernel += gap
				default:
					other += gap
				}
			}
			before = max(before, g.till)
			if g.call != nil && g.at >= g.call.at {
				queue = append(queue, change{g.call.at, 1}, change{g.at, -1})
			}
		}
		add("trace_idle", "%d|%d|%d|%d|%d", row[0], row[1], host, kernel, other)
		slices.SortFunc(queue, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.step, a.step)) })
		length := int64(0)
		for _, c := range queue {
			length += c.step
			add("trace_queues", "%d|%d|%d|%d", row[0], row[1], c.at, length)
		}
	}
	tr.ops(all, ops, add)
}

// overlaps says how long each combination of kinds ran.
func overlaps(of []gpuWork, say func(kinds string, ns int64)) {
	type edge struct {
		at   int64
		step int
		work string
	}
	var edges []edge
	for _, g := range of {
		if g.till > g.at {
			edges = append(edges, edge{g.at, 1, g.work}, edge{g.till, -1, g.work})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
	running, took := map[string]int{}, map[string]int64{}
	for i, e := range edges {
		if i > 0 {
			var kinds []string
			for _, k := range []string{"communication", "compute", "memory"} {
				if running[k] > 0 {
					kinds = append(kinds, k)
				}
			}
			took[strings.Join(kinds, "+")] += e.at - edges[i-1].at
		}
		running[e.work] += e.step
	}
	delete(took, "")
	for kinds, ns := range took {
		if ns > 0 {
			say(kinds, ns)
		}
	}
}

// ops adds up work by the shortest op around its launch; of equal ones that which was numbered last is inside.
func (tr *trace) ops(all []gpuWork, ops []span, add func(view, format string, values ...any)) {
	type sums struct{ calls, kernels, ns int64 }
	of, threads := map[string]*sums{}, map[string][]span{}
	for _, o := range ops {
		if o.till == o.at {
			continue
		}
		if of[o.name] == nil {
			of[o.name] = &sums{}
		}
		of[o.name].calls++
		threads[o.thread] = append(threads[o.thread], o)
	}
	for _, g := range all {
		if g.call == nil {
			continue
		}
		var best *span
		for i := range threads[g.call.thread] {
			o := &threads[g.call.thread][i]
			if o.at <= g.call.at && g.call.at < o.till && (best == nil || o.till-o.at < best.till-best.at ||
				o.till-o.at == best.till-best.at && o.id > best.id) {
				best = o
			}
		}
		if best != nil {
			s := of[best.name]
			if g.kind == "kernel" {
				s.kernels++
			}
			s.ns += g.till - g.at
		}
	}
	for op, s := range of {
		add("trace_ops", "%s|%d|%d|%d", op, s.calls, s.kernels, s.ns)
	}
}

// traceViews asks for the lines that views makes.
var traceViews = map[string]string{
	"trace_breakdown": "device_id, span_ns, busy_ns, idle_ns, compute_ns, communication_ns, memory_ns, overlap_ns, summed_ns",
	"trace_idle":      "device_id, stream_id, host_wait_ns, kernel_wait_ns, other_ns",
	"trace_overlaps":  "device_id, kinds, ns",
	"trace_queues":    "device_id, stream_id, toUnixTimestamp64Nano(at), length",
	"trace_launches":  "correlation, call, kernel, cpu_ns, gpu_ns, delay_ns, inverted",
	"trace_ops":       "op, calls, kernels, gpu_ns",
	"trace_steps":     "step, device_id, duration_ns, busy_ns",
}

// checkViews compares the views with what encoding/json makes of the files.
func (c *cluster) checkViews(t *testing.T, tenant string, all []*trace) {
	t.Helper()
	want := map[string]map[string]uint64{}
	for _, tr := range all {
		tr.views(t, want)
	}
	c.checkLines(t, tenant, traceViews, want)
}
