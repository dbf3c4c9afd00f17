package trace

import (
	"math"
	"strconv"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/proto/chrometrace"
	"github.com/warpline/warpline/proto/kineto"
	"github.com/warpline/warpline/sink/table"
	tracetable "github.com/warpline/warpline/sink/table/trace"
)

// textAt is where a text of the part is in the columns that have it: its index plus 1, 0 unknown.
type textAt struct {
	name, category, pid, tid, track int32
	// sum is its number among the session's sums, acc the accumulator of the slice before with that name.
	sum uint32
	acc *statAcc
}

// index returns the index of a text in a column; at remembers it.
func index(b *table.Batch, col table.DictCol, at *int32, text []byte) int32 {
	if *at == 0 {
		*at = col.IndexBytes(b, text) + 1
	}
	return *at - 1
}

// slices writes the slices and instants of a part, column by column.
func (f *folding) slices(s *session, p *aggregate.Part, in *kineto.Part) {
	if s.NoRaw {
		return
	}
	t := &tracetable.Slices
	b := f.Out.Batch(t.Table, p.Raw)
	var phases, kinds [32]int32
	at, took, phase, kind := t.StartedAt.Slice(b), t.DurationNS.Slice(b), t.Phase.Slice(b), t.Kind.Slice(b)
	category, name, pid, tid, track := t.Category.Slice(b), t.Name.Slice(b), t.PID.Slice(b), t.TID.Slice(b), t.Track.Slice(b)
	device, stream, correlation, external := t.DeviceID.Slice(b), t.StreamID.Slice(b), t.Correlation.Slice(b), t.ExternalID.Slice(b)
	n := 0
	for i := range in.Events {
		e := &in.Events[i]
		if !e.Phase.Slice() {
			continue
		}
		n++
		if phases[e.Phase] == 0 {
			phases[e.Phase] = t.Phase.Index(b, e.Phase.String()) + 1
		}
		if kinds[e.Kind] == 0 {
			kinds[e.Kind] = t.Kind.Index(b, e.Kind.String()) + 1
		}
		*at, *took = append(*at, e.Start), append(*took, uint64(e.Duration))
		*phase, *kind = append(*phase, phases[e.Phase]-1), append(*kind, kinds[e.Kind]-1)
		*category = append(*category, index(b, t.Category, &f.texts[e.Category].category, in.Texts[e.Category]))
		*name = append(*name, index(b, t.Name, &f.texts[e.Name].name, in.Texts[e.Name]))
		*pid = append(*pid, index(b, t.PID, &f.texts[e.PID].pid, in.Texts[e.PID]))
		*tid = append(*tid, index(b, t.TID, &f.texts[e.TID].tid, in.Texts[e.TID]))
		*track = append(*track, index(b, t.Track, &f.texts[e.Track].track, in.Texts[e.Track]))
		*device, *stream = append(*device, e.Device), append(*stream, e.Stream)
		*correlation, *external = append(*correlation, e.Correlation), append(*external, e.External)
		t.Args.AppendBytes(b, e.Args)
	}
	t.Tenant.AppendN(b, t.Tenant.Index(b, s.Key.Tenant), n)
	t.SessionID.AppendN(b, t.SessionID.Index(b, s.Key.ID), n)
	t.ReceivedAt.AppendN(b, p.Env.ReceivedAt, n)
}

// besides writes the counters and the ends of arrows of a part. They are few beside the slices of a part, but for those of launches.
func (f *folding) besides(s *session, p *aggregate.Part, in *kineto.Part) {
	if s.NoRaw {
		return
	}
	var counters, ends *table.Batch
	for i := range f.texts { // what slices have found is of their table
		f.texts[i] = textAt{}
	}
	for i := range in.Events {
		switch e := &in.Events[i]; e.Phase {
		case kineto.Counter:
			if counters == nil {
				counters = f.Out.Batch(tracetable.Counters.Table, p.Raw)
			}
			f.counter(s, p, in, e, counters)
		case kineto.FlowStart, kineto.FlowStep, kineto.FlowEnd:
			if ends == nil {
				ends = f.Out.Batch(tracetable.FlowEnds.Table, p.Raw)
			}
			f.flowEnd(s, p, in, e, ends)
		}
	}
}

func (f *folding) flowEnd(s *session, p *aggregate.Part, in *kineto.Part, e *kineto.Event, b *table.Batch) {
	t := &tracetable.FlowEnds
	t.Tenant.AppendString(b, s.Key.Tenant)
	t.SessionID.AppendString(b, s.Key.ID)
	t.Category.Append(b, index(b, t.Category, &f.texts[e.Category].category, in.Texts[e.Category]))
	t.Name.Append(b, index(b, t.Name, &f.texts[e.Name].name, in.Texts[e.Name]))
	t.FlowID.Append(b, e.Correlation)
	t.Phase.AppendString(b, e.Phase.String())
	t.At.Append(b, e.Start)
	t.PID.Append(b, index(b, t.PID, &f.texts[e.PID].pid, in.Texts[e.PID]))
	t.TID.Append(b, index(b, t.TID, &f.texts[e.TID].tid, in.Texts[e.TID]))
	t.SliceName.Append(b, index(b, t.SliceName, &f.texts[e.Track].track, in.Texts[e.Track]))
	t.SliceDurationNS.Append(b, uint64(e.Duration))
	t.ReceivedAt.Append(b, p.Env.ReceivedAt)
}

// counter writes the values of a counter: those of its args that are numbers.
func (f *folding) counter(s *session, p *aggregate.Part, in *kineto.Part, e *kineto.Event, b *table.Batch) {
	t := &tracetable.Counters
	chrometrace.EachMember(e.Args, func(key, v []byte) {
		if n := len(v); n > 2 && v[0] == '"' {
			v = v[1 : n-1]
		}
		value, err := strconv.ParseFloat(string(v), 64)
		if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
			return
		}
		t.Tenant.AppendString(b, s.Key.Tenant)
		t.SessionID.AppendString(b, s.Key.ID)
		t.At.Append(b, e.Start)
		t.Category.AppendString(b, string(in.Texts[e.Category]))
		t.Name.AppendString(b, string(in.Texts[e.Name]))
		t.PID.AppendString(b, string(in.Texts[e.PID]))
		t.TID.AppendString(b, string(in.Texts[e.TID]))
		t.Series.AppendString(b, chrometrace.Text(key))
		t.Value.Append(b, value)
		t.ReceivedAt.Append(b, p.Env.ReceivedAt)
	})
}
