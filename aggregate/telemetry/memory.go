package telemetry

import (
	"bytes"
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/telemetry"
	"github.com/warpline/warpline/sink/table"
	telemetrytable "github.com/warpline/warpline/sink/table/telemetry"
)

// memoryKey is the key by which memory events are added up.
type memoryKey struct {
	device, rank, bucket int64
}

// memoryAcc adds up one row of memory_stats. Sums stop at maxMemorySum. Only false events get there, since a minute would need eight
// exbibytes; their sum stays a number that people recognise.
type memoryAcc struct {
	host, job                                          string
	events, allocated, reserved, used, total           uint64
	allocatedPeak, reservedPeak, usedPeak              uint64
	activeEvents, active, activePeak                   uint64
	allocations, allocationBytes                       uint64
	deallocations, deallocationBytes                   uint64
	fragmentedEvents, fragmentation, fragmentationPeak uint64
	utilizedEvents, utilization, utilizationPeak       uint64
	warnings, criticals, world                         uint64
	noAllocated, noReserved, noUsed                    uint64
	inactiveEvents, inactive, inactivePeak             uint64
}

// maxMemorySum is what a sum of one row stops at: two rows of it still add up in 64 bits.
const maxMemorySum = uint64(math.MaxInt64)

// maxMemoryDevices is how many devices of a session get a row in `devices`; with more, their numbers cannot be true.
const maxMemoryDevices = 64

// ppb is a ratio's whole: parts in 10^9 add exactly, fractions do not.
const ppb = uint64(1e9)

// memoryReader is what reading frames needs, for use again.
type memoryReader struct {
	v      telemetry.Validator
	e      telemetry.Event
	health telemetry.HealthReader
	last   memoryLast
	key    []byte // scratch
}

// memoryLast is the accumulator of the event before: events of a process come in order.
type memoryLast struct {
	s   *session
	key memoryKey
	acc *memoryAcc
}

// events folds the frames of a part of memory telemetry. The gateway has applied the rules; what they refuse here was damaged since.
func (f *folding) events(s *session, p *aggregate.Part, body []byte) {
	var stop stopEvent
	for len(body) > 0 {
		line := body
		if i := bytes.IndexByte(body, '\n'); i >= 0 {
			line, body = body[:i], body[i+1:]
		} else {
			body = nil
		}
		p.Line++
		f.CheckLine(p)
		p.Received(1)
		frame, err := telemetry.ParseFrame(line)
		if err != nil {
			f.Reject(p, aggregate.Reject{Reason: gpuflight.ReasonBadJSON, Detail: err.Error(), Events: 1, Payload: line})
			continue
		}
		e := &f.reader.e
		if r := frame.Event(&f.reader.v, e); r != nil {
			f.Reject(p, aggregate.Reject{Reason: string(r.Code), Detail: rows.Clip(r.Message), Events: 1, Payload: frame.JSON})
			continue
		}
		if reason := f.outside(s, p, e); reason != "" {
			f.Reject(p, aggregate.Reject{Reason: reason, Detail: "events that are " + p.OutsideWords(reason), Events: 1, Payload: frame.JSON})
			continue
		}
		stop.saw(e)
		if f.memoryEvent(s, p, e, frame.Index) {
			p.Stored(1)
		} else {
			p.Duplicate(1)
		}
	}
	f.reader.last = memoryLast{} // of this session, which may be forgotten
	if stop.seen && !p.Env.Summarized {
		f.Tell(p, aggregate.SessionEnd{Rank: table.EndStopped, At: stop.at})
	}
	f.Out.Saw(p.Env.ReceivedAt)
}

// outside returns why the time of an event is not within the tenant's limits, "" when it is. What was stored when it was not too old yet is
// a duplicate still: trackers write all that they know into each export.
func (f *folding) outside(s *session, p *aggregate.Part, e *telemetry.Event) (reason string) {
	if !p.Bounded() {
		return ""
	}
	if reason = p.Outside(e.TimestampNS); reason == "" {
		return ""
	}
	var key uint64
	if key, f.reader.key = eventKey(f.reader.key, e); s.keys.find(key) != nil {
		return ""
	}
	return reason
}

