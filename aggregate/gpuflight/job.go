package gpuflight

import (
	"slices"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
)

// jobStart folds a job_start line: what the session runs on.
func (f *folding) jobStart(s *session, p *aggregate.Part, l *gpuflight.Line) {
	job, err := gpuflight.DecodeJobStart(l)
	if err != nil {
		f.refuse(s, p, l, err)
		return
	}
	p.Stored(1)
	f.leftovers(s, p, l)
	f.jobFacts(s, p, l, &job)
	s.App, s.PID, s.Vendor = rows.Clip(job.App), rows.ClampU32(job.PID), rows.Clip(job.Vendor())
	if job.Hostname != "" {
		s.Host = rows.Clip(job.Hostname)
	}
	s.IP = rows.Clip(job.IP)
	s.Clock.SampleMS = max(s.Clock.SampleMS, rows.ClampU32(job.SystemRateMS))
	s.Delta.Began(job.TimeNS)
	s.Delta.SawEvent(job.TimeNS)
	s.Delta.RunID, s.Delta.Kind, s.Delta.Engine = rows.Clip(job.RunID), rows.Clip(job.SessionKind), rows.Clip(job.ProfilingEngine)
	if job.RunID != "" {
		s.Delta.Segment, s.Delta.HasSegment = segmentIndex(job.SegmentIndex), true
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

// maxSessionDevices is how many devices of a session get a row in `devices`: they are state, and searched one by one. A host does not have
// a tenth as many.
const maxSessionDevices = 1024

// device writes a row of `devices` for a device that the session has not named before.
func (f *folding) device(s *session, p *aggregate.Part, id int64, d *gpuflight.Device, static *gpuflight.StaticDevice) {
	if id < 0 || id > 1<<30 || len(s.DeviceIDs) >= maxSessionDevices || slices.Contains(s.DeviceIDs, int32(id)) {
		return
	}
	if static == nil {
		static = &gpuflight.StaticDevice{}
	}
	f.AddDevice(p, &aggregate.Device{
		ID: int32(id), UUID: d.UUID, Name: d.Name, Vendor: d.Vendor, Architecture: static.Architecture,
		Multiprocessors:        uint32(min(static.MultiProcessorCount, 1<<32-1)),
		TotalBytes:             rows.FromMiB(d.TotalMiB),
		ComputeMajor:           rows.ClampU32(static.ComputeMajor),
		ComputeMinor:           rows.ClampU32(static.ComputeMinor),
		L2CacheSizeBytes:       static.L2CacheSizeBytes,
		SharedMemPerBlockBytes: static.SharedMemPerBlockBytes,
		RegsPerBlock:           uint32(min(static.RegsPerBlock, 1<<32-1)),
		WarpSize:               uint32(min(static.WarpSize, 1<<32-1)),
	})
}

// jobEnd folds a shutdown line.
func (f *folding) jobEnd(s *session, p *aggregate.Part, l *gpuflight.Line) {
	end, err := gpuflight.DecodeShutdown(l)
	if err != nil {
		f.refuse(s, p, l, err)
		return
	}
	p.Stored(1)
	f.leftovers(s, p, l)
	s.Shutdown = true
	s.Delta.SawEvent(end.TimeNS)
	e := aggregate.SessionEnd{Rank: table.EndShutdown, At: end.TimeNS, Synthetic: end.Synthetic, ExitCode: end.ExitCode, Signal: end.Signal,
		WindowStopped: end.WindowStopped}
	if end.Crashed || end.Signaled {
		e.Rank, s.Delta.Crashed = table.EndCrash, true
	}
	f.End(p, e)
}
