package aggregate

import (
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/sink/table"
)

// Device is what a source says of a device of a session.
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
	table.Devices.Append(f.Facts(p, table.Devices.Table), &table.DeviceRow{
		HeadRow:                p.Session.Head(),
		DeviceID:               d.ID,
		UUID:                   d.UUID,
		Name:                   d.Name,
		Vendor:                 d.Vendor,
		Architecture:           d.Architecture,
		SMCount:                d.Multiprocessors,
		TotalBytes:             d.TotalBytes,
		ComputeMajor:           d.ComputeMajor,
		ComputeMinor:           d.ComputeMinor,
		L2CacheSizeBytes:       d.L2CacheSizeBytes,
		SharedMemPerBlockBytes: d.SharedMemPerBlockBytes,
		RegsPerBlock:           d.RegsPerBlock,
		WarpSize:               d.WarpSize,
		ReceivedDay:            rows.DayOf(p.Env.ReceivedAt),
	})
}
