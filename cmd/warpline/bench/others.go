package bench

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// others is the state of everything in a session except kernels.
type others struct {
	memcpys, pairs, pcRows, samples int // emitted so far
	open                            []openScope
	instance                        int64
	hotspots                        []hotspot
	pcs                             *rand.Zipf
	energyUJ                        int64
	cpu, util                       float64 // random walks, 0 to 1
}

// openScope is a scope that has begun.
type openScope struct{ instance, name, begin int64 }

// hotspot is a place in the code where PC sampling hits, with the reason that it mostly sees there.
type hotspot struct{ function, offset, reason, line int64 }

// functions and hotspotsPerFunction say over how many places PC samples spread: some dozens of hot kernels, each with a loop body.
const (
	functions           = 40
	hotspotsPerFunction = 96
)

// stalls are the reasons of an H100's PC sampling that are common, the first ones most.
var stalls = []string{"long_scoreboard", "wait", "selected", "not_selected", "short_scoreboard", "math_pipe_throttle", "barrier",
	"mio_throttle",
	"lg_throttle", "dispatch_stall", "branch_resolving", "no_instructions", "imc_miss", "drain", "sleeping", "membar"}

// leaves are the names of scopes; name_id is the place here + 1.
var leaves = []string{"train", "step", "forward", "backward", "optimizer", "loss", "attention", "mlp", "norm", "embedding", "adamw",
	"allreduce"}

