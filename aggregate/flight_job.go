package aggregate

import (
	"slices"

	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
)

// jobStart folds a job_start line: what the session runs on.
func (f *flight) jobStart(s *flightSession, p *part, l *gpuflight.Line) {
	job, err := gpuflight.DecodeJobStart(l)
	if err != nil {
		f.refuse(s, p, l, err)
		return
	}
	p.stored(1)
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
func (f *flight) device(s *flightSession, p *part, id int64, d *gpuflight.Device, static *gpuflight.StaticDevice) {
	if id < 0 || id > 1<<30 || len(s.deviceIDs) >= maxSessionDevices || slices.Contains(s.deviceIDs, int32(id)) {
		return
	}
	if static == nil {
		static = &gpuflight.StaticDevice{}
	}
	f.addDevice(p, &device{
		id: int32(id), uuid: d.UUID, name: d.Name, vendor: d.Vendor, architecture: static.Architecture, multiprocessors: uint32(min(static.MultiProcessorCount, 1<<32-1)),
		totalBytes: fromMiB(d.TotalMiB), computeMajor: clampU32(static.ComputeMajor), computeMinor: clampU32(static.ComputeMinor), l2CacheSizeBytes: static.L2CacheSizeBytes,
		sharedMemPerBlockBytes: static.SharedMemPerBlockBytes, regsPerBlock: uint32(min(static.RegsPerBlock, 1<<32-1)), warpSize: uint32(min(static.WarpSize, 1<<32-1)),
	})
}

// jobEnd folds a shutdown line.
func (f *flight) jobEnd(s *flightSession, p *part, l *gpuflight.Line) {
	end, err := gpuflight.DecodeShutdown(l)
	if err != nil {
		f.refuse(s, p, l, err)
		return
	}
	p.stored(1)
	f.leftovers(s, p, l)
	s.shutdown = true
	s.delta.sawEvent(end.TimeNS)
	e := sessionEnd{rank: table.EndShutdown, at: end.TimeNS, synthetic: end.Synthetic, exitCode: end.ExitCode, signal: end.Signal, windowStopped: end.WindowStopped}
	if end.Crashed || end.Signaled {
		e.rank, s.delta.crashed = table.EndCrash, true
	}
	f.end(p, e)
}
