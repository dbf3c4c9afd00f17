package aggregate

import (
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/sink/table"
)

// Device is a device of a session, as far as its source says what it is.
type Device struct {
	ID                                       int32
	UUID, Name, Vendor, Architecture         string
	Multiprocessors                          uint32
	TotalBytes                               uint64
	ComputeMajor, ComputeMinor               uint32
	L2CacheSizeBytes, SharedMemPerBlockBytes uint64
	RegsPerBlock, WarpSize                   uint32
}

// AddDevice writes a row of `devices` and remembers in the session that it did.
func (f *Fold) AddDevice(p *Part, d *Device) {
	p.Session.DeviceIDs = append(p.Session.DeviceIDs, d.ID)
	t := &table.Devices
	b := f.Out.Batch(t.Table, rows.FactPartition(p.Env.ReceivedAt, p.Env.RollupDays))
	t.Tenant.AppendString(b, p.Session.Key.Tenant)
	t.SessionID.AppendString(b, p.Session.Key.ID)
	t.DeviceID.Append(b, d.ID)
	t.UUID.AppendString(b, d.UUID)
	t.Name.AppendString(b, d.Name)
	t.Vendor.AppendString(b, d.Vendor)
	t.Architecture.AppendString(b, d.Architecture)
	t.SMCount.Append(b, d.Multiprocessors)
	t.TotalBytes.Append(b, d.TotalBytes)
	t.ComputeMajor.Append(b, d.ComputeMajor)
	t.ComputeMinor.Append(b, d.ComputeMinor)
	t.L2CacheSizeBytes.Append(b, d.L2CacheSizeBytes)
	t.SharedMemPerBlockBytes.Append(b, d.SharedMemPerBlockBytes)
	t.RegsPerBlock.Append(b, d.RegsPerBlock)
	t.WarpSize.Append(b, d.WarpSize)
	t.ReceivedDay.Append(b, rows.DayOf(p.Env.ReceivedAt))
}
