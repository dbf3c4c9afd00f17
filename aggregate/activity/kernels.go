// Package activity adds up and writes what several sources bring: kernels with their launches, copies, waits, hardware counters, samples,
// and metrics of hosts and devices. What a source keeps of a session contains those of them that it needs; the source flushes them, and
// writes what is held back into its own section of the state.
package activity

import (
	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/hist"
	"github.com/warpline/warpline/sink/table"
)

// Kernels adds up the kernels of a session by kernel, scope and minute, and writes the rows of kernels and of their launches.
type Kernels struct {
	session *aggregate.Session
	pool    *KernelPool

	slots      []*kernelSlot
	slab       []kernelSlot           // room for further slots: they are made many at once
	sparse     map[uint32]*kernelSlot // kernel ids beyond denseKernels
	slotCount  int                    // of slots and sparse
	dirty      []*kernelAcc           // all accumulators that count something: part of the state until they are flushed
	flushed    bool                   // in the open chunk: what was held back is rows now
	launches   map[launchKey]uint32   // ids of those that this owner has written and that are no slot's last; not in the state
	scopeNames []string               // from index 1 on; 0 is ''
	scopeIndex map[string]int32       // of scopeNames
	names      func(id uint32) string // of a source that keeps the names itself
}

// KernelPool is shared by the sessions of a source in one partition.
type KernelPool struct {
	Fold *aggregate.Fold
	free []*kernelAcc

	least     int   // of free since trimmedAt
	trimmedAt int64 // ns, owner's clock
}

// trimEvery is how long accumulators are kept that nobody took, in nanoseconds.
const trimEvery = 10e9

// Trim frees what was not needed for a while. Call it now and then; it looks at its clock itself.
func (p *KernelPool) Trim(now int64) {
	if now-p.trimmedAt < trimEvery {
		return
	}
	keep := p.free[p.least:]
	p.free = append(make([]*kernelAcc, 0, len(keep)), keep...)
	p.least, p.trimmedAt = len(p.free), now
}

// Begin makes the zero value that of a session.
func (k *Kernels) Begin(s *aggregate.Session, p *KernelPool) {
	k.session, k.pool = s, p
}

// NamedBy makes names say which name a kernel id has, in place of the session's dictionary. It is asked for every row of kernel_stats.
func (k *Kernels) NamedBy(names func(id uint32) string) { k.names = names }

// name returns the name of a kernel id, and the id under which the kernel is added up.
func (k *Kernels) name(id uint32) (name string, sum uint32) {
	if k.names != nil {
		return k.names(id), id
	}
	return k.session.SumName(gpuflight.KernelDict, id)
}

// Kernel is a kernel's row.
type Kernel struct {
	Start, Duration     int64
	Stream, ExternalID  uint64
	ID, Corr, Dyn, Regs uint32
	ExternalKind        uint8
	Device              int32
}

// denseKernels is how many kernel ids are found by index; the client counts from 1, so larger ones are rare and go to a map.
const denseKernels = 1 << 14

// kernelSlot is what is in memory of one kernel id of a session.
type kernelSlot struct {
	id       uint32
	launch   uint32 // id of launched, 0: none yet
	launched launchKey
	last     *kernelAcc
	accs     []*kernelAcc
	first    [1]*kernelAcc         // room of accs while there is one
	index    map[accKey]*kernelAcc // of accs, once they are many
}

// Slots are made so many at once.
const leastSlab, mostSlab = 8, 64

// newSlot makes a slot.
func (k *Kernels) newSlot(id uint32) *kernelSlot {
	if len(k.slab) == 0 {
		k.slab = make([]kernelSlot, min(max(leastSlab, k.slotCount/2), mostSlab))
	}
	slot := &k.slab[0]
	k.slab = k.slab[1:]
	slot.id, slot.accs = id, slot.first[:0]
	k.slotCount++
	return slot
}

// kernelAcc adds up one row of kernel_stats.
type kernelAcc struct {
	slot                    *kernelSlot
	scope                   int32
	bucket                  int64
	calls, total, low, high uint64
	hist                    hist.Dense
	// What the open chunk added, for the state change while the row is held: the durations themselves, or, once there are more than fit,
	// only that there were more (the whole accumulator is written then).
	fresh      [maxFresh]uint64
	freshCount uint8
}

// maxFresh is how many durations cost less to write than a whole accumulator.
const maxFresh = 12

