package aggregate

import (
	"github.com/warpline/warpline/proto/gpuflight"
	gpuflighttable "github.com/warpline/warpline/sink/table/gpuflight"
)

// system folds a system_start or system_stop line.
func (f *folder) system(s *session, p *part, l *gpuflight.Line) error {
	e, err := f.events.System(l.Raw)
	if err != nil {
		return err
	}
	s.delta.sawEvent(e.TimeNS)
	kind := "start"
	if l.Type == gpuflight.SystemStop {
		kind = "stop"
	}
	gpuflighttable.SystemEvents.Append(f.facts(p, gpuflighttable.SystemEvents.Table), &gpuflighttable.SystemEventRow{
		HeadRow:       s.head(),
		At:            e.TimeNS,
		Name:          string(e.Name),
		Kind:          kind,
		PID:           e.PID,
		App:           string(e.App),
		CPUPct:        float32(e.Host.CPUPct),
		RAMUsedBytes:  fromMiB(e.Host.RAMUsedMiB),
		RAMTotalBytes: fromMiB(e.Host.RAMTotalMiB),
		ReceivedDay:   dayOf(p.env.ReceivedAt),
	})
	f.deviceSnapshots(s, p, "system_"+kind, e.TimeNS, e.Devices)
	return nil
}

// deviceSnapshots writes how the devices of a line were.
func (f *folder) deviceSnapshots(s *session, p *part, kind string, at int64, devices []gpuflight.Device) {
	for i := range devices {
		d := &devices[i]
		gpuflighttable.DeviceSnapshots.Append(f.facts(p, gpuflighttable.DeviceSnapshots.Table), &gpuflighttable.DeviceSnapshotRow{
			HeadRow:       s.head(),
			At:            at,
			Kind:          kind,
			DeviceID:      clampI32(d.ID),
			UUID:          d.UUID,
			Name:          d.Name,
			Vendor:        d.Vendor,
			PCIBus:        clampI32(d.PCIBus),
			UsedBytes:     fromMiB(d.UsedMiB),
			FreeBytes:     fromMiB(d.FreeMiB),
			TotalBytes:    fromMiB(d.TotalMiB),
			UtilGPUPct:    float32(d.UtilGPUPct),
			UtilMemPct:    float32(d.UtilMemPct),
			TempC:         float32(d.TempC),
			PowerW:        float32(float64(d.PowerMW) / 1000),
			ClkGfxMHz:     uint32(min(d.ClkGfxMHz, 1<<32-1)),
			ClkSMMHz:      uint32(min(d.ClkSMMHz, 1<<32-1)),
			ClkMemMHz:     uint32(min(d.ClkMemMHz, 1<<32-1)),
			ThrottlePwr:   flag(d.ThrottlePower != 0),
			ThrottleTherm: flag(d.ThrottleThermal != 0),
			PCIeRxBwBPS:   d.PCIeRxBps,
			PCIeTxBwBPS:   d.PCIeTxBps,
			ReceivedDay:   dayOf(p.env.ReceivedAt),
		})
	}
}

// jobFacts writes what a job_start line says beside the session's row and its devices.
func (f *folder) jobFacts(s *session, p *part, l *gpuflight.Line, job *gpuflight.Job) {
	at := max(job.TimeNS, 0)
	segment := int32(-1)
	if job.RunID != "" {
		segment = clampI32(job.SegmentIndex)
	}
	gpuflighttable.JobStarts.Append(f.facts(p, gpuflighttable.JobStarts.Table), &gpuflighttable.JobStartRow{
		HeadRow:         s.head(),
		At:              at,
		PID:             clampU32(job.PID),
		App:             job.App,
		LogPath:         job.LogPath,
		Hostname:        job.Hostname,
		IP:              job.IP,
		CPUPct:          float32(job.Host.CPUPct),
		RAMUsedBytes:    fromMiB(job.Host.RAMUsedMiB),
		RAMTotalBytes:   fromMiB(job.Host.RAMTotalMiB),
		SessionKind:     job.SessionKind,
		ProfilingEngine: job.ProfilingEngine,
		AnalysisID:      job.AnalysisID,
		PassIndex:       clampU32(job.PassIndex),
		PassCount:       clampU32(job.PassCount),
		RunID:           job.RunID,
		SegmentIndex:    segment,
		RollChainID:     job.RollChainID,
		PartIndex:       clampU32(job.PartIndex),
		PreviousRunID:   job.PreviousRunID,
		ReceivedDay:     dayOf(p.env.ReceivedAt),
	})
	f.deviceSnapshots(s, p, "job_start", at, job.Devices)
}

func clampI32(v int64) int32 { return int32(min(max(v, -1<<31), 1<<31-1)) }
