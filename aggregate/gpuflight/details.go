package gpuflight

import (
	"cmp"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/activity"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
)

// The join of kernel rows and kernel_detail lines by corr_id. The client writes a batch and right after it one detail per row,
// in the same order, so rows nearly always wait a few microseconds; but a window may end between the two, windows may come in
// any order, and either half may be lost.
//
//   - A row with has_details waits. After Config.RawWait its raw row goes out without a configuration; after Config.DetailWait
//     its rollup goes out without a scope.
//     - A detail without a waiting row waits in early. After Config.DetailWait, and whenever its row was written before it, it
//     becomes a row of kernel_details, which the view `kernels` joins at read.

// waiting holds rows in the order they came. Details come in the same order, so the next match is nearly always at hint; only
// when it is not, the rows are indexed.
type waiting struct {
	rows  []kernelRow
	live  int
	head  int // every row before it is dead
	hint  int
	index map[uint32]int32 // built on the first miss, dropped when all rows are gone
	dirty bool             // changed since the last published state
}

// earlyDetail is a detail without its kernel row.
type earlyDetail struct {
	config  uint32
	heldAt  int64
	written bool // it is in kernel_details already
}

func (w *waiting) add(k kernelRow) {
	w.dirty = true
	if w.head > maxWaiting && w.head > len(w.rows)/2 { // many dead rows are at the front: give their room back
		w.rows = w.rows[:copy(w.rows, w.rows[w.head:])]
		w.head, w.hint, w.index = 0, 0, nil
	}
	w.rows = append(w.rows, k)
	w.live++
	if w.index != nil {
		if _, ok := w.index[k.Corr]; !ok {
			w.index[k.Corr] = int32(len(w.rows) - 1)
		}
	}
}

// take removes and returns the row with this corr id. The pointer is valid until the next add.
func (w *waiting) take(corr uint32) *kernelRow {
	if w.live == 0 {
		return nil
	}
	at := w.hint
	for at < len(w.rows) && w.rows[at].dead {
		at++
	}
	if at >= len(w.rows) || w.rows[at].Corr != corr {
		if w.index == nil {
			w.index = make(map[uint32]int32, w.live)
			for i := range w.rows {
				if k := &w.rows[i]; !k.dead {
					if _, ok := w.index[k.Corr]; !ok {
						w.index[k.Corr] = int32(i)
					}
				}
			}
		}
		i, ok := w.index[corr]
		if !ok || w.rows[i].dead {
			return nil
		}
		at = int(i)
	}
	w.hint = at + 1
	k := &w.rows[at]
	w.drop(k)
	return k
}

// drop frees a row's slot; the row itself stays readable until the next add.
func (w *waiting) drop(k *kernelRow) {
	w.dirty = true
	k.dead = true
	if w.index != nil {
		delete(w.index, k.Corr)
	}
	if w.live--; w.live == 0 {
		w.rows, w.head, w.hint, w.index = w.rows[:0], 0, 0, nil
	}
}

// each calls f for the waiting rows in order of arrival, then closes the gaps.
func (w *waiting) each(f func(*kernelRow)) {
	for i := range w.rows {
		if !w.rows[i].dead {
			f(&w.rows[i])
		}
		if w.live == 0 {
			return
		}
	}
	w.rows = slices.DeleteFunc(w.rows, func(k kernelRow) bool { return k.dead })
	w.head, w.hint, w.index = 0, 0, nil
}

// joinKernel emits a row whose detail came before it, or lets it wait.
func (f *folding) joinKernel(s *session, emit activity.KernelEmitter, k kernelRow) {
	if len(s.early) > 0 {
		if d, ok := s.early[k.Corr]; ok {
			delete(s.early, k.Corr)
			s.earlyDirty = true
			if !d.written {
				s.unwritten--
			}
			scope := s.configScope(d.config)
			emit.Add(&k.Kernel, d.config, scope)
			return
		}
	}
	if s.waiting.live >= maxWaiting {
		f.giveUp(s, &s.waiting.rows[s.waiting.first()])
	}
	s.waiting.add(k)
	f.waitingSessions[s] = struct{}{}
}

// first returns the oldest waiting row; there must be one. It never looks at a dead row twice.
func (w *waiting) first() int {
	for w.rows[w.head].dead {
		w.head++
	}
	return w.head
}

// giveUp sends a row on without its detail.
func (f *folding) giveUp(s *session, k *kernelRow) {
	if !k.emitted {
		e := s.kernels.Emitter(k.receivedAt, k.retentionDays)
		e.Row(&k.Kernel, 0)
	}
	s.kernels.Acc(s.kernels.Slot(k.ID), 0, rows.BucketOf(k.Start)).Add(uint64(k.Duration))
	s.waiting.drop(k)
	f.Touch(s.Session)
}

// detail folds one kernel_detail line. It reports false when the line has to take the slow path (another key order, or bad).
func (f *folding) detail(s *session, p *aggregate.Part, line []byte) bool {
	corr, tail, ok := gpuflight.DetailKey(line)
	if !ok {
		return false
	}
	hash := xxh3.Hash128(tail)
	config, known := s.configs[hash]
	if !known {
		d, err := gpuflight.DecodeDetail(line)
		if err != nil {
			return false
		}
		config = f.newConfig(s, p, hash, &d)
		f.detailLeftovers(s, p, line)
	}
	p.Received(1)
	f.applyDetail(s, p, corr, config)
	return true
}

