package aggregate

import "github.com/warpline/warpline/sink/table"

// device is a device of a session, as far as its source says what it is.
type device struct {
	id                                       int32
	uuid, name, vendor, architecture         string
	multiprocessors                          uint32
	totalBytes                               uint64
	computeMajor, computeMinor               uint32
	l2CacheSizeBytes, sharedMemPerBlockBytes uint64
	regsPerBlock, warpSize                   uint32
}

// addDevice writes a row of `devices` and remembers in the session that it did.
func (f *folder) addDevice(p *part, d *device) {
	p.s.deviceIDs = append(p.s.deviceIDs, d.id)
	t := &table.Devices
	b := f.out.batch(t.Table, factPartition(p.env.ReceivedAt, p.env.RollupDays))
	t.Tenant.AppendString(b, p.s.key.tenant)
	t.SessionID.AppendString(b, p.s.key.id)
	t.DeviceID.Append(b, d.id)
	t.UUID.AppendString(b, d.uuid)
	t.Name.AppendString(b, d.name)
	t.Vendor.AppendString(b, d.vendor)
	t.Architecture.AppendString(b, d.architecture)
	t.SMCount.Append(b, d.multiprocessors)
	t.TotalBytes.Append(b, d.totalBytes)
	t.ComputeMajor.Append(b, d.computeMajor)
	t.ComputeMinor.Append(b, d.computeMinor)
	t.L2CacheSizeBytes.Append(b, d.l2CacheSizeBytes)
	t.SharedMemPerBlockBytes.Append(b, d.sharedMemPerBlockBytes)
	t.RegsPerBlock.Append(b, d.regsPerBlock)
	t.WarpSize.Append(b, d.warpSize)
	t.ReceivedDay.Append(b, dayOf(p.env.ReceivedAt))
}
