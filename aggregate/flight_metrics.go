package aggregate

import (
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
)

// hostMetrics folds one host_metric_batch.
func (f *flight) hostMetrics(s *flightSession, p *part, line *gpuflight.Line) {
	batch := line.Batch
	t := &table.HostMetrics
	b := f.out.batch(t.Table, p.raw)
	tenant, session, hostname := t.Tenant.Index(b, s.key.tenant), t.SessionID.Index(b, s.key.id), t.Hostname.Index(b, s.host)
	for r := range batch.Rows() {
		row := batch.Row(r)
		at, ok := batch.Time(r)
		if !ok {
			f.badTime(s, p, line)
			continue
		}
		s.delta.sawEvent(at)
		cpu, used, total := uint64(row[gpuflight.HostCPUPctX100]), uint64(row[gpuflight.HostRAMUsedMiB]), uint64(row[gpuflight.HostRAMTotalMiB])
		if !s.noRaw {
			t.Tenant.Append(b, tenant)
			t.SessionID.Append(b, session)
			t.At.Append(b, at)
			t.CPUPct.Append(b, float32(cpu)/100)
			t.RAMUsedBytes.Append(b, fromMiB(used))
			t.RAMTotalBytes.Append(b, fromMiB(total))
			t.Hostname.Append(b, hostname)
			t.ReceivedAt.Append(b, p.env.ReceivedAt)
		}
		a := s.metrics.host(bucketOf(at), s.host)
		first := a.samples == 0
		a.samples++
		a.cpu.add(cpu, first)
		a.ramUsed.add(used, first)
		a.total.add(total, first)
	}
	f.out.saw(p.env.ReceivedAt)
}

var deviceColumns = [len(table.DeviceGauges)]gpuflight.Column{
	gpuflight.DeviceGPUUtil, gpuflight.DeviceMemUtil, gpuflight.DeviceTempC, gpuflight.DevicePowerMW, gpuflight.DeviceUsedMiB, gpuflight.DeviceTotalMiB,
	gpuflight.DeviceClockSM, gpuflight.DeviceFanSpeedPct, gpuflight.DeviceTempMemC, gpuflight.DeviceTempJunctionC, gpuflight.DeviceVoltageMV,
	gpuflight.DeviceEnergyUJ, gpuflight.DeviceClockMem, gpuflight.DevicePCIeBwBps, gpuflight.DeviceECCCorrected, gpuflight.DeviceECCUncorrected,
}

// deviceMetrics folds one device_metric_batch.
func (f *flight) deviceMetrics(s *flightSession, p *part, line *gpuflight.Line) {
	batch := line.Batch
	t := &table.DeviceMetrics
	b := f.out.batch(t.Table, p.raw)
	tenant, session := t.Tenant.Index(b, s.key.tenant), t.SessionID.Index(b, s.key.id)
	for r := range batch.Rows() {
		row := batch.Row(r)
		at, ok := batch.Time(r)
		if !ok {
			f.badTime(s, p, line)
			continue
		}
		s.delta.sawEvent(at)
		device := int32(row[gpuflight.DeviceID])
		if !s.noRaw {
			t.Tenant.Append(b, tenant)
			t.SessionID.Append(b, session)
			t.At.Append(b, at)
			t.DeviceID.Append(b, device)
			t.GPUUtilPct.Append(b, float32(row[gpuflight.DeviceGPUUtil]))
			t.MemUtilPct.Append(b, float32(row[gpuflight.DeviceMemUtil]))
			t.TempC.Append(b, float32(row[gpuflight.DeviceTempC]))
			t.PowerW.Append(b, float32(float64(row[gpuflight.DevicePowerMW])/1000))
			t.UsedBytes.Append(b, fromMiB(uint64(row[gpuflight.DeviceUsedMiB])))
			t.TotalBytes.Append(b, fromMiB(uint64(row[gpuflight.DeviceTotalMiB])))
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
			t.ReceivedAt.Append(b, p.env.ReceivedAt)
		}
		a := s.metrics.device(bucketOf(at), device)
		for i, c := range deviceColumns {
			v := row[c]
			if v < 0 && (c == gpuflight.DeviceTempC || c == gpuflight.DeviceTempMemC || c == gpuflight.DeviceTempJunctionC) {
				v = 0 // below freezing is a sensor's way of saying "no reading"; the raw row keeps it
			}
			a.gauges[i].add(uint64(v), a.samples == 0)
		}
		a.samples++
	}
	f.out.saw(p.env.ReceivedAt)
}