// Add counts a duration.
func (a *kernelAcc) Add(ns uint64) {
	if a.freshCount < maxFresh {
		a.fresh[a.freshCount] = ns
	}
	if a.freshCount <= maxFresh {
		a.freshCount++
	}
	a.count(ns)
}

// count adds a duration that the state has already.
func (a *kernelAcc) count(ns uint64) {
	a.calls++
	a.total += ns
	a.low = min(a.low, ns)
	a.high = max(a.high, ns)
	a.hist.Add(ns)
}

// Slot returns the session's slot of a kernel id.
func (k *Kernels) Slot(id uint32) *kernelSlot {
	if int(id) < len(k.slots) {
		if slot := k.slots[id]; slot != nil {
			return slot
		}
	} else if slot, ok := k.sparse[id]; ok {
		return slot
	}
	slot := k.newSlot(id)
	if id < denseKernels {
		if int(id) >= len(k.slots) {
			k.slots = append(k.slots, make([]*kernelSlot, int(id)+1-len(k.slots))...)
		}
		k.slots[id] = slot
	} else {
		if k.sparse == nil {
			k.sparse = map[uint32]*kernelSlot{}
		}
		k.sparse[id] = slot
	}
	return slot
}

// Acc returns the accumulator of a kernel, scope and minute.
func (k *Kernels) Acc(slot *kernelSlot, scope int32, bucket int64) *kernelAcc {
	if a := slot.last; a != nil && a.bucket == bucket && a.scope == scope {
		return a
	}
	if len(slot.accs) <= fewAccs {
		for _, a := range slot.accs {
			if a.bucket == bucket && a.scope == scope {
				slot.last = a
				return a
			}
		}
	} else if a := slot.find(accKey{bucket, scope}); a != nil {
		slot.last = a
		return a
	}
	var a *kernelAcc
	if n := len(k.pool.free); n > 0 {
		a = k.pool.free[n-1]
		k.pool.free = k.pool.free[:n-1]
		k.pool.least = min(k.pool.least, n-1)
	} else {
		a = &kernelAcc{}
	}
	a.slot, a.scope, a.bucket = slot, scope, bucket
	a.calls, a.total, a.low, a.high, a.freshCount = 0, 0, ^uint64(0), 0, 0
	slot.accs = append(slot.accs, a)
	if slot.index != nil {
		slot.index[accKey{bucket, scope}] = a
	}
	slot.last = a
	k.dirty = append(k.dirty, a)
	k.pool.Fold.HeldAccs++
	return a
}

// fewAccs is how many accumulators of a kernel are looked through one by one. A kernel of a live session has one or two, in a busy program
// one for each scope; when hours of events come in one window it has one for each minute.
const fewAccs = 16

type accKey struct {
	bucket int64
	scope  int32
}

// find looks for an accumulator by its key. When there are more than a few it makes an index.
func (k *kernelSlot) find(key accKey) *kernelAcc {
	if k.index == nil {
		k.index = make(map[accKey]*kernelAcc, 2*len(k.accs))
		for _, a := range k.accs {
			k.index[accKey{a.bucket, a.scope}] = a
		}
	}
	return k.index[key]
}

// KernelEmitter appends rows of kernels_data of one session and one ClickHouse partition.
type KernelEmitter struct {
	k               *Kernels
	b               *table.Batch // nil: raw rows are off for this tenant
	tenant, session int32
	receivedAt      int64
	days            uint16
}

// Emitter returns an emitter for rows that were received at a time, of a retention class.
func (k *Kernels) Emitter(receivedAt int64, days uint16) KernelEmitter {
	e := KernelEmitter{k: k, receivedAt: receivedAt, days: days}
	if k.session.NoRaw {
		return e
	}
	f, t := k.pool.Fold, &table.Kernels
	e.b = f.Out.Batch(t.Table, rows.RawDayPartition(receivedAt, days))
	e.tenant, e.session = t.Tenant.Index(e.b, k.session.Key.Tenant), t.SessionID.Index(e.b, k.session.Key.ID)
	f.Out.Saw(receivedAt)
	return e
}

// IsFor reports whether it has a batch and is for such rows. A batch is of one chunk only.
func (e *KernelEmitter) IsFor(k *Kernels, receivedAt int64) bool {
	return e.k == k && e.receivedAt == receivedAt && e.b != nil
}

// Row appends a kernel, with the launch configuration that it is known to have had (0: none).
func (e *KernelEmitter) Row(k *Kernel, config uint32) {
	if e.b != nil {
		e.row(e.k.Slot(k.ID), k, config)
	}
}

