package trace

import (
	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/activity"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/aggregate/state"
	"github.com/warpline/warpline/proto/kineto"
	"github.com/warpline/warpline/sink/table"
)

// session is what is kept of a session: which parts were folded. All else is of the open chunk, or written again by a successor under ids
// of its own.
type session struct {
	*aggregate.Session
	f     *folding
	parts parts

	kernels     activity.Kernels
	minutes     activity.Minutes
	sums        sums
	kernelNames map[uint32]string // of the open chunk
	configs     map[string]uint32 // ids of launch configurations that this owner has written, by grid and block
}

// describe keeps what the session's row says of the trace. The first part has what is said once, the last ends the session.
func (f *folding) describe(s *session, p *aggregate.Part, in *kineto.Part) {
	set := func(to *string, v string) {
		if v != "" && *to != v {
			*to = rows.Clip(v)
		}
	}
	set(&s.App, in.Job)
	set(&s.Host, in.Host)
	set(&s.Vendor, in.Vendor)
	s.Delta.RunID = rows.Clip(in.Job)
	s.Place, s.WorldSize = uint32(in.Rank+1), uint32(in.WorldSize)
	low, high := int64(0), int64(0)
	for i := range in.Events {
		e := &in.Events[i]
		if e.Start < rows.PlausibleEpoch {
			continue
		}
		if low == 0 || e.Start < low {
			low = e.Start
		}
		high = max(high, e.Start)
		if e.Phase.Slice() {
			high = max(high, e.Start+e.Duration)
		}
	}
	s.Delta.SawEvent(low)
	s.Delta.SawEvent(high)
	if in.Index == 0 {
		f.devices(s, p, in)
	}
	if in.Last {
		end := aggregate.SessionEnd{Rank: table.EndCompleted}
		if !in.Complete {
			end.Rank = table.EndIncomplete
		}
		f.Tell(p, end)
	}
}

// devices writes what GPUs there are.
func (f *folding) devices(s *session, p *aggregate.Part, in *kineto.Part) {
	for _, d := range in.Devices {
		known := false
		for _, id := range s.DeviceIDs {
			known = known || id == d.ID
		}
		if known {
			continue
		}
		f.AddDevice(p, &aggregate.Device{
			ID: d.ID, Name: d.Name, Vendor: in.Vendor, Multiprocessors: d.Multiprocessors, TotalBytes: d.TotalBytes, ComputeMajor: d.Major,
			ComputeMinor: d.Minor, SharedMemPerBlockBytes: d.SharedPerBlock, RegsPerBlock: d.RegistersPerBlock, WarpSize: d.WarpSize,
		})
	}
}

// Flush writes the sums. None are held back: a trace fills its sums within a chunk.
func (s *session) Flush(bool) {
	s.kernels.Flush()
	s.minutes.Flush(s.f.shared, s.Session)
	s.flushStats()
	clear(s.kernelNames)
}

// Dense is true: a chunk has the session's row, since what it says of the trace is in no state.
func (s *session) Dense() bool { return true }

// Append writes which parts were folded.
func (s *session) Append(w *state.Writer, full bool) { s.parts.append(w, full) }

// Size estimates what Append writes.
func (s *session) Size(full bool) int { return s.parts.size(full) }

// Read takes the place of what was known.
func (s *session) Read(_ uint64, r *state.Reader) { s.parts.read(r) }

// Published says that the parts are in a published state.
func (s *session) Published() {
	s.parts.dirty = false
	s.kernels.Published()
	s.minutes.Published()
}

// Resume lets launches be written again: which ones were is not in the state.
func (s *session) Resume(int64, bool) { s.Rest(true) }

// Load says what is kept.
func (s *session) Load() aggregate.Load {
	return aggregate.Load{Index: s.kernels.IndexBytes() + 64*len(s.configs)}
}

// Rest frees what can be written again.
func (s *session) Rest(bool) {
	if s.kernels.Held() == 0 {
		s.kernels.Rest()
		s.configs = nil
	}
}

// Close has nothing to say.
func (s *session) Close() {}

// Drop forgets the sums.
func (s *session) Drop() {
	s.kernels.Drop()
	s.minutes = activity.Minutes{}
	s.dropStats()
}
