package gpuflight

import (
	"fmt"

	"bytes"
	"math"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/activity"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/reject"
)

// Lines of older clients, which wrote one event a line, with its names as text. They are turned into rows of today's batches and folded
// like those, so that one session may have both, and every table, rollup and view has both.

// olderScratch is what folding an older line needs and the next one uses again.
type olderScratch struct {
	event  gpuflight.Older
	batch  gpuflight.Batch
	line   gpuflight.Line
	config []byte
}

// legacyStall returns the id of a stall reason that has a number but no name: the number is then one of a list that never changed.
func (f *folding) legacyStall(s *session, p *aggregate.Part, code uint32) uint32 {
	if code == 0 {
		return 0
	}
	id, _ := f.Intern(p, gpuflight.MetricDict, []byte(gpuflight.LegacyStall(code)))
	return id
}

// olderLine folds a line of an older type. It is known to be new.
func (f *folding) olderLine(s *session, p *aggregate.Part, l *gpuflight.Line) {
	o := &f.older.event
	if err := gpuflight.DecodeOlder(l.Raw, l.Type, o); err != nil {
		f.refuse(s, p, l, err)
		return
	}
	if s.App == "" && len(o.App) > 0 { // the line that says it may be lost
		s.App, s.PID = rows.Clip(string(o.App)), rows.ClampU32(o.PID)
	}
	switch l.Type {
	case gpuflight.KernelEvent:
		f.kernelEvent(s, p, l, o)
	case gpuflight.MemcpyEvent:
		f.memcpyEvent(s, p, o)
	case gpuflight.ScopeBegin, gpuflight.ScopeEnd:
		f.scopeEvent(s, p, l, o)
	case gpuflight.ProfileSample:
		f.profileSample(s, p, l, o)
	case gpuflight.SystemSample:
		f.systemSample(s, p, l, o)
		p.Stored(1)
	case gpuflight.SynchronizationEvent:
		f.syncEvent(s, p, l, o)
	case gpuflight.MemoryAllocEvent:
		f.allocEvent(s, p, l, o)
	}
}

// noName rejects a line with more names than the session may have.
func (f *folding) noName(s *session, p *aggregate.Part, l *gpuflight.Line) {
	detail := fmt.Sprintf("the line's names are beyond the %d that a session may have", p.MostNames())
	f.Reject(p, aggregate.Reject{Reason: reject.DictionaryFull, Detail: detail, Type: typeName(l.Type), Events: 1, Payload: l.Raw})
}

// asBatch returns a line like l that carries an empty batch of another type, to be filled and folded in its place.
func (f *folding) asBatch(l *gpuflight.Line, t gpuflight.Type, at int64) (*gpuflight.Line, *gpuflight.Batch) {
	f.older.batch.Begin(t, at)
	f.older.line = gpuflight.Line{Type: l.Type, TypeName: l.TypeName, SessionID: l.SessionID, BaseTimeNS: at, Batch: &f.older.batch,
		Raw: l.Raw}
	return &f.older.line, &f.older.batch
}

// profileSample folds a profile_sample: one row for the program counter's part, one for the metric's.
func (f *folding) profileSample(s *session, p *aggregate.Part, l *gpuflight.Line, o *gpuflight.Older) {
	function, ok1 := f.Intern(p, gpuflight.FunctionDict, o.FunctionName)
	file, ok2 := f.Intern(p, gpuflight.SourceFileDict, o.SourceFile)
	reason, ok3 := f.Intern(p, gpuflight.MetricDict, o.StallReason)
	metric, ok4 := f.Intern(p, gpuflight.MetricDict, o.MetricName)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		f.noName(s, p, l)
		return
	}
	line, batch := f.asBatch(l, gpuflight.ProfileSampleBatch, o.AtNS)
	add := func(kind, metric uint32, value uint64) {
		row := batch.Add()
		row[gpuflight.ProfileSampleKind], row[gpuflight.ProfileMetricID], row[gpuflight.ProfileMetricValue] = int64(kind), int64(metric),
			int64(value)
		row[gpuflight.ProfileDeviceID], row[gpuflight.ProfileCorrID] = int64(o.DeviceID), int64(o.CorrID)
		row[gpuflight.ProfileFunctionID], row[gpuflight.ProfilePCOffset] = int64(function), int64(o.PCOffset)
		row[gpuflight.ProfileSourceFileID], row[gpuflight.ProfileSourceLine] = int64(file), int64(o.SourceLine)
		row[gpuflight.ProfileStallReason] = int64(o.StallCode)
	}
	if o.PC {
		add(activity.SamplePC, reason, o.SampleCount)
	}
	if o.Metric {
		add(activity.SampleSASS, metric, o.MetricValue)
	}
	f.profileBatch(s, p, line)
	p.Stored(1)
}

// systemSample folds a snapshot of host and GPUs: a system_sample is one, and scope lines contain one.
func (f *folding) systemSample(s *session, p *aggregate.Part, l *gpuflight.Line, o *gpuflight.Older) {
	if o.HasHost {
		line, batch := f.asBatch(l, gpuflight.HostMetricBatch, o.AtNS)
		row := batch.Add()
		row[gpuflight.HostCPUPctX100] = int64(math.Round(min(max(o.Host.CPUPct, 0), 1e6) * 100))
		row[gpuflight.HostRAMUsedMiB], row[gpuflight.HostRAMTotalMiB] = int64(o.Host.RAMUsedMiB), int64(o.Host.RAMTotalMiB)
		f.hostMetrics(s, p, line)
	}
	if len(o.Devices) == 0 {
		return
	}
	line, batch := f.asBatch(l, gpuflight.DeviceMetricBatch, o.AtNS)
	for i := range o.Devices {
		d, row := &o.Devices[i], batch.Add()
		total := d.TotalMiB
		if total == 0 {
			total = d.UsedMiB + d.FreeMiB
		}
		row[gpuflight.DeviceID], row[gpuflight.DeviceTempC] = d.ID, d.TempC
		row[gpuflight.DeviceGPUUtil], row[gpuflight.DeviceMemUtil] = cell32(d.UtilGPUPct), cell32(d.UtilMemPct)
		row[gpuflight.DevicePowerMW], row[gpuflight.DeviceClockSM], row[gpuflight.DeviceClockMem] = cell32(d.PowerMW), cell32(d.ClkSMMHz),
			cell32(d.ClkMemMHz)
		row[gpuflight.DeviceUsedMiB], row[gpuflight.DeviceTotalMiB] = int64(d.UsedMiB), int64(total)
		row[gpuflight.DevicePCIeBwBps] = int64(d.PCIeRxBps + d.PCIeTxBps)
	}
	f.deviceMetrics(s, p, line)
}

// cell32 is a number as a cell of 32 bits.
func cell32(v uint64) int64 { return int64(min(v, 1<<32-1)) }

// leaf returns the last name of a path "outer|inner".
func leaf(path []byte) []byte { return path[bytes.LastIndexByte(path, '|')+1:] }
