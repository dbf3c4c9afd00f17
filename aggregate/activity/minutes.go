package activity

import (
	"math"
	"slices"
	"strconv"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/state"
	"github.com/warpline/warpline/sink/table"
)

// Minutes are the rollups that do not need a histogram: copies, waits and hardware counters by minute. Like those of kernels they are held
// while the session's rows are sparse (hold.go), and until then are part of the published state. They are few, so they are written whole.
type Minutes struct {
	copies map[CopyKey]*CopyAcc
	syncs  map[SyncKey]*SyncAcc
	pm     map[PMKey]*PMAcc
	dirty  bool
}

// MaxMinutes accumulators of a session are held back; when there are more they go out with the chunk.
const MaxMinutes = 512

// CopyKey is the key by which copies are added up.
type CopyKey struct {
	Bucket int64
	Kind   uint32
}

// CopyAcc adds up one row of memcpy_stats.
type CopyAcc struct{ calls, bytes, total, low, high uint64 }

// SyncKey is the key by which waits are added up.
type SyncKey struct {
	Bucket   int64
	Function uint32
	Kind     uint8
}

// SyncAcc adds up one row of sync_stats.
type SyncAcc struct{ calls, total, high uint64 }

// PMKey is the key by which hardware counters are added up.
type PMKey struct {
	Bucket                int64
	Device, Metric, Scope uint32
}

// PMAcc adds up values exactly, whatever their order: see table.PMStats.
type PMAcc struct {
	samples   uint64
	low, high float64
	parts     []sumPart // by rising key
}

type sumPart struct {
	key    int16
	digits uint64
}

// Count is how many accumulators are held.
func (m *Minutes) Count() int { return len(m.copies) + len(m.syncs) + len(m.pm) }

// Copy returns the accumulator of copies.
func (m *Minutes) Copy(key CopyKey) *CopyAcc {
	m.dirty = true
	a := m.copies[key]
	if a == nil {
		if m.copies == nil {
			m.copies = map[CopyKey]*CopyAcc{}
		}
		a = &CopyAcc{low: math.MaxUint64}
		m.copies[key] = a
	}
	return a
}

// Sync returns the accumulator of waits.
func (m *Minutes) Sync(key SyncKey) *SyncAcc {
	m.dirty = true
	a := m.syncs[key]
	if a == nil {
		if m.syncs == nil {
			m.syncs = map[SyncKey]*SyncAcc{}
		}
		a = &SyncAcc{}
		m.syncs[key] = a
	}
	return a
}

// PM returns the accumulator of a hardware counter.
func (m *Minutes) PM(key PMKey) *PMAcc {
	m.dirty = true
	a := m.pm[key]
	if a == nil {
		if m.pm == nil {
			m.pm = map[PMKey]*PMAcc{}
		}
		a = &PMAcc{low: math.Inf(1), high: math.Inf(-1)}
		m.pm[key] = a
	}
	return a
}

// Add counts one.
func (a *CopyAcc) Add(bytes, ns uint64) {
	a.calls++
	a.bytes += bytes
	a.total += ns
	a.low, a.high = min(a.low, ns), max(a.high, ns)
}

// Add counts one.
func (a *SyncAcc) Add(ns uint64) {
	a.calls++
	a.total += ns
	a.high = max(a.high, ns)
}

// Add counts one.
func (a *PMAcc) Add(v float64) {
	if v == 0 {
		v = 0 // not -0: it must not be visible which of two equal minima came first
	}
	a.samples++
	a.low, a.high = min(a.low, v), max(a.high, v)
	if key, digits := decimal(v); digits != 0 {
		a.addPart(key, digits)
	}
}

func (a *PMAcc) addPart(key int16, digits uint64) {
	i := 0
	for i < len(a.parts) && a.parts[i].key < key {
		i++
	}
	if i == len(a.parts) || a.parts[i].key != key {
		a.parts = slices.Insert(a.parts, i, sumPart{key: key})
	}
	a.parts[i].digits += digits
}

// significant is how many digits of a value sums of samples keep; the client writes six.
const significant = 9

// decimal splits a value into at most nine digits and a power of ten. The key is the power, plus table.NegativePart for values below zero.
func decimal(v float64) (key int16, digits uint64) {
	negative := v < 0
	if negative {
		v = -v
	}
	if v < 1e9 && v == math.Trunc(v) {
		digits = uint64(v)
	} else {
		var buf [32]byte
		text := strconv.AppendFloat(buf[:0], v, 'e', significant-1, 64) // d.dddddddde±dd
		for i, c := range text {
			if c == 'e' {
				power, _ := strconv.Atoi(string(text[i+1:]))
				key = int16(power - (significant - 1))
				break
			}
			if c != '.' {
				digits = digits*10 + uint64(c-'0')
			}
		}
	}
	if negative {
		key += table.NegativePart
	}
	return key, digits
}

