package gpuflight

import (
	"encoding/binary"
	"math"
	"strings"

	"github.com/warpline/warpline/proto/jsonscan"
)

// Older is one line of the types that clients wrote before there were batches: one event a line, its names as text. Fields the line
// lacks are zero. Texts are valid UTF-8 and alias the line where they can, so they are good as long as the line is.
type Older struct {
	Type Type
	PID  int64
	App  []byte

	// AtNS is start_ns, or ts_ns of types that are a moment; never negative. 0 for a profile_sample without a time. DurationNS is
	// duration_ns, or end_ns less start_ns.
	AtNS, DurationNS int64

	Name       []byte // kernel, scope or sample
	UserScope  []byte // "outer|inner", "global" or ""
	StackTrace []byte // "outer|…|inner" or ""
	ScopeDepth int64
	DeviceID   int32 // -1: the line has none
	StreamID   uint64
	CorrID     uint32

	// kernel_event: what kernel_detail has today, and two columns of the batch.
	DynSharedBytes, NumRegs int64
	config                  olderConfig

	// memcpy_event, and Bytes of memory_alloc_event. CopyKind is text where the line has text, else CopyKindID is its number.
	Bytes      uint64
	CopyKind   []byte
	CopyKindID uint32

	// profile_sample. PC and Metric say which parts it has; one line may have both.
	PC           bool
	SampleCount  uint64
	StallReason  []byte // reason_name, else stall_reason where that is text
	StallCode    uint32 // stall_reason where it is a number
	Metric       bool
	MetricName   []byte
	MetricValue  uint64
	PCOffset     uint64
	FunctionName []byte // often name@file
	SourceFile   []byte
	SourceLine   uint32

	// synchronization_event and memory_alloc_event. Codes are those of today's batches, text turned into them.
	SyncType             uint8
	EventID, ContextID   uint32
	MemoryOp, MemoryKind uint8
	Address              uint64

	// system_sample; scopes have it too.
	HasHost bool
	Host    HostSnapshot
	Devices []DeviceSample // reused by the next DecodeOlder into the same Older
}

// DeviceSample is one GPU of a system_sample.
type DeviceSample struct {
	ID, TempC                       int64
	UsedMiB, FreeMiB, TotalMiB      uint64
	UtilGPUPct, UtilMemPct, PowerMW uint64
	ClkSMMHz, ClkMemMHz             uint64
	PCIeRxBps, PCIeTxBps            uint64 // bytes a second
}

// olderConfig is the launch configuration of a kernel_event.
type olderConfig struct {
	grid, block, limiting                   []byte
	shared, local, constant, active         int64
	spillTotal, spillThread                 int64
	cacheRequested, cacheExecuted, carveout int64
	occupancy                               [5]float64
}

// Fields of an Older, to tell which were there. Two spellings of one field share its bit.
const (
	oldPID uint64 = 1 << iota
	oldApp
	oldStart
	oldEnd
	oldDuration
	oldAt
	oldName
	oldUserScope
	oldStackTrace
	oldDepth
	oldDevice
	oldStream
	oldCorr
	oldDynShared
	oldRegs
	oldGrid
	oldBlock
	oldLimiting
	oldShared
	oldLocal
	oldConst
	oldActive
	oldSpillTotal
	oldSpillThread
	oldCacheRequested
	oldCacheExecuted
	oldCarveout
	oldOccupancy
	oldRegOccupancy
	oldSmemOccupancy
	oldWarpOccupancy
	oldBlockOccupancy
	oldBytes
	oldCopyKind
	oldSampleCount
	oldStallReason
	oldReasonName
	oldMetricName
	oldMetricValue
	oldPCOffset
	oldFunction
	oldSourceFile
	oldSourceLine
	oldSyncType
	oldEvent
	oldContext
	oldMemoryOp
	oldMemoryKind
	oldAddress
	oldHost
	oldDevices
)