// memoryEvent counts an event and makes its row. It returns false for an event that was counted before, in another export. Then a copy that
// says more replaces the row that is shown.
func (f *folding) memoryEvent(s *session, p *aggregate.Part, e *telemetry.Event, index uint32) bool {
	m := &f.reader
	h := m.health.Read(e.Metadata)
	rich := richness(e, h.Keys)
	var key uint64
	key, m.key = eventKey(m.key, e)
	seen, richer, old := f.seenEvent(s, key, rich)
	if seen && (!richer || s.NoRaw) {
		return false
	}
	backend, framework := e.Source()
	if seen {
		f.replaceMemory(s, p, e, key, old)
		f.memoryRow(s, p, e, h, index, key, rich, backend, framework)
		return false
	}
	at := e.TimestampNS // 64 bits of nanoseconds are just what DateTime64(9) holds
	s.Delta.Samples++
	s.Delta.SawEvent(at)
	s.describeMemory(e, framework)
	f.memoryDevice(s, p, e, backend)
	f.addMemory(s, e, memoryKey{e.DeviceID, e.Rank, rows.BucketOf(at)})
	if !s.NoRaw {
		f.memoryRow(s, p, e, h, index, key, rich, backend, framework)
	}
	return true
}

// replaceMemory says that the row of an event whose richness is old is not the one to show.
func (f *folding) replaceMemory(s *session, p *aggregate.Part, e *telemetry.Event, key uint64, old uint8) {
	t := &telemetrytable.MemoryReplaced
	b := f.Out.Batch(t.Table, p.Raw)
	t.Tenant.AppendString(b, s.Key.Tenant)
	t.SessionID.AppendString(b, s.Key.ID)
	t.TimestampNS.Append(b, e.TimestampNS)
	t.EventHash.Append(b, uint32(key>>32))
	t.Richness.Append(b, old)
	t.ReceivedAt.Append(b, p.Env.ReceivedAt)
}

func (f *folding) memoryRow(s *session, p *aggregate.Part, e *telemetry.Event, h *telemetry.Health, index uint32, key uint64, rich uint8,
	backend, framework string) {
	at := e.TimestampNS
	t := &telemetrytable.MemoryEvents
	b := f.Out.Batch(t.Table, p.Raw)
	t.Tenant.AppendString(b, s.Key.Tenant)
	t.SessionID.AppendString(b, s.Key.ID)
	t.At.Append(b, at)
	t.TimestampNS.Append(b, e.TimestampNS)
	t.EventType.Append(b, t.EventType.IndexBytes(b, e.EventType))
	t.Collector.Append(b, t.Collector.IndexBytes(b, e.Collector))
	t.Backend.AppendString(b, backend)
	t.Framework.AppendString(b, framework)
	t.SamplingIntervalMS.Append(b, e.SamplingIntervalMS)
	t.PID.Append(b, e.PID)
	t.Host.Append(b, t.Host.IndexBytes(b, e.Host))
	t.JobID.Append(b, t.JobID.IndexBytes(b, e.JobID))
	t.Rank.Append(b, e.Rank)
	t.LocalRank.Append(b, e.LocalRank)
	t.WorldSize.Append(b, e.WorldSize)
	t.DeviceID.Append(b, e.DeviceID)
	t.AllocatedBytes.Append(b, e.Allocated)
	t.ReservedBytes.Append(b, e.Reserved)
	t.ActiveBytes.Append(b, e.Active)
	t.InactiveBytes.Append(b, e.Inactive)
	t.ChangeBytes.Append(b, e.Change)
	t.DeviceUsedBytes.Append(b, e.DeviceUsed)
	t.DeviceFreeBytes.Append(b, e.DeviceFree)
	t.DeviceTotalBytes.Append(b, e.DeviceTotal)
	t.Context.AppendBytes(b, e.Context)
	t.Metadata.AppendBytes(b, e.Metadata)
	t.Present.Append(b, uint16(e.Has))
	t.Legacy.Append(b, rows.Flag(e.Legacy))
	t.Origin.AppendString(b, p.Env.Origin)
	t.UploadIndex.Append(b, index)
	t.SentVersion.Append(b, e.Version)
	t.RecordSession.Append(b, t.RecordSession.IndexBytes(b, e.SessionID))
	t.Capabilities.Append(b, uint16(e.Capabilities))
	t.CapabilityBackend.Append(b, t.CapabilityBackend.IndexBytes(b, rows.ClipBytes(e.CapabilityBackend)))
	t.CapabilityOf.Append(b, t.CapabilityOf.IndexBytes(b, rows.ClipBytes(e.CapabilityCollector)))
	t.SamplingSource.Append(b, t.SamplingSource.IndexBytes(b, rows.ClipBytes(e.SamplingSource)))
	t.HealthPresent.Append(b, uint8(h.Has))
	t.HealthStatus.Append(b, t.HealthStatus.IndexBytes(b, rows.ClipBytes(h.Status)))
	t.Partial.Append(b, rows.Flag(h.Partial))
	t.PartialFields.Append(b, t.PartialFields.IndexBytes(b, rows.ClipBytes(h.PartialFields)))
	t.LastError.Append(b, t.LastError.IndexBytes(b, rows.ClipBytes(h.LastError)))
	t.Failures.Append(b, h.Failures)
	t.NextRetry.Append(b, h.NextRetry)
	t.EventHash.Append(b, uint32(key>>32))
	t.Richness.Append(b, rich)
	t.ReceivedAt.Append(b, p.Env.ReceivedAt)
}

