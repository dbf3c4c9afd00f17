package aggregate

import (
	"slices"

	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
)

// jobStart folds a job_start line: what the session runs on.
func (f *folder) jobStart(s *session, p *part, l *gpuflight.Line) {
	job, err := gpuflight.DecodeJobStart(l)
	if err != nil {
		f.refuse(s, p, l, err)
		return
	}
	f.stored(s, p, 1)
	f.leftovers(s, p, l)
	f.jobFacts(s, p, l, &job)
	s.app, s.pid, s.vendor = clip(job.App), clampU32(job.PID), clip(job.Vendor())
	if job.Hostname != "" {
		s.host = clip(job.Hostname)
	}
	s.ip = clip(job.IP)
	s.clock.sampleMS = max(s.clock.sampleMS, clampU32(job.SystemRateMS))
	s.delta.began(job.TimeNS)
	s.delta.sawEvent(job.TimeNS)
	s.delta.runID, s.delta.kind, s.delta.engine = clip(job.RunID), clip(job.SessionKind), clip(job.ProfilingEngine)
	if job.RunID != "" {
		s.delta.segment, s.delta.hasSegment = segmentIndex(job.SegmentIndex), true
	}
	f.jobRun(s, p, &job)
	static := map[int64]*gpuflight.StaticDevice{}
	for i := range job.StaticDevices {
		static[job.StaticDevices[i].ID] = &job.StaticDevices[i]
	}
	for i := range job.Devices {
		d := &job.Devices[i]
		f.device(s, p, d.ID, d, static[d.ID])
		delete(static, d.ID)
	}
	for i := range job.StaticDevices { // a device without a snapshot
		if d := &job.StaticDevices[i]; static[d.ID] == d {
			f.device(s, p, d.ID, &gpuflight.Device{Name: d.Name, UUID: d.UUID, Vendor: d.Vendor}, d)
		}
	}
}

// maxSessionDevices of a session get a row in `devices`: they are state, and looked through one by one. No host has a tenth as many.
const maxSessionDevices = 1024

// device writes a row of `devices` for a device that the session has not named before.
func (f *folder) device(s *session, p *part, id int64, d *gpuflight.Device, static *gpuflight.StaticDevice) {
	if id < 0 || id > 1<<30 || len(s.deviceIDs) >= maxSessionDevices || slices.Contains(s.deviceIDs, int32(id)) {
		return
	}
	if static == nil {
		static = &gpuflight.StaticDevice{}
	}
	f.deviceRow(s, p, int32(id), d, static, fromMiB(d.TotalMiB))
}

// deviceRow writes a row of `devices` and remembers that it did.
func (f *folder) deviceRow(s *session, p *part, id int32, d *gpuflight.Device, static *gpuflight.StaticDevice, totalBytes uint64) {
	s.deviceIDs = append(s.deviceIDs, id)
	table.Devices.Append(f.facts(p, table.Devices.Table), &table.DeviceRow{
		HeadRow:                s.head(),
		DeviceID:               id,
		UUID:                   d.UUID,
		Name:                   d.Name,
		Vendor:                 d.Vendor,
		Architecture:           static.Architecture,
		SMCount:                uint32(min(static.MultiProcessorCount, 1<<32-1)),
		TotalBytes:             totalBytes,
		ComputeMajor:           clampU32(static.ComputeMajor),
		ComputeMinor:           clampU32(static.ComputeMinor),
		L2CacheSizeBytes:       static.L2CacheSizeBytes,
		SharedMemPerBlockBytes: static.SharedMemPerBlockBytes,
		RegsPerBlock:           uint32(min(static.RegsPerBlock, 1<<32-1)),
		WarpSize:               uint32(min(static.WarpSize, 1<<32-1)),
		ReceivedDay:            dayOf(p.env.ReceivedAt),
	})
}

// jobEnd folds a shutdown line.
func (f *folder) jobEnd(s *session, p *part, l *gpuflight.Line) {
	end, err := gpuflight.DecodeShutdown(l)
	if err != nil {
		f.refuse(s, p, l, err)
		return
	}
	f.stored(s, p, 1)
	f.leftovers(s, p, l)
	s.shutdown = true
	s.delta.sawEvent(end.TimeNS)
	e := sessionEnd{rank: table.EndShutdown, at: end.TimeNS, synthetic: end.Synthetic, exitCode: end.ExitCode, signal: end.Signal, windowStopped: end.WindowStopped}
	if end.Crashed || end.Signaled {
		e.rank, s.delta.crashed = table.EndCrash, true
	}
	f.end(s, p, e)
}

// complete folds the client's session-complete. It does not say how the session ended, and may come before the last windows.
func (f *folder) complete(s *session, p *part) {
	s.completed = true
	f.end(s, p, sessionEnd{rank: table.EndComplete, at: p.env.ReceivedAt})
}

// flushSession writes what the open chunk adds to the session's row.
func (f *folder) flushSession(s *session) {
	d := &s.delta
	segment := int32(-1)
	if d.hasSegment {
		segment = d.segment
	}
	table.Sessions.Append(f.out.batch(table.Sessions.Table, f.factPartition(s)), &table.SessionRow{
		HeadRow:         s.head(),
		Source:          s.source,
		App:             s.app,
		Host:            s.host,
		IP:              s.ip,
		PID:             s.pid,
		StartedAt:       orUnknown(d.startedAt),
		FirstEventAt:    orUnknown(d.firstEvent),
		LastEventAt:     d.lastEvent,
		LastReceivedAt:  s.lastReceived,
		EndedAt:         d.endedAt,
		EndReason:       d.endReason,
		Completed:       flag(s.completed || s.shutdown),
		Crashed:         flag(d.crashed),
		RunID:           d.runID,
		SegmentIndex:    segment,
		SessionKind:     d.kind,
		ProfilingEngine: d.engine,
		Vendor:          s.vendor,
		ClockOffsetNS:   uint64(s.clock.offset),
		SystemRateMS:    s.clock.sampleMS,
		Devices:         uint32(len(s.deviceIDs)),
		Kernels:         d.kernels,
		Samples:         d.samples,
		Events:          d.events,
		Bytes:           d.bytes,
		Rejects:         d.rejects,
		ReceivedDay:     s.receivedDay(),
	})
	s.delta = sessionDelta{}
}

func orUnknown(ns int64) int64 {
	if ns <= 0 {
		return table.UnknownTime
	}
	return ns
}

func flag(v bool) uint8 {
	if v {
		return 1
	}
	return 0
}
