package table

import "slices"

// HostGauges and DeviceGauges are what the minute tables add up, in the units of the wire so that sums are exact. The first has key 1
// in the maps, and so on: to add one, append it. A column for each sum, minimum and maximum would cost more than what is in it: a
// small part spends some 150 bytes on every column that it has.
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
	const c = "T64, ZSTD(3)"
	return GaugeMaps{t.Hist("sums", Agg("sumMap"), Codec(c)), t.Hist("lows", Agg("minMap"), Codec(c)), t.Hist("highs", Agg("maxMap"), Codec(c))}
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