// startOthers writes the dictionaries of scopes and PC samples.
func (s *session) startOthers() error {
	o := &s.others
	o.cpu, o.util = 0.4, 0.8
	var members []string
	add := func(dict string, n int, name func(i int) string) {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"%d":"%s"`, i+1, name(i))
		}
		members = append(members, fmt.Sprintf(`"%s":{%s}`, dict, b.String()[1:]))
	}
	if s.shape.scopePairs > 0 {
		add("scope_name_dict", len(leaves), func(i int) string { return leaves[i] })
	}
	if s.shape.pcRows > 0 {
		source := func(i int) string {
			return fmt.Sprintf("/workspace/train/kernels/%s_%d.cu", leaves[i%len(leaves)], i/len(leaves))
		}
		add("function_dict", functions, func(i int) string { return s.list[i].name + "@" + source(i) })
		add("metric_dict", len(stalls), func(i int) string { return "smsp__pcsamp_warps_issue_stalled_" + stalls[i] })
		add("source_file_dict", functions, source)
		add("func_symbol_dict", functions, func(i int) string { return fmt.Sprintf("_ZN5bench%d6kernelEv", i) })
		// The code is the same in every session, so this depends only on the seed.
		r := rand.New(rand.NewPCG(s.cfg.Seed, 1<<32))
		for f := range functions {
			at := int64(0)
			for range hotspotsPerFunction {
				at += 16 * int64(1+r.IntN(4))
				o.hotspots = append(o.hotspots, hotspot{int64(f + 1), at, int64(r.IntN(len(stalls))), 10 + at/64})
			}
		}
		r.Shuffle(len(o.hotspots), func(i, j int) { o.hotspots[i], o.hotspots[j] = o.hotspots[j], o.hotspots[i] })
		o.pcs = rand.NewZipf(s.rand, 1.1, 8, uint64(len(o.hotspots)-1))
	}
	if len(members) == 0 {
		return nil
	}
	line := s.head(nil, `{"version":1,"type":"dictionary_update"`)
	return s.all(append(line, ","+strings.Join(members, ",")+"}\n"...))
}

// flushOthers writes what happened between from and the clock, so that after kernels kernels everything is in proportion.
func (s *session) flushOthers(kernels int, from int64, last bool) error {
	due := func(per, done int) int { return int(int64(kernels)*int64(per)/HourKernels) - done }
	for _, write := range []func() error{
		func() error { return s.memcpyBatch(due(s.shape.memcpys, s.others.memcpys), from) },
		func() error { return s.scopeBatch(due(s.shape.scopePairs, s.others.pairs), from, last) },
		func() error { return s.pcBatch(due(s.shape.pcRows, s.others.pcRows), from) },
		func() error { return s.metricBatches(due(s.shape.samples, s.others.samples), from) },
	} {
		if err := write(); err != nil {
			return err
		}
	}
	return nil
}

// spread returns the time of event i of n between from and the clock.
func (s *session) spread(from int64, i, n int) int64 { return from + (s.clock-from)*int64(i)/int64(n) }

func (s *session) memcpyBatch(n int, from int64) error {
	if n <= 0 {
		return nil
	}
	line := s.batchHead(s.buf[:0], 1, memcpyBatch, "memcpy_event_batch", "", from,
		`"dt_ns","stream_id","duration_ns","bytes","copy_kind","corr_id"`)
	for i := range n {
		bytes := int64(4096) << s.rand.IntN(14)
		line = appendRow(line, i == 0, s.spread(from, i, n)-from, 7, 2000+bytes/20+s.rand.Int64N(1000),
			bytes, pick[int64](s.rand, 1, 1, 1, 2, 8), int64(s.corr))
		s.nextCorr()
	}
	s.buf = append(line, "]}\n"...)
	s.others.memcpys += n
	s.counts.Memcpys += int64(n)
	return s.write(device, s.buf, int64(n), 0)
}

// scopeBatch ends n scopes, and begins those that are needed for it: a step holds eight scopes.
func (s *session) scopeBatch(n int, from int64, last bool) error {
	o := &s.others
	if last {
		n = max(n, len(o.open)) // open scopes end with the session
	}
	if n <= 0 {
		return nil
	}
	line := s.batchHead(s.buf[:0], 3, scopeBatch, "scope_event_batch", "", from,
		`"dt_ns","scope_instance_id","name_id","event_type","depth","repeat","warmup","original_start_ns"`)
	rows, first, width := 0, o.pairs, s.clock-from
	at := func() int64 { return from + min(width, width*int64(rows)/int64(2*n+2)) }
	begin := func() {
		o.instance++
		name := int64(2) // step
		if len(o.open) > 0 {
			name = 3 + o.instance%int64(len(leaves)-2)
		}
		sc := openScope{o.instance, name, at() + s.rand.Int64N(1000)}
		line = appendRow(line, rows == 0, sc.begin-from, sc.instance, sc.name, 0, int64(len(o.open)), 0, 0, sc.begin)
		o.open = append(o.open, sc)
		rows++
	}
	for o.pairs-first < n {
		ended := o.pairs - first
		// One pair in nine is a step. The session's last pair must close what is open.
		left := n - ended
		switch {
		case len(o.open) == 0:
			begin()
			if left > 1 || !last {
				begin()
			}
		case len(o.open) == 1 && (o.pairs+1)%9 != 0 && !(last && left == 1):
			begin()
		}
		sc := o.open[len(o.open)-1]
		o.open = o.open[:len(o.open)-1]
		end := max(at(), sc.begin+1) + s.rand.Int64N(1000)
		line = appendRow(line, rows == 0, end-from, sc.instance, sc.name, 1, int64(len(o.open)), 0, 0, sc.begin)
		rows++
		o.pairs++
	}
	s.buf = append(line, "]}\n"...)
	s.counts.ScopePairs += int64(n)
	return s.write(scope, s.buf, int64(rows), 0)
}

func (s *session) pcBatch(n int, from int64) error {
	if n <= 0 {
		return nil
	}
	line := s.batchHead(s.buf[:0], 1, profileBatch, "profile_sample_batch", "", from,
		`"dt_ns","corr_id","device_id","function_id","pc_offset","metric_id","metric_value","stall_reason","sample_kind","scope_name_id",`+
			`"source_file_id","source_line"`)
	for i := range n {
		h := s.others.hotspots[s.others.pcs.Uint64()]
		reason := h.reason
		if s.rand.IntN(3) == 0 {
			reason = min(s.rand.Int64N(int64(len(stalls))), s.rand.Int64N(int64(len(stalls))))
		}
		samples := 1 + int64(s.rand.ExpFloat64()*6)
		s.counts.PCSamples += samples
		line = appendRow(line, i == 0, s.spread(from, i, n)-from, 0, 0, h.function, h.offset, reason+1, samples, reason+20, 0,
			3+h.function%int64(len(leaves)-2), h.function, h.line)
	}
	s.buf = append(line, "]}\n"...)
	s.others.pcRows += n
	s.counts.PCRows += int64(n)
	return s.write(scope, s.buf, int64(n), 0)
}

// ticks is how many samples the client's sampler puts into a batch.
const ticks = 4

func (s *session) metricBatches(n int, from int64) error {
	for i := 0; i < n; i += ticks {
		if err := s.metricBatch(i, min(i+ticks, n), n, from); err != nil {
			return err
		}
	}
	return nil
}

// metricBatch writes samples i to j of the n that are due: a batch of the device's and one of the host's.
func (s *session) metricBatch(i, j, n int, from int64) error {
	o := &s.others
	base := s.spread(from, i, n)
	var hosts [ticks][4]int64
	line := s.batchHead(s.buf[:0], 1, deviceBatch, "device_metric_batch", "", base,
		`"dt_ns","device_id","gpu_util","mem_util","temp_c","power_mw","used_mib","total_mib","clock_sm",`+
			`"fan_speed_pct","temp_mem_c","temp_junction_c","voltage_mv","energy_uj","clock_mem","pcie_bw_bps","ecc_corrected","ecc_uncorrected"`)
	for k := i; k < j; k++ {
		dt := s.spread(from, k, n) - base
		o.util = walk(s.rand, o.util)
		o.cpu = walk(s.rand, o.cpu)
		power := int64(150_000 + 500_000*o.util + 2000*s.rand.NormFloat64())
		o.energyUJ += power * (s.clock - from) / int64(n) / 1_000_000
		line = appendRow(line, k == i, dt, 0, int64(100*o.util), int64(60*o.util), int64(45+30*o.util),
			power, 61_440+int64(64*o.cpu), 81_559, 1980-15*int64(8*o.util),
			0, int64(50+35*o.util), 0, 0, o.energyUJ, 2619, int64(20e9*o.util)+s.rand.Int64N(1e6), 0, 0)
		hosts[k-i] = [4]int64{dt, int64(10_000 * o.cpu), 51_200 + int64(2048*o.cpu), 262_144}
	}
	s.buf = append(line, "]}\n"...)
	if err := s.write(system, s.buf, int64(j-i), 0); err != nil {
		return err
	}
	line = s.batchHead(s.buf[:0], 1, hostBatch, "host_metric_batch", `,"hostname":"`+Host+`","ip_addr":"192.0.2.10"`, base,
		`"dt_ns","cpu_pct_x100","ram_used_mib","ram_total_mib"`)
	for k := range j - i {
		line = appendRow(line, k == 0, hosts[k][:]...)
	}
	s.buf = append(line, "]}\n"...)
	o.samples += j - i
	s.counts.HostRows += int64(j - i)
	s.counts.DeviceRows += int64(j - i)
	return s.write(system, s.buf, int64(j-i), 0)
}

// walk moves x by a step of about 2 % and keeps it between 0.05 and 1.
func walk(r *rand.Rand, x float64) float64 { return min(1, max(0.05, x+0.02*r.NormFloat64())) }
