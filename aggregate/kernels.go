package aggregate

import (
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/hist"
	"github.com/warpline/warpline/sink/table"
)

// kernelRow is one kernel as it waits for its kernel_detail.
type kernelRow struct {
	start, duration         int64
	stream, externalID      uint64
	kernel, corr, dyn, regs uint32
	externalKind            uint8
	emitted                 bool // the raw row went out without its detail; only the rollup still waits
	receivedAt, heldAt      int64
	retentionDays, _        uint16
	device                  int32
	dead                    bool // matched or given up; the slot is free
	_                       [3]byte
}

// denseKernels is how many kernel ids are found by index; the client counts from 1, so larger ones are rare and go to a map.
const denseKernels = 1 << 14

// kernelSlot is what is at hand of one kernel id of a session.
type kernelSlot struct {
	id       uint32
	launch   uint32 // id of launched, 0: none yet
	launched launchKey
	last     *kernelAcc
	accs     []*kernelAcc
	index    map[accKey]*kernelAcc // of accs, once they are many
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

func (a *kernelAcc) add(ns uint64) {
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

const bucketNS = int64(60e9)

// bucketOf returns the start of the minute of a time, which is never negative.
func bucketOf(ns int64) int64 { return ns - ns%bucketNS }

// slot returns the session's slot of a kernel id.
func (s *session) slot(id uint32) *kernelSlot {
	if int(id) < len(s.slots) {
		if k := s.slots[id]; k != nil {
			return k
		}
	} else if k, ok := s.sparse[id]; ok {
		return k
	}
	k := &kernelSlot{id: id}
	s.slotCount++
	if id < denseKernels {
		if int(id) >= len(s.slots) {
			s.slots = append(s.slots, make([]*kernelSlot, int(id)+1-len(s.slots))...)
		}
		s.slots[id] = k
	} else {
		if s.sparse == nil {
			s.sparse = map[uint32]*kernelSlot{}
		}
		s.sparse[id] = k
	}
	return k
}

// acc returns the accumulator of a kernel, scope and minute.
func (f *folder) acc(s *session, k *kernelSlot, scope int32, bucket int64) *kernelAcc {
	if a := k.last; a != nil && a.bucket == bucket && a.scope == scope {
		return a
	}
	if len(k.accs) <= fewAccs {
		for _, a := range k.accs {
			if a.bucket == bucket && a.scope == scope {
				k.last = a
				return a
			}
		}
	} else if a := k.find(accKey{bucket, scope}); a != nil {
		k.last = a
		return a
	}
	var a *kernelAcc
	if n := len(f.freeAccs); n > 0 {
		a = f.freeAccs[n-1]
		f.freeAccs = f.freeAccs[:n-1]
	} else {
		a = &kernelAcc{}
	}
	a.slot, a.scope, a.bucket = k, scope, bucket
	a.calls, a.total, a.low, a.high, a.freshCount = 0, 0, ^uint64(0), 0, 0
	k.accs = append(k.accs, a)
	if k.index != nil {
		k.index[accKey{bucket, scope}] = a
	}
	k.last = a
	s.dirty = append(s.dirty, a)
	f.heldAccs++
	return a
}

// fewAccs is how many accumulators of a kernel are looked through one by one. A live kernel has one or two, one a scope in a busy program;
// a file of hours in one window has one a minute.
const fewAccs = 16

type accKey struct {
	bucket int64
	scope  int32
}

// find looks an accumulator up by key, in an index that is made when there are more than a few.
func (k *kernelSlot) find(key accKey) *kernelAcc {
	if k.index == nil {
		k.index = make(map[accKey]*kernelAcc, 2*len(k.accs))
		for _, a := range k.accs {
			k.index[accKey{a.bucket, a.scope}] = a
		}
	}
	return k.index[key]
}

// kernels folds one kernel_event_batch.
func (f *folder) kernels(s *session, p *part, line *gpuflight.Line) {
	batch := line.Batch
	device := s.device()
	emit := f.kernelEmitter(s, p)
	for r := range batch.Rows() {
		row := batch.Row(r)
		start, ok := batch.Time(r)
		if !ok {
			f.badTime(s, p, line)
			continue
		}
		start = f.activityTime(s, p, start)
		s.delta.kernels++
		s.delta.sawEvent(start)
		duration := row[gpuflight.KernelDurationNS]
		if row[gpuflight.KernelHasDetails] == 0 {
			emit.row(start, duration, row, device)
			f.acc(s, s.slot(uint32(row[gpuflight.KernelID])), 0, bucketOf(start)).add(uint64(duration))
			continue
		}
		f.joinKernel(s, p, emit, kernelRow{
			start: start, duration: duration, stream: uint64(row[gpuflight.KernelStreamID]), externalID: uint64(row[gpuflight.KernelExternalID]),
			kernel: uint32(row[gpuflight.KernelID]), corr: uint32(row[gpuflight.KernelCorrID]), dyn: uint32(max(row[gpuflight.KernelDynShared], 0)),
			regs: uint32(max(row[gpuflight.KernelNumRegs], 0)), externalKind: uint8(row[gpuflight.KernelExternalKind]),
			receivedAt: p.env.ReceivedAt, retentionDays: p.env.RetentionDays, heldAt: p.now, device: device,
		})
	}
}

// kernelEmitter appends rows of kernels_data of one session and one ClickHouse partition.
type kernelEmitter struct {
	f               *folder
	s               *session
	b               *table.Batch // nil: raw rows are off for this tenant
	tenant, session int32
	receivedAt      int64
	days            uint16
}

func (f *folder) kernelEmitter(s *session, p *part) kernelEmitter {
	return f.kernelEmitterAt(s, p.env.ReceivedAt, p.env.RetentionDays, p.env.NoRaw)
}

func (f *folder) kernelEmitterAt(s *session, receivedAt int64, days uint16, noRaw bool) kernelEmitter {
	e := kernelEmitter{f: f, s: s, receivedAt: receivedAt, days: days}
	if noRaw {
		return e
	}
	t := &table.Kernels
	e.b = f.out.batch(t.Table, rawPartition(receivedAt, days))
	e.tenant, e.session = t.Tenant.Index(e.b, s.key.tenant), t.SessionID.Index(e.b, s.key.id)
	f.out.saw(receivedAt)
	return e
}

// row appends a row that waits for no detail, straight from the wire's cells.
func (e *kernelEmitter) row(start, duration int64, row []int64, device int32) {
	if e.b == nil {
		return
	}
	t, b := &table.Kernels, e.b
	t.Tenant.Append(b, e.tenant)
	t.SessionID.Append(b, e.session)
	t.StartedAt.Append(b, start)
	t.DurationNS.Append(b, uint64(duration))
	t.LaunchID.Append(b, e.launch(launchKey{
		kernel: uint32(row[gpuflight.KernelID]), regs: uint32(max(row[gpuflight.KernelNumRegs], 0)), dyn: uint32(max(row[gpuflight.KernelDynShared], 0)),
	}))
	t.StreamID.Append(b, uint64(row[gpuflight.KernelStreamID]))
	t.CorrID.Append(b, uint32(row[gpuflight.KernelCorrID]))
	t.DeviceID.Append(b, device)
	t.ExternalKind.Append(b, uint8(row[gpuflight.KernelExternalKind]))
	t.ExternalID.Append(b, uint64(row[gpuflight.KernelExternalID]))
	t.ReceivedAt.Append(b, e.receivedAt)
}

// joined appends a row that waited, with the configuration of its detail (0: none came).
func (e *kernelEmitter) joined(k *kernelRow, config uint32) {
	if e.b == nil {
		return
	}
	t, b := &table.Kernels, e.b
	t.Tenant.Append(b, e.tenant)
	t.SessionID.Append(b, e.session)
	t.StartedAt.Append(b, k.start)
	t.DurationNS.Append(b, uint64(k.duration))
	t.LaunchID.Append(b, e.launch(launchKey{k.kernel, config, k.regs, k.dyn}))
	t.StreamID.Append(b, k.stream)
	t.CorrID.Append(b, k.corr)
	t.DeviceID.Append(b, k.device)
	t.ExternalKind.Append(b, k.externalKind)
	t.ExternalID.Append(b, k.externalID)
	t.ReceivedAt.Append(b, e.receivedAt)
}

// flushKernelStats writes the session's rollup rows and frees the accumulators.
func (f *folder) flushKernelStats(s *session) {
	if len(s.dirty) == 0 {
		return
	}
	t := &table.KernelStats
	b := f.out.batch(t.Table, f.factPartition(s))
	tenant, session := t.Tenant.Index(b, s.key.tenant), t.SessionID.Index(b, s.key.id)
	for _, a := range s.dirty {
		t.Tenant.Append(b, tenant)
		t.SessionID.Append(b, session)
		t.Bucket.Append(b, a.bucket)
		t.BucketS.Append(b, 60)
		t.KernelID.Append(b, a.slot.id)
		t.Scope.AppendString(b, s.scopeNames[a.scope])
		t.Kernel.AppendString(b, s.name(gpuflight.KernelDict, a.slot.id))
		t.Calls.Append(b, a.calls)
		t.TotalNS.Append(b, a.total)
		t.MinNS.Append(b, a.low)
		t.MaxNS.Append(b, a.high)
		t.DurationHist.Append(b, &a.hist)
		t.ReceivedDay.Append(b, s.receivedDay())
	}
	f.dropHeld(s)
	if len(s.sparse) > maxSparse {
		s.slotCount -= len(s.sparse)
		s.sparse = nil
	}
}

// maxSparse slots of kernel ids beyond denseKernels are kept from chunk to chunk: a session that never uses an id twice must not fill the
// memory with them. What they know beside accumulators is found again.
const maxSparse = 4 * denseKernels

// maxFreeAccs bounds the pool of accumulators kept between chunks: 8192 × about 2 KiB.
const maxFreeAccs = 8192