// Append writes what is held, when it has changed or a snapshot needs it.
func (m *Minutes) Append(w *state.Writer, full bool) {
	w.Bool(full || m.dirty)
	if !full && !m.dirty {
		return
	}
	w.N(len(m.copies))
	for k, a := range m.copies {
		w.I64(k.Bucket)
		for _, v := range []uint64{uint64(k.Kind), a.calls, a.bytes, a.total, a.low, a.high} {
			w.U64(v)
		}
	}
	w.N(len(m.syncs))
	for k, a := range m.syncs {
		w.I64(k.Bucket)
		for _, v := range []uint64{uint64(k.Function), uint64(k.Kind), a.calls, a.total, a.high} {
			w.U64(v)
		}
	}
	w.N(len(m.pm))
	for k, a := range m.pm {
		w.I64(k.Bucket)
		for _, v := range []uint64{uint64(k.Device), uint64(k.Metric), uint64(k.Scope), a.samples, math.Float64bits(a.low),
			math.Float64bits(a.high)} {
			w.U64(v)
		}
		w.N(len(a.parts))
		for _, p := range a.parts {
			w.I64(int64(p.key))
			w.U64(p.digits)
		}
	}
}

// Read takes the place of what was held.
func (m *Minutes) Read(r *state.Reader) {
	if !r.Bool() {
		return
	}
	*m = Minutes{}
	for range r.N(7) {
		k := CopyKey{r.I64(), r.U32()}
		*m.Copy(k) = CopyAcc{r.U64(), r.U64(), r.U64(), r.U64(), r.U64()}
	}
	for range r.N(6) {
		k := SyncKey{r.I64(), r.U32(), uint8(r.U64())}
		*m.Sync(k) = SyncAcc{r.U64(), r.U64(), r.U64()}
	}
	for range r.N(8) {
		a := m.PM(PMKey{r.I64(), r.U32(), r.U32(), r.U32()})
		*a = PMAcc{samples: r.U64(), low: math.Float64frombits(r.U64()), high: math.Float64frombits(r.U64())}
		for range r.N(2) {
			a.addPart(int16(r.I64()), r.U64())
		}
	}
	m.dirty = false
}

// Flush writes the session's rows of copies, waits and counters.
func (m *Minutes) Flush(f *aggregate.Fold, s *aggregate.Session) {
	if m.Count() == 0 {
		return
	}
	part, day := s.FactPartition(), s.ReceivedDay()
	if len(m.copies) > 0 {
		t := &table.MemcpyStats
		b := f.Out.Batch(t.Table, part)
		tenant, session := t.Tenant.Index(b, s.Key.Tenant), t.SessionID.Index(b, s.Key.ID)
		for k, a := range m.copies {
			t.Tenant.Append(b, tenant)
			t.SessionID.Append(b, session)
			t.Bucket.Append(b, k.Bucket)
			t.BucketS.Append(b, 60)
			t.CopyKindID.Append(b, k.Kind)
			t.Calls.Append(b, a.calls)
			t.Bytes.Append(b, a.bytes)
			t.TotalNS.Append(b, a.total)
			t.MinNS.Append(b, a.low)
			t.MaxNS.Append(b, a.high)
			t.ReceivedDay.Append(b, day)
		}
	}
	if len(m.syncs) > 0 {
		t := &table.SyncStats
		b := f.Out.Batch(t.Table, part)
		tenant, session := t.Tenant.Index(b, s.Key.Tenant), t.SessionID.Index(b, s.Key.ID)
		for k, a := range m.syncs {
			t.Tenant.Append(b, tenant)
			t.SessionID.Append(b, session)
			t.Bucket.Append(b, k.Bucket)
			t.BucketS.Append(b, 60)
			t.FunctionID.Append(b, k.Function)
			t.SyncTypeID.Append(b, k.Kind)
			t.Calls.Append(b, a.calls)
			t.TotalNS.Append(b, a.total)
			t.MaxNS.Append(b, a.high)
			t.ReceivedDay.Append(b, day)
		}
	}
	if len(m.pm) > 0 {
		t := &table.PMStats
		b := f.Out.Batch(t.Table, part)
		tenant, session := t.Tenant.Index(b, s.Key.Tenant), t.SessionID.Index(b, s.Key.ID)
		var keys []int16
		var digits []uint64
		for k, a := range m.pm {
			keys, digits = keys[:0], digits[:0]
			for _, p := range a.parts {
				keys, digits = append(keys, p.key), append(digits, p.digits)
			}
			t.Tenant.Append(b, tenant)
			t.SessionID.Append(b, session)
			t.Bucket.Append(b, k.Bucket)
			t.BucketS.Append(b, 60)
			t.DeviceID.Append(b, int32(k.Device))
			t.MetricID.Append(b, k.Metric)
			t.ScopeNameID.Append(b, k.Scope)
			t.Samples.Append(b, a.samples)
			t.SumParts.AppendPairs(b, keys, digits)
			t.MinValue.Append(b, a.low)
			t.MaxValue.Append(b, a.high)
			t.ReceivedDay.Append(b, day)
		}
	}
	*m = Minutes{dirty: true}
}

// Published says that all is in a published state change.
func (m *Minutes) Published() { m.dirty = false }
