package aggregate

import (
	"cmp"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/zeebo/xxh3"
)

// Size estimates what Append writes.
func (s *flightSession) Size(full bool) int {
	n := s.lines.size(full) + s.singles.size(full) + 64*s.minutes.count()
	if full {
		if !s.details.IsEmpty() {
			n += int(s.details.GetSerializedSizeInBytes())
		}
		return n + 24*len(s.configs) + 16*len(s.early) + 40*len(s.kernels.dirty) + 40*s.scopes.halves.count + 60*s.waiting.live + s.scopes.kept.size() + int(min(s.artifactRows, 8))
	}
	n += 3*len(s.freshDetails) + 200*len(s.freshConfigs)
	if s.waiting.dirty {
		n += 60 * s.waiting.live
	}
	if s.earlyDirty {
		n += 16 * len(s.early)
	}
	return n + s.scopes.stateSize()
}

// Append writes the section.
func (s *flightSession) Append(w *writer, full bool) {
	s.lines.append(w, full)
	fresh := s.details
	if !full {
		fresh = roaring.BitmapOf(s.freshDetails...)
	}
	bits, err := fresh.ToBytes()
	if err != nil {
		panic("BUG: aggregate: a bitmap does not serialize: " + err.Error())
	}
	w.str(string(bits))

	configs := s.freshConfigs
	if full {
		configs = make([]xxh3.Uint128, 0, len(s.configs))
		for h := range s.configs {
			configs = append(configs, h)
		}
		slices.SortFunc(configs, func(a, b xxh3.Uint128) int { return cmp.Compare(s.configs[a].id, s.configs[b].id) })
	}
	w.n(len(configs))
	for _, h := range configs {
		c := s.configs[h]
		w.hash(h)
		w.u64(uint64(c.id))
		w.str(s.kernels.scopeNames[c.scope])
	}
	w.bool(full || s.waiting.dirty)
	if full || s.waiting.dirty {
		w.n(s.waiting.live)
		for i := range s.waiting.rows {
			if k := &s.waiting.rows[i]; !k.dead {
				k.append(w)
			}
		}
	}
	w.bool(full || s.earlyDirty)
	if full || s.earlyDirty {
		w.n(len(s.early))
		for corr, d := range s.early {
			w.u64(uint64(corr))
			w.u64(uint64(d.config))
			w.i64(d.heldAt)
			w.bool(d.written)
		}
	}
	s.kernels.append(w, full)
	s.singles.append(w, full)
	s.minutes.append(w, full)
	s.scopes.append(w, full)
	s.appendArtifacts(w)
}

// Read adds what Append wrote.
func (s *flightSession) Read(_ uint64, r *reader) {
	s.readLines(r)
	s.readWaiting(r)
	s.kernels.readFlushed(r)
	s.kernels.read(r)
	s.singles.read(r)
	s.minutes.read(r)
	s.scopes.read(r)
	s.readArtifacts(r)
}

// ReadOlder reads what stood in states without sections.
func (s *flightSession) ReadOlder(p Piece, r *reader) {
	switch p {
	case PieceParts:
		s.readLines(r)
	case PieceNames:
		s.readWaiting(r)
		if r.bool() {
			s.scopes.readVersion2(r)
		}
	case PieceFlushed:
		s.kernels.readFlushed(r)
	case PieceHeld:
		s.kernels.read(r)
	case PieceMinutes:
		if r.has(hasSingles) {
			s.singles.read(r)
		}
		if r.has(hasMinutes) {
			s.minutes.read(r)
		}
	case PieceClock:
		if r.has(hasScopes) {
			s.scopes.read(r)
		}
		if r.has(hasArtifacts) {
			s.readArtifacts(r)
		}
	}
}

func (s *flightSession) readLines(r *reader) {
	s.lines.read(r)
	if bits := r.bytes(); len(bits) > 0 {
		var add roaring.Bitmap
		if _, err := add.FromUnsafeBytes(bits); err != nil {
			r.fail()
			return
		}
		s.details.Or(&add)
	}
	for range r.n(18) {
		h, id, scope := r.hash(), r.u32(), r.str()
		if s.configs == nil || len(s.configs) >= maxConfigs {
			s.configs, s.configByID = map[xxh3.Uint128]launchConfig{}, map[uint32]int32{}
		}
		c := launchConfig{id: id, scope: s.kernels.scope(scope)}
		s.configs[h], s.configByID[id] = c, c.scope
	}
}

func (s *flightSession) readWaiting(r *reader) {
	if r.bool() {
		s.waiting = waiting{}
		for range r.n(10) {
			s.waiting.add(readKernelRow(r))
		}
		s.waiting.dirty = false
	}
	if r.bool() {
		s.early, s.unwritten = map[uint32]earlyDetail{}, 0
		for range r.n(4) {
			corr := r.u32()
			d := earlyDetail{config: r.u32(), heldAt: r.i64(), written: r.bool()}
			s.early[corr] = d
			if !d.written {
				s.unwritten++
			}
		}
	}
}

func (k *kernelRow) append(w *writer) {
	w.i64(k.start)
	w.i64(k.duration)
	w.u64(k.stream)
	w.u64(k.externalID)
	w.u64(uint64(k.kernel.kernel))
	w.u64(uint64(k.corr))
	w.u64(uint64(k.dyn))
	w.u64(uint64(k.regs))
	w.u64(uint64(k.externalKind))
	w.bool(k.emitted)
	w.i64(k.receivedAt)
	w.i64(k.heldAt)
	w.u64(uint64(k.retentionDays))
	w.i64(int64(k.device))
}

func readKernelRow(r *reader) kernelRow {
	k := kernelRow{
		kernel: kernel{
			start: r.i64(), duration: r.i64(), stream: r.u64(), externalID: r.u64(), kernel: r.u32(), corr: r.u32(), dyn: r.u32(), regs: r.u32(), externalKind: uint8(r.u64()),
		},
		emitted: r.bool(), receivedAt: r.i64(), heldAt: r.i64(), retentionDays: uint16(r.u64()),
	}
	k.device = int32(r.i64())
	return k
}
