package activity

import (
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/sink/table"
)

// launchKey is what kernels of one launch have in common; config is 0 while the kernel_detail is not known.
type launchKey struct{ kernel, config, regs, dyn uint32 }

// maxLaunches is how many launches of a session are remembered; beyond it they are forgotten and written again under new ids.
const maxLaunches = 65536

// launch returns the id under which the launch is in `launches`, and writes it there when this owner has not done so. What was written is
// not part of the state: an owner that does not know a launch writes it once more, under an id of its own.
func (e *KernelEmitter) launch(slot *kernelSlot, k launchKey) uint32 {
	if slot.launch != 0 && slot.launched == k { // a kernel is nearly always launched as it was the last time
		return slot.launch
	}
	s := e.k.session
	id, ok := e.k.launches[k]
	if !ok {
		if s.NextLaunch == 0 {
			s.NextLaunch = FirstID(e.receivedAt)
		}
		s.NextLaunch++
		id = s.NextLaunch
		e.writeLaunch(k, id)
	}
	e.k.keepLaunch(slot)
	slot.launch, slot.launched = id, k
	return id
}

// keepLaunch remembers the slot's last launch apart from the slot.
func (k *Kernels) keepLaunch(slot *kernelSlot) {
	if slot.launch == 0 {
		return
	}
	if k.launches == nil || len(k.launches) >= maxLaunches {
		k.launches = map[launchKey]uint32{}
	}
	k.launches[slot.launched] = slot.launch
}

// WriteLaunch writes a launch without a configuration under an id, and lets kernels that are launched so refer to it until Rest. It is for
// a source that remembers itself what it has written.
func (e *KernelEmitter) WriteLaunch(kernel, id uint32) {
	e.writeLaunch(launchKey{kernel: kernel}, id)
	e.Launched(kernel, id)
}

// Launched lets kernels without a configuration refer to a launch that is written already, until Rest.
func (e *KernelEmitter) Launched(kernel, id uint32) {
	slot := e.k.Slot(kernel)
	slot.launch, slot.launched = id, launchKey{kernel: kernel}
}

func (e *KernelEmitter) writeLaunch(k launchKey, id uint32) {
	s, t := e.k.session, &table.Launches
	b := e.k.pool.Fold.Out.Batch(t.Table, rows.FactDayPartition(e.receivedAt, rows.FactDays(e.days, s.RollupDays)))
	t.Tenant.AppendString(b, s.Key.Tenant)
	t.SessionID.AppendString(b, s.Key.ID)
	t.LaunchID.Append(b, id)
	t.KernelID.Append(b, k.kernel)
	t.ConfigID.Append(b, k.config)
	t.Registers.Append(b, k.regs)
	t.DynSharedBytes.Append(b, k.dyn)
	t.ReceivedDay.Append(b, rows.DayOf(e.receivedAt))
}

// FirstID is where a session's own ids begin: seconds since 2020 in steps of 18 hours. So a session whose state was dropped after a day of
// silence does not hand out ids that its earlier rows use. Rows compress best when ids differ in few low bits, hence the steps.
func FirstID(receivedAt int64) uint32 {
	const y2020 = 1_577_836_800
	return rows.ClampU32(receivedAt/1e9-y2020) &^ 0xffff
}

// ForgetLaunches makes launches be written again, under new ids.
func (k *Kernels) ForgetLaunches() {
	k.launches = nil
	for _, slot := range k.slots {
		if slot != nil {
			slot.launch = 0
		}
	}
	for _, slot := range k.sparse {
		slot.launch = 0
	}
}