// Add appends a kernel and counts it in its minute, under the path that Scope returned an index of (0: none).
func (e *KernelEmitter) Add(k *Kernel, config uint32, scope int32) {
	slot := e.k.Slot(k.ID)
	if e.b != nil {
		e.row(slot, k, config)
	}
	e.k.Acc(slot, scope, rows.BucketOf(k.Start)).Add(uint64(k.Duration))
}

func (e *KernelEmitter) row(slot *kernelSlot, k *Kernel, config uint32) {
	t, b := &table.Kernels, e.b
	t.Tenant.Append(b, e.tenant)
	t.SessionID.Append(b, e.session)
	t.StartedAt.Append(b, k.Start)
	t.DurationNS.Append(b, uint64(k.Duration))
	t.LaunchID.Append(b, e.launch(slot, launchKey{k.ID, config, k.Regs, k.Dyn}))
	t.StreamID.Append(b, k.Stream)
	t.CorrID.Append(b, k.Corr)
	t.DeviceID.Append(b, k.Device)
	t.ExternalKind.Append(b, k.ExternalKind)
	t.ExternalID.Append(b, k.ExternalID)
	t.ReceivedAt.Append(b, e.receivedAt)
}

// Flush writes the rollup rows and frees the accumulators.
func (k *Kernels) Flush() {
	k.flushed = true
	if len(k.dirty) == 0 {
		return
	}
	s, t := k.session, &table.KernelStats
	b := k.pool.Fold.Out.Batch(t.Table, s.FactPartition())
	tenant, session := t.Tenant.Index(b, s.Key.Tenant), t.SessionID.Index(b, s.Key.ID)
	for _, a := range k.dirty {
		name, id := k.name(a.slot.id)
		t.Tenant.Append(b, tenant)
		t.SessionID.Append(b, session)
		t.Bucket.Append(b, a.bucket)
		t.BucketS.Append(b, 60)
		t.KernelID.Append(b, id)
		t.Scope.AppendString(b, k.ScopeName(a.scope))
		t.Kernel.AppendString(b, name)
		t.Calls.Append(b, a.calls)
		t.TotalNS.Append(b, a.total)
		t.MinNS.Append(b, a.low)
		t.MaxNS.Append(b, a.high)
		t.DurationHist.Append(b, &a.hist)
		t.ReceivedDay.Append(b, s.ReceivedDay())
	}
	k.Drop()
	if len(k.sparse) > maxSparse {
		for _, slot := range k.sparse {
			k.keepLaunch(slot)
		}
		k.slotCount -= len(k.sparse)
		k.sparse = nil
	}
}

// Drop forgets the accumulators: their rows are written, or never will be.
func (k *Kernels) Drop() {
	for _, a := range k.dirty {
		a.slot.accs, a.slot.last, a.slot.index = a.slot.accs[:0], nil, nil
		a.hist.Reset()
		a.slot = nil
		if len(k.pool.free) < maxFreeAccs {
			k.pool.free = append(k.pool.free, a)
		}
	}
	k.pool.Fold.HeldAccs -= len(k.dirty)
	clear(k.dirty)
	k.dirty = k.dirty[:0]
}

// Rest frees the slots of all kernels.
func (k *Kernels) Rest() { k.slots, k.slab, k.sparse, k.slotCount, k.launches = nil, nil, nil, 0, nil }

// What is charged in addition to the bytes of names: entries of maps with their slack, and allocations rounded up.
const (
	kernelSlotBytes  = 160
	launchEntryBytes = 56
)

// IndexBytes is the size of what is kept to find names quickly.
func (k *Kernels) IndexBytes() int {
	return 8*cap(k.slots) + kernelSlotBytes*k.slotCount + launchEntryBytes*len(k.launches)
}

// Published forgets what was new.
func (k *Kernels) Published() {
	k.flushed = false
	for _, a := range k.dirty {
		a.freshCount = 0
	}
}

// maxSparse slots of kernel ids beyond denseKernels are kept from chunk to chunk: a session that never uses an id twice must not fill the
// memory with them. What they know, apart from accumulators, is found again.
const maxSparse = 4 * denseKernels

// maxFreeAccs bounds the pool of accumulators kept between chunks: 8192 × about 2 KiB.
const maxFreeAccs = 8192

// Held is how many rows of rollups are held back.
func (k *Kernels) Held() int { return len(k.dirty) }

// ScopeName returns the path for an index that Scope returned.
func (k *Kernels) ScopeName(i int32) string {
	if i == 0 {
		return ""
	}
	return k.scopeNames[i-1]
}
