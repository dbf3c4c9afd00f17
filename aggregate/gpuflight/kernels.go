package gpuflight

import (
	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/activity"
	"github.com/warpline/warpline/proto/gpuflight"
)

// kernelRow is one kernel as it waits for its kernel_detail.
type kernelRow struct {
	activity.Kernel
	emitted            bool // the raw row went out without its detail; only the rollup still waits
	dead               bool // matched or given up; the slot is free
	receivedAt, heldAt int64
	retentionDays      uint16
}

// kernels folds one kernel_event_batch.
func (f *folding) kernels(s *session, p *aggregate.Part, line *gpuflight.Line) {
	batch := line.Batch
	device := s.Device()
	emit := s.kernels.Emitter(p.Env.ReceivedAt, p.Env.RetentionDays)
	delta := &s.Delta
	for r := range batch.Rows() {
		row := batch.Row(r)
		start, ok := batch.Time(r)
		if !ok {
			f.badTime(s, p, line)
			continue
		}
		start = f.activityTime(s, p, start)
		delta.Kernels++
		delta.SawEvent(start)
		k := activity.Kernel{
			Start: start, Duration: row[gpuflight.KernelDurationNS], Stream: uint64(row[gpuflight.KernelStreamID]),
			ExternalID: uint64(row[gpuflight.KernelExternalID]), ExternalKind: uint8(row[gpuflight.KernelExternalKind]),
			ID: uint32(row[gpuflight.KernelID]), Corr: uint32(row[gpuflight.KernelCorrID]), Device: device,
			Dyn: uint32(max(row[gpuflight.KernelDynShared], 0)), Regs: uint32(max(row[gpuflight.KernelNumRegs], 0)),
		}
		if row[gpuflight.KernelHasDetails] == 0 {
			emit.Add(&k, 0, 0)
			continue
		}
		f.joinKernel(s, emit, kernelRow{Kernel: k, receivedAt: p.Env.ReceivedAt, retentionDays: p.Env.RetentionDays, heldAt: p.Now})
	}
}
