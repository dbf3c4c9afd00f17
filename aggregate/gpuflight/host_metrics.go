package gpuflight

import (
	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
)

// hostMetrics folds one host_metric_batch.
func (f *folding) hostMetrics(s *session, p *aggregate.Part, line *gpuflight.Line) {
	batch := line.Batch
	t := &table.HostMetrics
	b := f.Out.Batch(t.Table, p.Raw)
	tenant, session, hostname := t.Tenant.Index(b, s.Key.Tenant), t.SessionID.Index(b, s.Key.ID), t.Hostname.Index(b, s.Host)
	for r := range batch.Rows() {
		row := batch.Row(r)
		at, ok := batch.Time(r)
		if !ok {
			f.badTime(s, p, line)
			continue
		}
		s.Delta.SawEvent(at)
		cpu, used, total := uint64(row[gpuflight.HostCPUPctX100]), uint64(row[gpuflight.HostRAMUsedMiB]), uint64(row[gpuflight.HostRAMTotalMiB])
		if !s.NoRaw {
			t.Tenant.Append(b, tenant)
			t.SessionID.Append(b, session)
			t.At.Append(b, at)
			t.CPUPct.Append(b, float32(cpu)/100)
			t.RAMUsedBytes.Append(b, rows.FromMiB(used))
			t.RAMTotalBytes.Append(b, rows.FromMiB(total))
			t.Hostname.Append(b, hostname)
			t.ReceivedAt.Append(b, p.Env.ReceivedAt)
		}
		s.metrics.Host(rows.BucketOf(at), s.Host).Add(cpu, used, total)
	}
	f.Out.Saw(p.Env.ReceivedAt)
}

var deviceColumns = [len(table.DeviceGauges)]gpuflight.Column{
	gpuflight.DeviceGPUUtil, gpuflight.DeviceMemUtil, gpuflight.DeviceTempC, gpuflight.DevicePowerMW, gpuflight.DeviceUsedMiB,
	gpuflight.DeviceTotalMiB,
	gpuflight.DeviceClockSM, gpuflight.DeviceFanSpeedPct, gpuflight.DeviceTempMemC, gpuflight.DeviceTempJunctionC, gpuflight.DeviceVoltageMV,
	gpuflight.DeviceEnergyUJ, gpuflight.DeviceClockMem, gpuflight.DevicePCIeBwBps, gpuflight.DeviceECCCorrected,
	gpuflight.DeviceECCUncorrected,
}

// deviceMetrics folds one device_metric_batch.
func (f *folding) deviceMetrics(s *session, p *aggregate.Part, line *gpuflight.Line) {
	batch := line.Batch
	t := &table.DeviceMetrics
	b := f.Out.Batch(t.Table, p.Raw)
	tenant, session := t.Tenant.Index(b, s.Key.Tenant), t.SessionID.Index(b, s.Key.ID)
	for r := range batch.Rows() {
		row := batch.Row(r)
		at, ok := batch.Time(r)
		if !ok {
			f.badTime(s, p, line)
			continue
		}
		s.Delta.SawEvent(at)
		device := int32(row[gpuflight.DeviceID])
		if !s.NoRaw {
			t.Tenant.Append(b, tenant)
			t.SessionID.Append(b, session)
			t.At.Append(b, at)
			t.DeviceID.Append(b, device)
			t.GPUUtilPct.Append(b, float32(row[gpuflight.DeviceGPUUtil]))
			t.MemUtilPct.Append(b, float32(row[gpuflight.DeviceMemUtil]))
			t.TempC.Append(b, float32(row[gpuflight.DeviceTempC]))
			t.PowerW.Append(b, float32(float64(row[gpuflight.DevicePowerMW])/1000))
			t.UsedBytes.Append(b, rows.FromMiB(uint64(row[gpuflight.DeviceUsedMiB])))
			t.TotalBytes.Append(b, rows.FromMiB(uint64(row[gpuflight.DeviceTotalMiB])))
			t.ClockSMMHz.Append(b, uint32(row[gpuflight.DeviceClockSM]))
			t.FanSpeedPct.Append(b, float32(row[gpuflight.DeviceFanSpeedPct]))
			t.TempMemC.Append(b, float32(row[gpuflight.DeviceTempMemC]))
			t.TempJunctionC.Append(b, float32(row[gpuflight.DeviceTempJunctionC]))
			t.VoltageMV.Append(b, float32(row[gpuflight.DeviceVoltageMV]))
			t.EnergyUJ.Append(b, uint64(row[gpuflight.DeviceEnergyUJ]))
			t.ClockMemMHz.Append(b, uint32(row[gpuflight.DeviceClockMem]))
			t.PCIeBWBPS.Append(b, uint64(row[gpuflight.DevicePCIeBwBps]))
			t.ECCCorrected.Append(b, uint64(row[gpuflight.DeviceECCCorrected]))
			t.ECCUncorrected.Append(b, uint64(row[gpuflight.DeviceECCUncorrected]))
			t.ReceivedAt.Append(b, p.Env.ReceivedAt)
		}
		var values [len(deviceColumns)]uint64
		for i, c := range deviceColumns {
			v := row[c]
			if v < 0 && (c == gpuflight.DeviceTempC || c == gpuflight.DeviceTempMemC || c == gpuflight.DeviceTempJunctionC) {
				v = 0 // a sensor without a reading reports a value below freezing; the raw row keeps it
			}
			values[i] = uint64(v)
		}
		s.metrics.Device(rows.BucketOf(at), device).Add(&values)
	}
	f.Out.Saw(p.Env.ReceivedAt)
}
