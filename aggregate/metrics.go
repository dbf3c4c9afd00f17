package aggregate

import (
	"slices"

	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
)

const mib = 1 << 20

// fromMiB is a size in bytes; one that no column of bytes holds is the largest that does, not what is left after a wrap.
func fromMiB(n uint64) uint64 { return min(n, (1<<64-1)/mib) * mib }

// gauge adds up one metric of one minute in wire units, so that sums are exact.
type gauge struct{ sum, low, high uint64 }

func (g *gauge) add(v uint64, first bool) {
	g.sum += v
	if first || v < g.low {
		g.low = v
	}
	g.high = max(g.high, v)
}

type hostAcc struct {
	hostname            string
	samples             uint64
	cpu, ramUsed, total gauge
}

// hostMetrics folds one host_metric_batch.
func (f *folder) hostMetrics(s *session, p *part, line *gpuflight.Line) {
	batch := line.Batch
	t := &table.HostMetrics
	b := f.out.batch(t.Table, p.raw)
	tenant, session, hostname := t.Tenant.Index(b, s.key.tenant), t.SessionID.Index(b, s.key.id), t.Hostname.Index(b, s.host)
	if s.hostAcc == nil {
		s.hostAcc = map[int64]*hostAcc{}
	}
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
		a := s.hostAcc[bucketOf(at)]
		if a == nil {
			a = &hostAcc{hostname: s.host}
			s.hostAcc[bucketOf(at)] = a
		}
		first := a.samples == 0
		a.samples++
		a.cpu.add(cpu, first)
		a.ramUsed.add(used, first)
		a.total.add(total, first)
	}
	f.out.saw(p.env.ReceivedAt)
}

type deviceKey struct {
	bucket int64
	device int32
}

// deviceAcc has one gauge per rolled-up column of device_metric_batch, in the order of deviceColumns, which is that of
// table.DeviceGauges.
type deviceAcc struct {
	samples uint64
	gauges  [len(deviceColumns)]gauge
}

var deviceColumns = [len(table.DeviceGauges)]gpuflight.Column{
	gpuflight.DeviceGPUUtil, gpuflight.DeviceMemUtil, gpuflight.DeviceTempC, gpuflight.DevicePowerMW, gpuflight.DeviceUsedMiB, gpuflight.DeviceTotalMiB,
	gpuflight.DeviceClockSM, gpuflight.DeviceFanSpeedPct, gpuflight.DeviceTempMemC, gpuflight.DeviceTempJunctionC, gpuflight.DeviceVoltageMV,
	gpuflight.DeviceEnergyUJ, gpuflight.DeviceClockMem, gpuflight.DevicePCIeBwBps, gpuflight.DeviceECCCorrected, gpuflight.DeviceECCUncorrected,
}

var energyGauge = slices.Index(deviceColumns[:], gpuflight.DeviceEnergyUJ)

// deviceMetrics folds one device_metric_batch.
func (f *folder) deviceMetrics(s *session, p *part, line *gpuflight.Line) {
	batch := line.Batch
	t := &table.DeviceMetrics
	b := f.out.batch(t.Table, p.raw)
	tenant, session := t.Tenant.Index(b, s.key.tenant), t.SessionID.Index(b, s.key.id)
	if s.devAcc == nil {
		s.devAcc = map[deviceKey]*deviceAcc{}
	}
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
		key := deviceKey{bucketOf(at), device}
		a := s.devAcc[key]
		if a == nil {
			a = &deviceAcc{}
			s.devAcc[key] = a
		}
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

// flushMetrics writes the session's minutes of host and device metrics.
func (f *folder) flushMetrics(s *session) {
	for bucket, a := range s.hostAcc {
		t := &table.HostMetrics1m
		b := f.out.batch(t.Table, f.factPartition(s))
		t.Tenant.AppendString(b, s.key.tenant)
		t.SessionID.AppendString(b, s.key.id)
		t.Bucket.Append(b, bucket)
		t.BucketS.Append(b, 60)
		t.Hostname.AppendString(b, a.hostname)
		t.Samples.Append(b, a.samples)
		appendGauges(b, t.GaugeMaps, []gauge{a.cpu, a.ramUsed, a.total})
		t.ReceivedDay.Append(b, s.receivedDay())
	}
	clear(s.hostAcc)
	for key, a := range s.devAcc {
		t := &table.DeviceMetrics1m
		b := f.out.batch(t.Table, f.factPartition(s))
		t.Tenant.AppendString(b, s.key.tenant)
		t.SessionID.AppendString(b, s.key.id)
		t.Bucket.Append(b, key.bucket)
		t.BucketS.Append(b, 60)
		t.DeviceID.Append(b, key.device)
		t.Samples.Append(b, a.samples)
		a.gauges[energyGauge].sum = 0 // a counter: its ends are what counts
		appendGauges(b, t.GaugeMaps, a.gauges[:])
		t.ReceivedDay.Append(b, s.receivedDay())
	}
	clear(s.devAcc)
}

// appendGauges appends a minute's gauges, of which the first has key 1.
func appendGauges(b *table.Batch, t table.GaugeMaps, gauges []gauge) {
	var keys [len(table.DeviceGauges)]int16
	var sums, lows, highs [len(table.DeviceGauges)]uint64
	for i := range gauges {
		keys[i], sums[i], lows[i], highs[i] = int16(i+1), gauges[i].sum, gauges[i].low, gauges[i].high
	}
	n := len(gauges)
	t.Sums.AppendPairs(b, keys[:n], sums[:n])
	t.Lows.AppendPairs(b, keys[:n], lows[:n])
	t.Highs.AppendPairs(b, keys[:n], highs[:n])
}