// DecodeOlder decodes a line of one of the older types t: kernel_event, memcpy_event, scope_begin, scope_end, profile_sample,
// synchronization_event, memory_alloc_event or system_sample (init is DecodeJobStart's). It overwrites o. Of a repeated key the first
// counts; null is the same as no key; a number may stand in quotes, in decimal or as 0x and hex digits.
//
// Errors are *LineError: bad_json, missing_field, bad_value, out_of_range, negative_duration or bad_time. Do not use o then.
func DecodeOlder(line []byte, t Type, o *Older) error {
	*o = Older{Type: t, DeviceID: -1, Devices: o.Devices[:0]}
	r := olderReader{m: walkObject(line, 0)}
	var code struct{ stall, sync, op, kind int64 }
	var end, copyKind, metric int64
	var stall, reason, sync, op, kind []byte
	for r.m.next() {
		ok := false
		switch c := &o.config; string(r.m.key) {
		case "pid":
			ok = r.integer(oldPID, KindI64, &o.PID)
		case "app":
			ok = r.text(oldApp, &o.App)
		case "start_ns":
			ok = r.integer(oldStart, KindI64, &o.AtNS)
		case "ts_ns":
			if r.have&oldStart != 0 {
				ok = r.m.skip()
				break
			}
			ok = r.integer(oldAt, KindI64, &o.AtNS)
		case "end_ns":
			ok = r.integer(oldEnd, KindI64, &end)
		case "duration_ns":
			ok = r.integer(oldDuration, KindDuration, &o.DurationNS)
		case "name":
			ok = r.text(oldName, &o.Name)
		case "user_scope":
			ok = r.text(oldUserScope, &o.UserScope)
		case "stack_trace":
			ok = r.text(oldStackTrace, &o.StackTrace)
		case "scope_depth":
			ok = r.integer(oldDepth, KindI64, &o.ScopeDepth)
		case "device_id":
			v := int64(-1)
			ok = r.integer(oldDevice, KindI32, &v)
			o.DeviceID = int32(v)
		case "stream_id":
			ok = r.unsigned(oldStream, &o.StreamID)
		case "corr_id":
			ok = r.u32(oldCorr, &o.CorrID)
		case "dyn_shared_bytes":
			ok = r.integer(oldDynShared, KindI64, &o.DynSharedBytes)
		case "num_regs":
			ok = r.integer(oldRegs, KindI64, &o.NumRegs)
		case "grid":
			ok = r.text(oldGrid, &c.grid)
		case "block":
			ok = r.text(oldBlock, &c.block)
		case "limiting_resource":
			ok = r.text(oldLimiting, &c.limiting)
		case "static_shared_bytes":
			ok = r.integer(oldShared, KindI64, &c.shared)
		case "local_bytes":
			ok = r.integer(oldLocal, KindI64, &c.local)
		case "const_bytes":
			ok = r.integer(oldConst, KindI64, &c.constant)
		case "max_active_blocks":
			ok = r.integer(oldActive, KindI64, &c.active)
		case "local_mem_total", "local_mem_total_bytes":
			ok = r.integer(oldSpillTotal, KindI64, &c.spillTotal)
		case "local_mem_per_thread", "local_mem_per_thread_bytes":
			ok = r.integer(oldSpillThread, KindI64, &c.spillThread)
		case "cache_config_requested":
			ok = r.integer(oldCacheRequested, KindI64, &c.cacheRequested)
		case "cache_config_executed":
			ok = r.integer(oldCacheExecuted, KindI64, &c.cacheExecuted)
		case "shared_mem_executed", "shared_mem_executed_bytes":
			ok = r.integer(oldCarveout, KindI64, &c.carveout)
		case "occupancy":
			ok = r.float(oldOccupancy, &c.occupancy[0])
		case "reg_occupancy":
			ok = r.float(oldRegOccupancy, &c.occupancy[1])
		case "smem_occupancy":
			ok = r.float(oldSmemOccupancy, &c.occupancy[2])
		case "warp_occupancy":
			ok = r.float(oldWarpOccupancy, &c.occupancy[3])
		case "block_occupancy":
			ok = r.float(oldBlockOccupancy, &c.occupancy[4])
		case "bytes":
			ok = r.unsigned(oldBytes, &o.Bytes)
		case "copy_kind":
			ok = r.coded(oldCopyKind, KindU32, &copyKind, &o.CopyKind)
		case "sample_count":
			ok = r.unsigned(oldSampleCount, &o.SampleCount)
		case "stall_reason":
			ok = r.coded(oldStallReason, KindU32, &code.stall, &stall)
		case "reason_name":
			ok = r.text(oldReasonName, &reason)
		case "metric_name":
			ok = r.text(oldMetricName, &o.MetricName)
		case "metric_value":
			ok = r.integer(oldMetricValue, KindU64, &metric)
		case "pc_offset":
			ok = r.unsigned(oldPCOffset, &o.PCOffset)
		case "function_name":
			ok = r.text(oldFunction, &o.FunctionName)
		case "source_file":
			ok = r.text(oldSourceFile, &o.SourceFile)
		case "source_line":
			ok = r.u32(oldSourceLine, &o.SourceLine)
		case "sync_type":
			ok = r.coded(oldSyncType, KindU8, &code.sync, &sync)
		case "event_id":
			ok = r.u32(oldEvent, &o.EventID)
		case "context_id":
			ok = r.u32(oldContext, &o.ContextID)
		case "memory_op":
			ok = r.coded(oldMemoryOp, KindU8, &code.op, &op)
		case "memory_kind":
			ok = r.coded(oldMemoryKind, KindU8, &code.kind, &kind)
		case "address":
			ok = r.unsigned(oldAddress, &o.Address)
		case "host":
			ok = r.host(o)
		case "devices":
			ok = r.devices(o)
		default:
			ok = r.m.skip()
		}
		if !ok {
			return badJSON(line, r.m.i)
		}
	}
	if !r.m.ok || jsonscan.Space(line, r.m.i) != len(line) {
		return badJSON(line, r.m.i)
	}
	o.CopyKindID, o.MetricValue, o.StallCode = uint32(copyKind), uint64(metric), uint32(code.stall)
	o.StallReason = reason
	if len(reason) == 0 {
		o.StallReason = stall
	}
	o.SyncType = codeOf(sync, uint8(code.sync), olderSyncTypes)
	o.MemoryOp = codeOf(op, uint8(code.op), olderMemoryOps)
	o.MemoryKind = codeOf(kind, uint8(code.kind), olderMemoryKinds)
	r.complete(o, end)
	return orNil(r.fail)
}

