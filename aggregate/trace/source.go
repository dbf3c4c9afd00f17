// Package trace folds Chrome traces, above all those of PyTorch's profiler: a row for each slice, counter and end of an arrow, sums by
// name, and GPU Flight's rows for kernels, copies, memsets, waits, allocations, annotations and devices.
//
// Start with Source. Parts say all that their rows need, so nothing waits here for another part; what is kept of a session is which parts
// were folded.
package trace

import (
	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/activity"
	"github.com/warpline/warpline/proto/kineto"
	"github.com/warpline/warpline/proto/stream"
)

// Source is traces, for aggregate.Config.Sources.
func Source() aggregate.Source {
	return aggregate.Source{Name: "trace", Version: 1, Kinds: []stream.Kind{stream.KindTrace}, Reasons: []string{BadPart}, Open: open}
}

// BadPart is the reason of parts that this version cannot read.
const BadPart = "bad_part"

// shared is the partition's fold, which all sources share.
type shared = aggregate.Fold

// folding folds the traces of a partition.
type folding struct {
	*shared
	pool activity.KernelPool
	free []*statAcc

	part    kineto.Part // scratch, as all that follows
	details kineto.Details
	texts   []textAt
	key     []byte
}

func open(f *aggregate.Fold) aggregate.Folding {
	return &folding{shared: f, pool: activity.KernelPool{Fold: f}}
}

// New makes what is kept of a session.
func (f *folding) New(a *aggregate.Session) aggregate.State {
	s := &session{Session: a, f: f}
	s.kernels.Begin(a, &f.pool)
	s.kernels.NamedBy(func(id uint32) string { return s.kernelNames[id] })
	return s
}

// Fold folds a piece of a trace. The gateway has read its events; what cannot be read here was damaged since.
func (f *folding) Fold(st aggregate.State, p *aggregate.Part, body []byte) {
	s := st.(*session)
	if err := f.part.Decode(body); err != nil {
		n := max(1, p.Env.Events)
		p.Received(n)
		f.Reject(p, aggregate.Reject{Reason: BadPart, Detail: err.Error() + ": upgrade the workers", Events: n, Payload: body})
		return
	}
	in := &f.part
	n := in.Elements()
	p.Received(n)
	if !s.parts.add(p.Env.Identity, uint64(in.Index)) {
		p.Duplicate(n)
		return
	}
	f.describe(s, p, in)
	f.texts = f.texts[:0]
	f.texts = append(f.texts, make([]textAt, len(in.Texts))...)
	f.slices(s, p, in)
	f.besides(s, p, in)
	f.activity(s, p, in)
	f.stats(s, in)
	p.Stored(n)
	f.Out.Saw(p.Env.ReceivedAt)
}

// Tick trims what is kept for reuse.
func (f *folding) Tick(now int64) { f.pool.Trim(now) }
