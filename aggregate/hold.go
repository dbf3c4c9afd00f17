package aggregate

import (
	"time"

	"github.com/warpline/warpline/aggregate/state"
)

// A rollup row costs ClickHouse ten times as much as a raw row, so rollup rows must stay few. A session that sends much fills its
// accumulators within one chunk, and they are written with it. Thousands of sessions that send little would make a rollup row for nearly
// every raw row. Their rollups are held back for a while, the longer the more sessions there are, and until then are part of the published
// state.

const (
	// minHold and maxHold bound how long rollups of sparse sessions wait. holdPerSession is what each session of the chunk adds: a
	// partition with some 270 busy sessions waits the longest.
	minHold        = time.Second
	maxHold        = 4 * time.Second
	holdPerSession = 15 * time.Millisecond
)

// holdFor is how long sparse sessions wait when a chunk touches n sessions.
func (f *Fold) holdFor(n int) time.Duration {
	if f.Config.Hold != 0 {
		return f.Config.Hold
	}
	return min(max(time.Duration(n)*holdPerSession, minHold), maxHold)
}

// ripe reports whether the session's held rollups should go out with the open chunk.
func (f *Fold) ripe(s *Session, now int64, hold time.Duration) bool {
	if s.awaitsNames() {
		f.AwaitNames(s)
		return false
	}
	if s.heldSince != 0 && now-s.heldSince >= int64(hold) {
		return true
	}
	if _, ending := f.closing[s]; ending || s.Delta.lifecycle() {
		return true
	}
	for _, st := range s.states {
		if st != nil && st.Dense() {
			return true
		}
	}
	return false
}

// awaitsNames reports whether rollups are held until the session's names are loaded, after a takeover. A row that is written without its
// name would stay without it: only late names are looked up at read, not names that came before the row.
func (s *Session) awaitsNames() bool { return s.nameless() && s.load().Rollups > 0 }

// lifecycle reports whether people wait to see it: the session began or ended.
func (d *sessionDelta) lifecycle() bool { return d.startedAt != 0 || d.endReason != "" }

// releaseHeld touches the sessions whose time has come, so that their rollups are in the next chunk.
func (f *Fold) releaseHeld(now int64) {
	for s := range f.held {
		if now-s.heldSince >= int64(f.hold) && !s.awaitsNames() {
			f.Touch(s)
		}
	}
}

func (d *sessionDelta) append(w *state.Writer) {
	for _, v := range []uint64{d.Kernels, d.Samples, d.events, d.bytes, d.Rejects, d.duplicates} {
		w.U64(v)
	}
	for _, v := range []int64{d.firstEvent, d.lastEvent, d.startedAt, d.endedAt, int64(d.Segment)} {
		w.I64(v)
	}
	for _, v := range []string{d.endReason, d.RunID, d.Kind, d.Engine} {
		w.Str(v)
	}
	w.Bool(d.HasSegment)
	w.Bool(d.Crashed)
}

func (d *sessionDelta) read(r *state.Reader) {
	for _, v := range []*uint64{&d.Kernels, &d.Samples, &d.events, &d.bytes, &d.Rejects, &d.duplicates} {
		*v = r.U64()
	}
	for _, v := range []*int64{&d.firstEvent, &d.lastEvent, &d.startedAt, &d.endedAt} {
		*v = r.I64()
	}
	d.Segment = int32(r.I64())
	for _, v := range []*string{&d.endReason, &d.RunID, &d.Kind, &d.Engine} {
		*v = r.Str()
	}
	d.HasSegment, d.Crashed = r.Bool(), r.Bool()
}
