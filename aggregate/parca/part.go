package parca

import (
	"strconv"
	"strings"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/activity"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/parca"
)

// part folds the rows of one process from one batch.
func (f *folding) part(s *session, p *aggregate.Part, in *parca.Part) {
	outside(p, in)
	n := uint64(len(in.PC) + len(in.Kernels))
	p.Received(n)
	f.now.begin(len(in.Strings), len(in.Stacks))
	f.demangled.work = 0
	s.names.tick++
	s.written.tick++
	s.describe(&in.Process)
	s.saw(in)
	f.samples(s, p, in)
	f.kernels(s, p, in)
	f.launched(s, p, in)
	refused := f.refuse(s, p, in.Refused)
	s.label(&in.Process, p.Env.ReceivedAt, n+refused)
	p.Stored(n)
	f.Out.Saw(p.Env.ReceivedAt)
}

// describe keeps what the session's row says of the process.
func (s *session) describe(process *parca.Process) {
	set := func(to *string, v string) {
		if v != "" && *to != v {
			*to = strings.Clone(rows.Clip(v)) // texts of a part hold all of its body
		}
	}
	set(&s.App, process.Comm)
	set(&s.Host, process.Node)
	if pid, err := strconv.ParseUint(process.PID, 10, 32); err == nil {
		s.PID = uint32(pid)
	}
	s.Vendor = "NVIDIA"
}

// saw widens the session's event time.
func (s *session) saw(in *parca.Part) {
	low, high := int64(0), int64(0)
	note := func(at int64) {
		if at >= rows.PlausibleEpoch && (low == 0 || at < low) {
			low = at
		}
		high = max(high, at)
	}
	for i := range in.PC {
		note(in.PC[i].At)
	}
	for i := range in.Kernels {
		note(in.Kernels[i].At)
	}
	s.Delta.SawEvent(low)
	s.Delta.SawEvent(high)
}

// kernels writes the part's kernels and adds them up.
func (f *folding) kernels(s *session, p *aggregate.Part, in *parca.Part) {
	if len(in.Kernels) == 0 {
		return
	}
	emit := s.kernels.Emitter(p.Env.ReceivedAt, p.Env.RetentionDays)
	for i := range in.Kernels {
		r := &in.Kernels[i]
		emit.Add(&activity.Kernel{
			ID: f.kernelID(s, p, &emit, in.Strings, r.Function), Start: r.At, Duration: int64(r.DurationNS), Stream: r.StreamID,
			Corr: r.CorrID, Device: r.Device,
		}, 0, 0)
	}
	s.Delta.Kernels += uint64(len(in.Kernels))
}