// complete checks what the type cannot do without, and works out what follows from other fields.
func (r *olderReader) complete(o *Older, end int64) {
	missing := func(field uint64, name string) {
		if r.have&field == 0 {
			note(&r.fail, ReasonMissingField, name)
		}
	}
	switch o.Type {
	case KernelEvent, MemcpyEvent, SynchronizationEvent, MemoryAllocEvent:
		missing(oldStart, "start_ns")
	case ScopeBegin, ScopeEnd, SystemSample:
		missing(oldStart|oldAt, "ts_ns")
	case ProfileSample:
		o.PC = r.have&(oldSampleCount|oldStallReason|oldReasonName) != 0
		o.Metric = r.have&(oldMetricName|oldMetricValue) != 0
		if !o.PC && !o.Metric {
			note(&r.fail, ReasonMissingField, "neither stall_reason nor metric_name")
		}
		if o.PC && r.have&oldSampleCount == 0 {
			o.SampleCount = 1
		}
	}
	switch o.Type {
	case KernelEvent, MemcpyEvent, SynchronizationEvent:
		if r.have&oldDuration != 0 {
			break
		}
		missing(oldEnd, "end_ns")
		o.DurationNS = end - o.AtNS
		if end < o.AtNS {
			note(&r.fail, ReasonNegativeDuration, "end_ns is before start_ns")
		}
	case ScopeBegin, ScopeEnd:
		missing(oldName|oldUserScope, "name")
	}
	if o.AtNS < 0 {
		note(&r.fail, ReasonBadTime, "the time is before 1970")
	}
}

// HasConfig reports whether a kernel_event says anything that kernel_detail says today.
func (o *Older) HasConfig() bool {
	c := &o.config
	return len(c.grid)+len(c.block)+len(c.limiting)+len(o.UserScope)+len(o.StackTrace) > 0 ||
		c.shared|c.local|c.constant|c.active|c.spillTotal|c.spillThread|c.cacheRequested|c.cacheExecuted|c.carveout != 0 ||
		c.occupancy != [5]float64{}
}

// AppendConfig appends bytes that are equal for equal launch configurations and different for different ones.
func (o *Older) AppendConfig(dst []byte) []byte {
	c := &o.config
	for _, s := range [...][]byte{c.grid, c.block, c.limiting, o.UserScope, o.StackTrace} {
		dst = binary.AppendUvarint(dst, uint64(len(s)))
		dst = append(dst, s...)
	}
	for _, v := range [...]int64{c.shared, c.local, c.constant, c.active, c.spillTotal, c.spillThread,
		c.cacheRequested, c.cacheExecuted, c.carveout} {
		dst = binary.AppendVarint(dst, v)
	}
	for _, v := range c.occupancy {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
	}
	return dst
}

// Detail returns the launch configuration of a kernel_event as the kernel_detail that today's client would write for it.
func (o *Older) Detail() Detail {
	c := &o.config
	return Detail{
		PID: o.PID, App: string(o.App), CorrID: o.CorrID, Grid: string(c.grid), Block: string(c.block),
		StaticSharedBytes: c.shared, LocalBytes: c.local, ConstBytes: c.constant,
		Occupancy: c.occupancy[0], RegOccupancy: c.occupancy[1], SmemOccupancy: c.occupancy[2], WarpOccupancy: c.occupancy[3],
		BlockOccupancy:   c.occupancy[4],
		LimitingResource: strings.ToLower(string(c.limiting)), MaxActiveBlocks: c.active,
		LocalMemTotalBytes: c.spillTotal, LocalMemPerThread: c.spillThread,
		CacheConfigRequested: c.cacheRequested, CacheConfigExecuted: c.cacheExecuted, SharedMemExecuted: c.carveout,
		UserScope: string(o.UserScope), StackTrace: string(o.StackTrace),
	}
}