// describeMemory keeps what the session's row says of the process. Host, pid and job are the session's own; a program is known by its
// job, else by its framework, else by the collector that watches it.
func (s *session) describeMemory(e *telemetry.Event, framework string) {
	if s.Host != string(e.Host) {
		s.Host = rows.Clip(string(e.Host))
	}
	s.PID = rows.ClampU32(e.PID)
	switch {
	case e.Has&telemetry.HasJobID != 0:
		if s.App != string(e.JobID) {
			s.App = rows.Clip(string(e.JobID))
		}
	case framework != "":
		s.App = framework
	case s.App == "":
		s.App = rows.Clip(string(e.Collector))
	}
}

// vendors of devices, as GPU Flight's clients write them.
var memoryVendors = map[string]string{"cuda": "NVIDIA", "rocm": "AMD", "mps": "Apple"}

// memoryDevice writes a row of `devices` once the size of a device is known.
func (f *folding) memoryDevice(s *session, p *aggregate.Part, e *telemetry.Event, backend string) {
	if e.DeviceID < 0 || e.DeviceID > 1<<30 || e.Has&telemetry.HasTotal == 0 || len(s.DeviceIDs) >= maxMemoryDevices ||
		slices.Contains(s.DeviceIDs, int32(e.DeviceID)) {
		return
	}
	vendor := memoryVendors[backend]
	s.Vendor = cmp.Or(vendor, s.Vendor)
	f.AddDevice(p, &aggregate.Device{ID: int32(e.DeviceID), Vendor: vendor, TotalBytes: uint64(e.DeviceTotal)})
}

// addMemory adds an event to its minute.
func (f *folding) addMemory(s *session, e *telemetry.Event, key memoryKey) {
	l := &f.reader.last
	if l.acc == nil || l.s != s || l.key != key {
		a := s.minutes[key]
		if a == nil {
			if s.minutes == nil {
				s.minutes = map[memoryKey]*memoryAcc{}
			}
			a = &memoryAcc{}
			s.minutes[key] = a
		}
		*l = memoryLast{s, key, a}
	}
	l.acc.add(e)
}

func (a *memoryAcc) add(e *telemetry.Event) {
	// The largest text of several, as the table keeps it: the order of events must not matter.
	if a.host < string(e.Host) {
		a.host = rows.Clip(string(e.Host))
	}
	if a.job < string(e.JobID) {
		a.job = rows.Clip(string(e.JobID))
	}
	a.events++
	reading(&a.allocated, &a.allocatedPeak, &a.noAllocated, e.Allocated, e.Has&telemetry.NoAllocated == 0)
	reading(&a.reserved, &a.reservedPeak, &a.noReserved, e.Reserved, e.Has&telemetry.NoReserved == 0)
	reading(&a.used, &a.usedPeak, &a.noUsed, e.DeviceUsed, e.Has&telemetry.NoDeviceUsed == 0)
	if e.Has&telemetry.HasActive != 0 {
		a.activeEvents++
		level(&a.active, &a.activePeak, e.Active)
	}
	// Fragmentation is what is free in segments still in use; the rest of what is not allocated is the allocator's cache.
	const fragments = telemetry.CanFragmentation | telemetry.CanInactive
	if e.Reserved > 0 && e.Has&telemetry.HasInactive != 0 && (e.Capabilities&telemetry.CapabilitiesKnown == 0 ||
		e.Capabilities&fragments == fragments) {
		a.inactiveEvents++
		share(&a.inactive, &a.inactivePeak, uint64(min(e.Inactive, e.Reserved)), uint64(e.Reserved))
	}
	if e.Reserved > 0 && e.Has&telemetry.NoAllocated == 0 {
		a.fragmentedEvents++
		share(&a.fragmentation, &a.fragmentationPeak, uint64(max(e.Reserved-e.Allocated, 0)), uint64(e.Reserved))
	}
	if e.Has&telemetry.HasTotal != 0 && e.DeviceTotal > 0 {
		a.total = max(a.total, uint64(e.DeviceTotal))
		if e.Has&telemetry.NoDeviceUsed == 0 {
			a.utilizedEvents++
			share(&a.utilization, &a.utilizationPeak, uint64(e.DeviceUsed), uint64(e.DeviceTotal))
		}
	}
	// One sample makes several events that carry the same change, so only these two kinds count it.
	switch string(e.EventType) {
	case "allocation":
		a.allocations++
		saturate(&a.allocationBytes, magnitude(e.Change))
	case "deallocation":
		a.deallocations++
		saturate(&a.deallocationBytes, magnitude(e.Change))
	case "warning":
		a.warnings++
	case "critical", "error":
		a.criticals++
	}
	a.world = max(a.world, uint64(e.WorldSize))
}