// applyDetail joins a configuration to the kernel of a corr id, once per corr id.
func (f *folding) applyDetail(s *session, p *aggregate.Part, corr uint32, config launchConfig) {
	if !s.details.CheckedAdd(corr) {
		p.Duplicate(1)
		return
	}
	s.freshDetails = append(s.freshDetails, corr)
	p.Stored(1)
	if k := s.waiting.take(corr); k != nil {
		if k.emitted {
			f.lateDetail(s, corr, config.id, k.receivedAt, k.retentionDays)
			s.kernels.Acc(s.kernels.Slot(k.ID), config.scope, rows.BucketOf(k.Start)).Add(uint64(k.Duration))
		} else {
			emit := &f.emitter // the same session and part as the line before, nearly always
			if f.emitterSerial != f.OutSerial || !emit.IsFor(&s.kernels, k.receivedAt) {
				*emit = s.kernels.Emitter(k.receivedAt, k.retentionDays)
				f.emitterSerial = f.OutSerial
			}
			emit.Add(&k.Kernel, config.id, config.scope)
		}
		return
	}
	if s.early == nil {
		s.early = map[uint32]earlyDetail{}
	}
	if len(s.early) >= maxEarly {
		f.dropEarly(s)
	}
	s.early[corr] = earlyDetail{config: config.id, heldAt: p.Now}
	s.unwritten++
	s.earlyDirty = true
	f.waitingSessions[s] = struct{}{}
}

// dropEarly writes the older half of the early details to kernel_details and forgets them.
func (f *folding) dropEarly(s *session) {
	type entry struct {
		corr uint32
		at   int64
	}
	all := make([]entry, 0, len(s.early))
	for corr, d := range s.early {
		all = append(all, entry{corr, d.heldAt})
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.corr, b.corr)) })
	for _, e := range all[:len(all)/2] {
		f.writeEarly(s, e.corr)
		delete(s.early, e.corr)
	}
	s.earlyDirty = true
}

// writeEarly makes an early detail a row of kernel_details, once.
func (f *folding) writeEarly(s *session, corr uint32) {
	d := s.early[corr]
	if d.written {
		return
	}
	f.lateDetail(s, corr, d.config, s.LastReceived, s.RetentionDays)
	d.written = true
	s.unwritten--
	s.early[corr] = d
	s.earlyDirty = true
}

// lateDetail writes a row of kernel_details. It is of no use without the kernel's own row.
func (f *folding) lateDetail(s *session, corr, config uint32, receivedAt int64, days uint16) {
	f.Touch(s.Session)
	if s.NoRaw {
		return
	}
	t := &table.KernelDetails
	b := f.Out.Batch(t.Table, rows.RawDayPartition(receivedAt, days))
	t.Tenant.AppendString(b, s.Key.Tenant)
	t.SessionID.AppendString(b, s.Key.ID)
	t.CorrID.Append(b, corr)
	t.ConfigID.Append(b, config)
	t.ReceivedAt.Append(b, receivedAt)
	f.Out.Saw(receivedAt)
}

// newConfig writes a launch configuration that is new to the session.
func (f *folding) newConfig(s *session, p *aggregate.Part, hash xxh3.Uint128, d *gpuflight.Detail) launchConfig {
	if s.configs == nil || len(s.configs) >= maxConfigs {
		s.configs, s.configByID = map[xxh3.Uint128]launchConfig{}, map[uint32]int32{}
		s.freshConfigs = s.freshConfigs[:0]
	}
	if s.NextConfig == 0 {
		s.NextConfig = activity.FirstID(p.Env.ReceivedAt)
	}
	s.NextConfig++
	c := launchConfig{id: s.NextConfig, scope: s.kernels.Scope(d.ScopePath())}
	s.configs[hash] = c
	s.configByID[c.id] = c.scope
	s.freshConfigs = append(s.freshConfigs, hash)

	t := &table.LaunchConfigs
	b := f.Out.Batch(t.Table, rows.FactDayPartition(p.Env.ReceivedAt, rows.FactDays(p.Env.RetentionDays, p.Env.RollupDays)))
	t.Tenant.AppendString(b, s.Key.Tenant)
	t.SessionID.AppendString(b, s.Key.ID)
	t.ConfigID.Append(b, c.id)
	t.Grid.AppendString(b, d.Grid)
	t.Block.AppendString(b, d.Block)
	t.StaticSharedBytes.Append(b, rows.ClampU32(d.StaticSharedBytes))
	t.LocalBytes.Append(b, rows.ClampU32(d.LocalBytes))
	t.ConstBytes.Append(b, rows.ClampU32(d.ConstBytes))
	t.Occupancy.Append(b, float32(d.Occupancy))
	t.RegOccupancy.Append(b, float32(d.RegOccupancy))
	t.SmemOccupancy.Append(b, float32(d.SmemOccupancy))
	t.WarpOccupancy.Append(b, float32(d.WarpOccupancy))
	t.BlockOccupancy.Append(b, float32(d.BlockOccupancy))
	t.LimitingResource.AppendString(b, d.LimitingResource)
	t.MaxActiveBlocks.Append(b, rows.ClampU32(d.MaxActiveBlocks))
	t.LocalMemTotalBytes.Append(b, uint64(max(d.LocalMemTotalBytes, 0)))
	t.LocalMemPerThreadBytes.Append(b, rows.ClampU32(d.LocalMemPerThread))
	t.CacheConfigRequested.Append(b, uint8(d.CacheConfigRequested))
	t.CacheConfigExecuted.Append(b, uint8(d.CacheConfigExecuted))
	t.SharedMemExecutedBytes.Append(b, rows.ClampU32(d.SharedMemExecuted))
	t.UserScope.Append(b, d.UserScope)
	t.StackTrace.Append(b, d.StackTrace)
	t.ReceivedDay.Append(b, rows.DayOf(p.Env.ReceivedAt))
	return c
}

// configScope returns the scope of a configuration, 0 when it was forgotten.
func (s *session) configScope(id uint32) int32 { return s.configByID[id] }
