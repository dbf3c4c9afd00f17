package table

import (
	"slices"
)

type hostMetricsTable struct {
	*Table
	Head
	At            TimeCol
	CPUPct        F32Col
	RAMUsedBytes  U64Col
	RAMTotalBytes U64Col
	Hostname      DictCol
	RawTail
}

// HostMetrics holds the samples of a host that a session took.
var HostMetrics = func() hostMetricsTable {
	t := Define("host_metrics_data", Raw, "tenant, session_id, at")
	return hostMetricsTable{
		Table:         t,
		Head:          t.Head(),
		At:            t.Time("at", Codec(regular)),
		CPUPct:        t.F32("cpu_pct", Codec("Delta, ZSTD(6)")),
		RAMUsedBytes:  t.U64("ram_used_bytes", Codec(pages)),
		RAMTotalBytes: t.U64("ram_total_bytes", Codec(same)),
		Hostname:      t.Dict("hostname"),
		RawTail:       t.RawTail(),
	}
}()

type deviceMetricsTable struct {
	*Table
	Head
	At             TimeCol
	DeviceID       I32Col
	GPUUtilPct     F32Col
	MemUtilPct     F32Col
	TempC          F32Col
	PowerW         F32Col
	UsedBytes      U64Col
	TotalBytes     U64Col
	ClockSMMHz     U32Col
	FanSpeedPct    F32Col
	TempMemC       F32Col
	TempJunctionC  F32Col
	VoltageMV      F32Col
	EnergyUJ       U64Col
	ClockMemMHz    U32Col
	PCIeBWBPS      U64Col
	ECCCorrected   U64Col
	ECCUncorrected U64Col
	RawTail
}

// DeviceMetrics holds the samples of a GPU that a session took.
var DeviceMetrics = func() deviceMetricsTable {
	t := Define("device_metrics_data", Raw, "tenant, session_id, device_id, at")
	return deviceMetricsTable{
		Table:          t,
		Head:           t.Head(),
		At:             t.Time("at", Codec(regular)),
		DeviceID:       t.I32("device_id", Codec(same)),
		GPUUtilPct:     t.F32("gpu_util_pct", Codec(gauge)),
		MemUtilPct:     t.F32("mem_util_pct", Codec(gauge)),
		TempC:          t.F32("temp_c", Codec(gauge)),
		PowerW:         t.F32("power_w", Codec("Delta, ZSTD(1)")),
		UsedBytes:      t.U64("used_bytes", Codec(pages)),
		TotalBytes:     t.U64("total_bytes", Codec(same)),
		ClockSMMHz:     t.U32("clock_sm_mhz"),
		FanSpeedPct:    t.F32("fan_speed_pct", Codec(gauge)),
		TempMemC:       t.F32("temp_mem_c", Codec(gauge)),
		TempJunctionC:  t.F32("temp_junction_c", Codec(gauge)),
		VoltageMV:      t.F32("voltage_mv", Codec(gauge)),
		EnergyUJ:       t.U64("energy_uj", Codec("Delta, T64, ZSTD(3)"), Note("since the driver was loaded")),
		ClockMemMHz:    t.U32("clock_mem_mhz", Codec(same)),
		PCIeBWBPS:      t.U64("pcie_bw_bps", Codec(Spread), Note("both directions, bytes a second")),
		ECCCorrected:   t.U64("ecc_corrected", Codec(same)),
		ECCUncorrected: t.U64("ecc_uncorrected", Codec(same)),
		RawTail:        t.RawTail(),
	}
}()

// HostGauges and DeviceGauges are what the minute tables add up, in the units of the wire so that sums are exact. The first has key 1 in
// the maps, and so on: to add one, append it. A column for each sum, minimum and maximum would cost more than its values: a small data part
// takes some 150 bytes for every column.
var (
	HostGauges   = [...]string{"cpu_pct_x100", "ram_used_mib", "ram_total_mib"}
	DeviceGauges = [...]string{
		"gpu_util_pct", "mem_util_pct", "temp_c", "power_mw", "used_mib", "total_mib", "clock_sm_mhz", "fan_speed_pct", "temp_mem_c",
		"temp_junction_c", "voltage_mv", "energy_uj", "clock_mem_mhz", "pcie_bw_bps", "ecc_corrected", "ecc_uncorrected",
	}
)

// gaugeKey returns the key of a gauge of either table.
func gaugeKey(name string) int {
	for _, list := range [][]string{HostGauges[:], DeviceGauges[:]} {
		if i := slices.Index(list, name); i >= 0 {
			return i + 1
		}
	}
	panic("BUG: table: no gauge " + name)
}

// GaugeMaps are a minute's sums, smallest and largest values by gauge.
type GaugeMaps struct{ Sums, Lows, Highs HistCol }

func (t *Table) gaugeMaps() GaugeMaps {
	const c = "ZSTD(9)"
	return GaugeMaps{t.Hist("sums", Agg("sumMap"), Codec(c)), t.Hist("lows", Agg("minMap"), Codec(c)),
		t.Hist("highs", Agg("maxMap"), Codec(c))}
}

type hostMetrics1mTable struct {
	*Table
	Head
	BucketHead
	Hostname DictCol
	Samples  U64Col
	GaugeMaps
	FactTail
}

// HostMetrics1m adds up HostMetrics by minute.
var HostMetrics1m = func() hostMetrics1mTable {
	t := DefineRollup("host_metrics_1m_data", "tenant, session_id", true)
	return hostMetrics1mTable{
		Table:      t,
		Head:       t.Head(),
		BucketHead: t.BucketHead(),
		Hostname:   t.Dict("hostname", Most),
		Samples:    t.U64("samples", Sum),
		GaugeMaps:  t.gaugeMaps(),
		FactTail:   t.FactTail(),
	}
}()

type deviceMetrics1mTable struct {
	*Table
	Head
	BucketHead
	DeviceID I32Col
	Samples  U64Col
	GaugeMaps
	FactTail
}

// DeviceMetrics1m adds up DeviceMetrics by minute.
var DeviceMetrics1m = func() deviceMetrics1mTable {
	t := DefineRollup("device_metrics_1m_data", "tenant, session_id, device_id", true)
	return deviceMetrics1mTable{
		Table:      t,
		Head:       t.Head(),
		BucketHead: t.BucketHead(),
		DeviceID:   t.I32("device_id"),
		Samples:    t.U64("samples", Sum),
		GaugeMaps:  t.gaugeMaps(),
		FactTail:   t.FactTail(),
	}
}()
