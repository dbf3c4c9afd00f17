package gpuflight

import (
	"cmp"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/activity"
	"github.com/warpline/warpline/aggregate/state"
)

// Size estimates what Append writes.
func (s *session) Size(full bool) int {
	n := s.lines.Size(full) + s.singles.Size(full) + 64*s.minutes.Count()
	if full {
		if !s.details.IsEmpty() {
			n += int(s.details.GetSerializedSizeInBytes())
		}
		return n + 24*len(s.configs) + 16*len(s.early) + 40*s.kernels.Held() + 40*s.scopes.halves.count + 60*s.waiting.live +
			s.scopes.kept.size() + int(min(s.artifactRows, 8))
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
func (s *session) Append(w *state.Writer, full bool) {
	s.lines.Append(w, full)
	fresh := s.details
	if !full {
		fresh = roaring.BitmapOf(s.freshDetails...)
	}
	bits, err := fresh.ToBytes()
	if err != nil {
		panic("BUG: aggregate: a bitmap does not serialize: " + err.Error())
	}
	w.Str(string(bits))

	configs := s.freshConfigs
	if full {
		configs = make([]xxh3.Uint128, 0, len(s.configs))
		for h := range s.configs {
			configs = append(configs, h)
		}
		slices.SortFunc(configs, func(a, b xxh3.Uint128) int { return cmp.Compare(s.configs[a].id, s.configs[b].id) })
	}
	w.N(len(configs))
	for _, h := range configs {
		c := s.configs[h]
		w.Hash(h)
		w.U64(uint64(c.id))
		w.Str(s.kernels.ScopeName(c.scope))
	}
	w.Bool(full || s.waiting.dirty)
	if full || s.waiting.dirty {
		w.N(s.waiting.live)
		for i := range s.waiting.rows {
			if k := &s.waiting.rows[i]; !k.dead {
				k.append(w)
			}
		}
	}
	w.Bool(full || s.earlyDirty)
	if full || s.earlyDirty {
		w.N(len(s.early))
		for corr, d := range s.early {
			w.U64(uint64(corr))
			w.U64(uint64(d.config))
			w.I64(d.heldAt)
			w.Bool(d.written)
		}
	}
	s.kernels.Append(w, full)
	s.singles.Append(w, full)
	s.minutes.Append(w, full)
	s.scopes.append(w, full)
	s.appendArtifacts(w)
}

// Read adds what Append wrote.
func (s *session) Read(_ uint64, r *state.Reader) {
	s.readLines(r)
	s.readWaiting(r)
	s.kernels.ReadFlushed(r)
	s.kernels.Read(r)
	s.singles.Read(r)
	s.minutes.Read(r)
	s.scopes.read(r)
	s.readArtifacts(r)
}

// ReadOlder reads what stood in states without sections.
func (s *session) ReadOlder(p aggregate.Fields, r *state.Reader) {
	switch p {
	case aggregate.FieldsParts:
		s.readLines(r)
	case aggregate.FieldsNames:
		s.readWaiting(r)
		if r.Bool() {
			s.scopes.readVersion2(r)
		}
	case aggregate.FieldsFlushed:
		s.kernels.ReadFlushed(r)
	case aggregate.FieldsHeld:
		s.kernels.Read(r)
	case aggregate.FieldsMinutes:
		if r.Has(state.HasSingles) {
			s.singles.Read(r)
		}
		if r.Has(state.HasMinutes) {
			s.minutes.Read(r)
		}
	case aggregate.FieldsClock:
		if r.Has(state.HasScopes) {
			s.scopes.read(r)
		}
		if r.Has(state.HasArtifacts) {
			s.readArtifacts(r)
		}
	}
}

func (s *session) readLines(r *state.Reader) {
	s.lines.Read(r)
	if bits := r.Bytes(); len(bits) > 0 {
		var add roaring.Bitmap
		if _, err := add.FromUnsafeBytes(bits); err != nil {
			r.Fail()
			return
		}
		s.details.Or(&add)
	}
	for range r.N(18) {
		h, id, scope := r.Hash(), r.U32(), r.Str()
		if s.configs == nil || len(s.configs) >= maxConfigs {
			s.configs, s.configByID = map[xxh3.Uint128]launchConfig{}, map[uint32]int32{}
		}
		c := launchConfig{id: id, scope: s.kernels.Scope(scope)}
		s.configs[h], s.configByID[id] = c, c.scope
	}
}

func (s *session) readWaiting(r *state.Reader) {
	if r.Bool() {
		s.waiting = waiting{}
		for range r.N(10) {
			s.waiting.add(readKernelRow(r))
		}
		s.waiting.dirty = false
	}
	if r.Bool() {
		s.early, s.unwritten = map[uint32]earlyDetail{}, 0
		for range r.N(4) {
			corr := r.U32()
			d := earlyDetail{config: r.U32(), heldAt: r.I64(), written: r.Bool()}
			s.early[corr] = d
			if !d.written {
				s.unwritten++
			}
		}
	}
}

func (k *kernelRow) append(w *state.Writer) {
	w.I64(k.Start)
	w.I64(k.Duration)
	w.U64(k.Stream)
	w.U64(k.ExternalID)
	w.U64(uint64(k.ID))
	w.U64(uint64(k.Corr))
	w.U64(uint64(k.Dyn))
	w.U64(uint64(k.Regs))
	w.U64(uint64(k.ExternalKind))
	w.Bool(k.emitted)
	w.I64(k.receivedAt)
	w.I64(k.heldAt)
	w.U64(uint64(k.retentionDays))
	w.I64(int64(k.Device))
}

func readKernelRow(r *state.Reader) kernelRow {
	k := kernelRow{
		Kernel: activity.Kernel{
			Start: r.I64(), Duration: r.I64(), Stream: r.U64(), ExternalID: r.U64(), ID: r.U32(), Corr: r.U32(), Dyn: r.U32(), Regs: r.U32(),
			ExternalKind: uint8(r.U64()),
		},
		emitted: r.Bool(), receivedAt: r.I64(), heldAt: r.I64(), retentionDays: uint16(r.U64()),
	}
	k.Device = int32(r.I64())
	return k
}
