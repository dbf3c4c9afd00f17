// Package intrakernel folds captures of intra-kernel profilers: a row for each time that a warp was in a region, and sums by region and
// block.
package intrakernel

import (
	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/state"
	"github.com/warpline/warpline/proto/intrakernel"
	"github.com/warpline/warpline/proto/stream"
)

// Source is captures of intra-kernel profilers, for aggregate.Config.Sources.
func Source() aggregate.Source {
	return aggregate.Source{
		Name: "intra-kernel", Version: 1, Kinds: []stream.Kind{stream.KindIntraKernel}, Reasons: []string{BadPart}, Open: open,
	}
}

// BadPart is the reason of parts that this version cannot read.
const BadPart = "bad_part"

// shared is the partition's fold, which all sources share.
type shared = aggregate.Fold

// folding folds the captures of a partition.
type folding struct {
	*shared
	part   intrakernel.Part // scratch
	called []called         // scratch: of the regions of a part, in a batch
}

func open(f *aggregate.Fold) aggregate.Folding { return &folding{shared: f} }

// session is what is kept of a session: sums of the open chunk alone. What was folded before is in the core's memory of parts.
type session struct {
	*aggregate.Session
	f    *folding
	sums sums
}

// New makes what is kept of a session.
func (f *folding) New(s *aggregate.Session) aggregate.State { return &session{Session: s, f: f} }

// Fold folds a piece of a capture. The gateway has paired its records; what cannot be read here was damaged since.
func (f *folding) Fold(s aggregate.State, p *aggregate.Part, body []byte) {
	if err := f.part.Decode(body); err != nil {
		n := max(1, p.Env.Events)
		p.Received(n)
		f.Reject(p, aggregate.Reject{Reason: BadPart, Detail: err.Error() + ": upgrade the workers", Events: n, Payload: body})
		return
	}
	f.regions(s.(*session), p, &f.part)
}

// Tick has nothing to do: nothing waits.
func (f *folding) Tick(int64) {}

// Dense is false: sums are not held back.
func (s *session) Dense() bool { return false }

// Append writes nothing: no row depends on what came before.
func (s *session) Append(*state.Writer, bool) {}

// Size is 0.
func (s *session) Size(bool) int { return 0 }

// Read has nothing to read.
func (s *session) Read(uint64, *state.Reader) {}

// Published has nothing to note.
func (s *session) Published() {}

// Resume has nothing to resume.
func (s *session) Resume(int64, bool) {}

// Load is empty.
func (s *session) Load() aggregate.Load { return aggregate.Load{} }

// Rest has nothing to give back.
func (s *session) Rest(bool) {}

// Close has nothing to say.
func (s *session) Close() {}

// Drop forgets the sums.
func (s *session) Drop() { s.sums = sums{} }
