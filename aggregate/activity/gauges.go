package activity

import (
	"slices"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/sink/table"
)

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

type deviceKey struct {
	bucket int64
	device int32
}

// deviceAcc has one gauge per rolled-up column, in the order of table.DeviceGauges.
type deviceAcc struct {
	samples uint64
	gauges  [len(table.DeviceGauges)]gauge
}

var energyGauge = slices.Index(table.DeviceGauges[:], "energy_uj")

// Add counts a sample, in units of the wire.
func (a *hostAcc) Add(cpu, ramUsed, total uint64) {
	first := a.samples == 0
	a.samples++
	a.cpu.add(cpu, first)
	a.ramUsed.add(ramUsed, first)
	a.total.add(total, first)
}

// Add counts a sample of all gauges, in the order of table.DeviceGauges.
func (a *deviceAcc) Add(values *[len(table.DeviceGauges)]uint64) {
	for i, v := range values {
		a.gauges[i].add(v, a.samples == 0)
	}
	a.samples++
}

// Metrics adds up the metrics of a session's host and devices in the open chunk, by minute.
type Metrics struct {
	hosts   map[int64]*hostAcc
	devices map[deviceKey]*deviceAcc
}

// Host returns the accumulator of a minute.
func (m *Metrics) Host(bucket int64, hostname string) *hostAcc {
	a := m.hosts[bucket]
	if a == nil {
		if m.hosts == nil {
			m.hosts = map[int64]*hostAcc{}
		}
		a = &hostAcc{hostname: hostname}
		m.hosts[bucket] = a
	}
	return a
}

// Device returns the accumulator of a device's minute.
func (m *Metrics) Device(bucket int64, id int32) *deviceAcc {
	key := deviceKey{bucket, id}
	a := m.devices[key]
	if a == nil {
		if m.devices == nil {
			m.devices = map[deviceKey]*deviceAcc{}
		}
		a = &deviceAcc{}
		m.devices[key] = a
	}
	return a
}

// Flush writes the session's minutes of host and device metrics.
func (m *Metrics) Flush(f *aggregate.Fold, s *aggregate.Session) {
	for bucket, a := range m.hosts {
		t := &table.HostMetrics1m
		b := f.Out.Batch(t.Table, s.FactPartition())
		t.Tenant.AppendString(b, s.Key.Tenant)
		t.SessionID.AppendString(b, s.Key.ID)
		t.Bucket.Append(b, bucket)
		t.BucketS.Append(b, 60)
		t.Hostname.AppendString(b, a.hostname)
		t.Samples.Append(b, a.samples)
		appendGauges(b, t.GaugeMaps, []gauge{a.cpu, a.ramUsed, a.total})
		t.ReceivedDay.Append(b, s.ReceivedDay())
	}
	clear(m.hosts)
	for key, a := range m.devices {
		t := &table.DeviceMetrics1m
		b := f.Out.Batch(t.Table, s.FactPartition())
		t.Tenant.AppendString(b, s.Key.Tenant)
		t.SessionID.AppendString(b, s.Key.ID)
		t.Bucket.Append(b, key.bucket)
		t.BucketS.Append(b, 60)
		t.DeviceID.Append(b, key.device)
		t.Samples.Append(b, a.samples)
		a.gauges[energyGauge].sum = 0 // a counter: its ends are what counts
		appendGauges(b, t.GaugeMaps, a.gauges[:])
		t.ReceivedDay.Append(b, s.ReceivedDay())
	}
	clear(m.devices)
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
