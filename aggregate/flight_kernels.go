package aggregate

import (
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
)

// kernelRow is one kernel as it waits for its kernel_detail.
type kernelRow struct {
	kernel
	emitted            bool // the raw row went out without its detail; only the rollup still waits
	dead               bool // matched or given up; the slot is free
	receivedAt, heldAt int64
	retentionDays      uint16
}

// kernels folds one kernel_event_batch.
func (f *flight) kernels(s *flightSession, p *Part, line *gpuflight.Line) {
	batch := line.Batch
	device := s.device()
	emit := s.kernels.emitter(p.Env.ReceivedAt, p.Env.RetentionDays)
	for r := range batch.Rows() {
		row := batch.Row(r)
		start, ok := batch.Time(r)
		if !ok {
			f.badTime(s, p, line)
			continue
		}
		start = f.activityTime(s, p, start)
		s.Delta.kernels++
		s.Delta.SawEvent(start)
		k := kernel{
			start: start, duration: row[gpuflight.KernelDurationNS], stream: uint64(row[gpuflight.KernelStreamID]), externalID: uint64(row[gpuflight.KernelExternalID]),
			kernel: uint32(row[gpuflight.KernelID]), corr: uint32(row[gpuflight.KernelCorrID]), dyn: uint32(max(row[gpuflight.KernelDynShared], 0)),
			regs: uint32(max(row[gpuflight.KernelNumRegs], 0)), externalKind: uint8(row[gpuflight.KernelExternalKind]), device: device,
		}
		if row[gpuflight.KernelHasDetails] == 0 {
			emit.row(&k, 0)
			s.kernels.acc(s.kernels.slot(k.kernel), 0, rows.BucketOf(start)).add(uint64(k.duration))
			continue
		}
		f.joinKernel(s, emit, kernelRow{kernel: k, receivedAt: p.Env.ReceivedAt, retentionDays: p.Env.RetentionDays, heldAt: p.Now})
	}
}
