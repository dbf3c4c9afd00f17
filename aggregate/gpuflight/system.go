package gpuflight

import (
	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
)

// system folds a system_start or system_stop line.
func (f *folding) system(s *session, p *aggregate.Part, l *gpuflight.Line) error {
	e, err := f.events.System(l.Raw)
	if err != nil {
		return err
	}
	s.Delta.SawEvent(e.TimeNS)
	kind := "start"
	if l.Type == gpuflight.SystemStop {
		kind = "stop"
	}
	t := &table.SystemEvents
	b := f.factBatch(p, t.Table, t.Head)
	t.At.Append(b, e.TimeNS)
	t.Name.Append(b, t.Name.IndexBytes(b, e.Name))
	t.Kind.AppendString(b, kind)
	t.PID.Append(b, e.PID)
	t.App.Append(b, t.App.IndexBytes(b, e.App))
	t.CPUPct.Append(b, float32(e.Host.CPUPct))
	t.RAMUsedBytes.Append(b, rows.FromMiB(e.Host.RAMUsedMiB))
	t.RAMTotalBytes.Append(b, rows.FromMiB(e.Host.RAMTotalMiB))
	t.ReceivedDay.Append(b, rows.DayOf(p.Env.ReceivedAt))
	f.deviceSnapshots(s, p, "system_"+kind, e.TimeNS, e.Devices)
	return nil
}

// deviceSnapshots writes how the devices of a line were.
func (f *folding) deviceSnapshots(s *session, p *aggregate.Part, kind string, at int64, devices []gpuflight.Device) {
	t := &table.DeviceSnapshots
	for i := range devices {
		d := &devices[i]
		b := f.factBatch(p, t.Table, t.Head)
		t.At.Append(b, at)
		t.Kind.AppendString(b, kind)
		t.DeviceID.Append(b, rows.ClampI32(d.ID))
		t.UUID.AppendString(b, d.UUID)
		t.Name.AppendString(b, d.Name)
		t.Vendor.AppendString(b, d.Vendor)
		t.PCIBus.Append(b, rows.ClampI32(d.PCIBus))
		t.UsedBytes.Append(b, rows.FromMiB(d.UsedMiB))
		t.FreeBytes.Append(b, rows.FromMiB(d.FreeMiB))
		t.TotalBytes.Append(b, rows.FromMiB(d.TotalMiB))
		t.UtilGPUPct.Append(b, float32(d.UtilGPUPct))
		t.UtilMemPct.Append(b, float32(d.UtilMemPct))
		t.TempC.Append(b, float32(d.TempC))
		t.PowerW.Append(b, float32(float64(d.PowerMW)/1000))
		t.ClkGfxMHz.Append(b, uint32(min(d.ClkGfxMHz, 1<<32-1)))
		t.ClkSMMHz.Append(b, uint32(min(d.ClkSMMHz, 1<<32-1)))
		t.ClkMemMHz.Append(b, uint32(min(d.ClkMemMHz, 1<<32-1)))
		t.ThrottlePwr.Append(b, rows.Flag(d.ThrottlePower != 0))
		t.ThrottleTherm.Append(b, rows.Flag(d.ThrottleThermal != 0))
		t.PCIeRxBwBPS.Append(b, d.PCIeRxBps)
		t.PCIeTxBwBPS.Append(b, d.PCIeTxBps)
		t.ReceivedDay.Append(b, rows.DayOf(p.Env.ReceivedAt))
	}
}

// jobFacts writes what a job_start line says beside the session's row and its devices.
func (f *folding) jobFacts(s *session, p *aggregate.Part, l *gpuflight.Line, job *gpuflight.Job) {
	at := max(job.TimeNS, 0)
	segment := int32(-1)
	if job.RunID != "" {
		segment = rows.ClampI32(job.SegmentIndex)
	}
	t := &table.JobStarts
	b := f.factBatch(p, t.Table, t.Head)
	t.At.Append(b, at)
	t.PID.Append(b, rows.ClampU32(job.PID))
	t.App.AppendString(b, job.App)
	t.LogPath.Append(b, job.LogPath)
	t.Hostname.AppendString(b, job.Hostname)
	t.IP.AppendString(b, job.IP)
	t.CPUPct.Append(b, float32(job.Host.CPUPct))
	t.RAMUsedBytes.Append(b, rows.FromMiB(job.Host.RAMUsedMiB))
	t.RAMTotalBytes.Append(b, rows.FromMiB(job.Host.RAMTotalMiB))
	t.SessionKind.AppendString(b, job.SessionKind)
	t.ProfilingEngine.AppendString(b, job.ProfilingEngine)
	t.AnalysisID.AppendString(b, job.AnalysisID)
	t.PassIndex.Append(b, rows.ClampU32(job.PassIndex))
	t.PassCount.Append(b, rows.ClampU32(job.PassCount))
	t.RunID.AppendString(b, job.RunID)
	t.SegmentIndex.Append(b, segment)
	t.RollChainID.AppendString(b, job.RollChainID)
	t.PartIndex.Append(b, rows.ClampU32(job.PartIndex))
	t.PreviousRunID.AppendString(b, job.PreviousRunID)
	t.ReceivedDay.Append(b, rows.DayOf(p.Env.ReceivedAt))
	f.deviceSnapshots(s, p, "job_start", at, job.Devices)
}