func magnitude(v int64) uint64 {
	if v < 0 {
		return -uint64(v)
	}
	return uint64(v)
}

// saturate adds v to a sum, which stops at maxMemorySum.
func saturate(sum *uint64, v uint64) {
	*sum = min(*sum+min(v, maxMemorySum), maxMemorySum) // both are below 2^63: no overflow
}

// level adds a number of bytes.
func level(sum, peak *uint64, v int64) {
	saturate(sum, uint64(v))
	*peak = max(*peak, uint64(v))
}

// reading is level of a counter that some events do not have.
func reading(sum, peak, missing *uint64, v int64, ok bool) {
	if !ok {
		*missing++
		return
	}
	level(sum, peak, v)
}

// share adds part of whole, which is not less.
func share(sum, peak *uint64, part, whole uint64) {
	hi, lo := bits.Mul64(part, ppb)
	n, _ := bits.Div64(hi, lo, whole)
	*sum += n
	*peak = max(*peak, n)
}

// Flush writes the session's minutes of memory.
func (s *session) Flush(bool) {
	if len(s.minutes) == 0 {
		return
	}
	f := s.f
	t := &telemetrytable.MemoryStats
	b := f.Out.Batch(t.Table, s.FactPartition())
	for key, a := range s.minutes {
		t.Tenant.AppendString(b, s.Key.Tenant)
		t.SessionID.AppendString(b, s.Key.ID)
		t.Bucket.Append(b, key.bucket)
		t.BucketS.Append(b, 60)
		t.DeviceID.Append(b, key.device)
		t.Rank.Append(b, key.rank)
		t.Host.AppendString(b, a.host)
		t.JobID.AppendString(b, a.job)
		t.Events.Append(b, a.events)
		t.AllocatedSum.Append(b, a.allocated)
		t.AllocatedPeak.Append(b, a.allocatedPeak)
		t.ReservedSum.Append(b, a.reserved)
		t.ReservedPeak.Append(b, a.reservedPeak)
		t.ActiveEvents.Append(b, a.activeEvents)
		t.ActiveSum.Append(b, a.active)
		t.ActivePeak.Append(b, a.activePeak)
		t.UsedSum.Append(b, a.used)
		t.UsedPeak.Append(b, a.usedPeak)
		t.TotalPeak.Append(b, a.total)
		t.Allocations.Append(b, a.allocations)
		t.AllocationBytes.Append(b, a.allocationBytes)
		t.Deallocations.Append(b, a.deallocations)
		t.DeallocationBytes.Append(b, a.deallocationBytes)
		t.FragmentedEvents.Append(b, a.fragmentedEvents)
		t.FragmentationPPB.Append(b, a.fragmentation)
		t.FragmentationPeak.Append(b, a.fragmentationPeak)
		t.UtilizationEvents.Append(b, a.utilizedEvents)
		t.UtilizationPPB.Append(b, a.utilization)
		t.UtilizationPeak.Append(b, a.utilizationPeak)
		t.Warnings.Append(b, a.warnings)
		t.Criticals.Append(b, a.criticals)
		t.WorldSize.Append(b, a.world)
		t.NoAllocated.Append(b, a.noAllocated)
		t.NoReserved.Append(b, a.noReserved)
		t.NoUsed.Append(b, a.noUsed)
		t.InactiveEvents.Append(b, a.inactiveEvents)
		t.InactivePPB.Append(b, a.inactive)
		t.InactivePeak.Append(b, a.inactivePeak)
		t.ReceivedDay.Append(b, s.ReceivedDay())
	}
	s.minutes = nil
}
