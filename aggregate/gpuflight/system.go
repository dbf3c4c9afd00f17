package gpuflight

import (
	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
	gpuflighttable "github.com/warpline/warpline/sink/table/gpuflight"
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
	gpuflighttable.SystemEvents.Append(f.Facts(p, gpuflighttable.SystemEvents.Table), &gpuflighttable.SystemEventRow{
		HeadRow:       s.Head(),
		At:            e.TimeNS,
		Name:          string(e.Name),
		Kind:          kind,
		PID:           e.PID,
		App:           string(e.App),
		CPUPct:        float32(e.Host.CPUPct),
		RAMUsedBytes:  rows.FromMiB(e.Host.RAMUsedMiB),
		RAMTotalBytes: rows.FromMiB(e.Host.RAMTotalMiB),
		ReceivedDay:   rows.DayOf(p.Env.ReceivedAt),
	})
	f.deviceSnapshots(s, p, "system_"+kind, e.TimeNS, e.Devices)
	return nil
}

// deviceSnapshots writes the state of the devices in a line.
func (f *folding) deviceSnapshots(s *session, p *aggregate.Part, kind string, at int64, devices []gpuflight.Device) {
	for i := range devices {
		d := &devices[i]
		gpuflighttable.DeviceSnapshots.Append(f.Facts(p, gpuflighttable.DeviceSnapshots.Table), &gpuflighttable.DeviceSnapshotRow{
			HeadRow:       s.Head(),
			At:            at,
			Kind:          kind,
			DeviceID:      rows.ClampI32(d.ID),
			UUID:          d.UUID,
			Name:          d.Name,
			Vendor:        d.Vendor,
			PCIBus:        rows.ClampI32(d.PCIBus),
			UsedBytes:     rows.FromMiB(d.UsedMiB),
			FreeBytes:     rows.FromMiB(d.FreeMiB),
			TotalBytes:    rows.FromMiB(d.TotalMiB),
			UtilGPUPct:    float32(d.UtilGPUPct),
			UtilMemPct:    float32(d.UtilMemPct),
			TempC:         float32(d.TempC),
			PowerW:        float32(float64(d.PowerMW) / 1000),
			ClkGfxMHz:     uint32(min(d.ClkGfxMHz, 1<<32-1)),
			ClkSMMHz:      uint32(min(d.ClkSMMHz, 1<<32-1)),
			ClkMemMHz:     uint32(min(d.ClkMemMHz, 1<<32-1)),
			ThrottlePwr:   rows.Flag(d.ThrottlePower != 0),
			ThrottleTherm: rows.Flag(d.ThrottleThermal != 0),
			PCIeRxBwBPS:   d.PCIeRxBps,
			PCIeTxBwBPS:   d.PCIeTxBps,
			ReceivedDay:   rows.DayOf(p.Env.ReceivedAt),
		})
	}
}

// jobFacts writes what a job_start line says in addition to the session's row and its devices.
func (f *folding) jobFacts(s *session, p *aggregate.Part, l *gpuflight.Line, job *gpuflight.Job) {
	at := max(job.TimeNS, 0)
	segment := int32(-1)
	if job.RunID != "" {
		segment = rows.ClampI32(job.SegmentIndex)
	}
	gpuflighttable.JobStarts.Append(f.Facts(p, gpuflighttable.JobStarts.Table), &gpuflighttable.JobStartRow{
		HeadRow:         s.Head(),
		At:              at,
		PID:             rows.ClampU32(job.PID),
		App:             job.App,
		LogPath:         job.LogPath,
		Hostname:        job.Hostname,
		IP:              job.IP,
		CPUPct:          float32(job.Host.CPUPct),
		RAMUsedBytes:    rows.FromMiB(job.Host.RAMUsedMiB),
		RAMTotalBytes:   rows.FromMiB(job.Host.RAMTotalMiB),
		SessionKind:     job.SessionKind,
		ProfilingEngine: job.ProfilingEngine,
		AnalysisID:      job.AnalysisID,
		PassIndex:       rows.ClampU32(job.PassIndex),
		PassCount:       rows.ClampU32(job.PassCount),
		RunID:           job.RunID,
		SegmentIndex:    segment,
		RollChainID:     job.RollChainID,
		PartIndex:       rows.ClampU32(job.PartIndex),
		PreviousRunID:   job.PreviousRunID,
		ReceivedDay:     rows.DayOf(p.Env.ReceivedAt),
	})
	f.deviceSnapshots(s, p, "job_start", at, job.Devices)
}
