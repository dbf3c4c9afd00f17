package gpuflight

import "github.com/warpline/warpline/proto/jsonscan"

// System is a system_start or system_stop line: host and devices when a sampler began or ended. Strings of the devices are copies.
type System struct {
	PID     uint32
	App     []byte
	Name    []byte // sampling_start, sampling_end, or the user's text
	TimeNS  int64
	Host    HostSnapshot
	Devices []Device // maxDevices at most, the rest is left out
}

var systemFields = []field[System]{
	{name: "pid", kind: KindU32, number: func(s *System, v int64) { s.PID = uint32(v) }},
	{name: "app", text: func(s *System, v []byte) { s.App = v }},
	{name: "name", text: func(s *System, v []byte) { s.Name = v }},
	{name: "ts_ns", kind: KindI64, need: true, number: func(s *System, v int64) { s.TimeNS = v }},
	{name: "host", object: func(s *System, d *EventDecoder, m *members, fail **LineError) bool {
		return decodeObject(d, m, "host", hostFields, &s.Host, fail)
	}},
	{name: "devices", object: func(s *System, d *EventDecoder, m *members, fail **LineError) bool {
		return decodeObjects(d, m, "devices", deviceFields, &s.Devices, maxDevices, fail)
	}},
}

var hostFields = []field[HostSnapshot]{
	{name: "cpu_pct", float: func(h *HostSnapshot, v float64) { h.CPUPct = v }},
	{name: "ram_used_mib", kind: KindU64, number: func(h *HostSnapshot, v int64) { h.RAMUsedMiB = uint64(v) }},
	{name: "ram_total_mib", kind: KindU64, number: func(h *HostSnapshot, v int64) { h.RAMTotalMiB = uint64(v) }},
}

var deviceFields = []field[Device]{
	{name: "id", kind: KindI64, number: func(d *Device, v int64) { d.ID = v }},
	{name: "name", text: func(d *Device, v []byte) { d.Name = string(v) }},
	{name: "uuid", text: func(d *Device, v []byte) { d.UUID = string(v) }},
	{name: "vendor", text: func(d *Device, v []byte) { d.Vendor = string(v) }},
	{name: "pci_bus", kind: KindI64, number: func(d *Device, v int64) { d.PCIBus = v }},
	{name: "used_mib", kind: KindU64, number: func(d *Device, v int64) { d.UsedMiB = uint64(v) }},
	{name: "free_mib", kind: KindU64, number: func(d *Device, v int64) { d.FreeMiB = uint64(v) }},
	{name: "total_mib", kind: KindU64, number: func(d *Device, v int64) { d.TotalMiB = uint64(v) }},
	{name: "util_gpu_pct", kind: KindU64, number: func(d *Device, v int64) { d.UtilGPUPct = uint64(v) }},
	{name: "util_mem_pct", kind: KindU64, number: func(d *Device, v int64) { d.UtilMemPct = uint64(v) }},
	{name: "temp_c", kind: KindI64, number: func(d *Device, v int64) { d.TempC = v }},
	{name: "power_mw", kind: KindU64, number: func(d *Device, v int64) { d.PowerMW = uint64(v) }},
	{name: "clk_gfx_mhz", kind: KindU64, number: func(d *Device, v int64) { d.ClkGfxMHz = uint64(v) }},
	{name: "clk_sm_mhz", kind: KindU64, number: func(d *Device, v int64) { d.ClkSMMHz = uint64(v) }},
	{name: "clk_mem_mhz", kind: KindU64, number: func(d *Device, v int64) { d.ClkMemMHz = uint64(v) }},
	{name: "throttle_pwr", kind: KindU64, number: func(d *Device, v int64) { d.ThrottlePower = uint64(v) }},
	{name: "throttle_therm", kind: KindU64, number: func(d *Device, v int64) { d.ThrottleThermal = uint64(v) }},
	{name: "pcie_rx_bw_bps", kind: KindU64, number: func(d *Device, v int64) { d.PCIeRxBps = uint64(v) }},
	{name: "pcie_tx_bw_bps", kind: KindU64, number: func(d *Device, v int64) { d.PCIeTxBps = uint64(v) }},
}

// System decodes a system_start or system_stop line.
func (d *EventDecoder) System(line []byte) (*System, error) {
	s := &d.system
	*s = System{Devices: s.Devices[:0]}
	err := decodeEvent(d, line, systemFields, s)
	return s, instant(err, s.TimeNS, "ts_ns")
}

// decodeObject reads the object that m stands on into v; false means bad syntax.
func decodeObject[T any](d *EventDecoder, m *members, name string, fields []field[T], v *T, fail **LineError) bool {
	if m.b[m.i] != '{' {
		note(fail, ReasonBadValue, name+" is not an object")
		return m.skip()
	}
	inner := walkObject(m.b, m.i)
	ok := decodeFields(d, &inner, name, fields, v, fail)
	m.i = inner.i
	return ok
}

// decodeObjects reads the array of objects that m stands on, most of them at most; false means bad syntax.
func decodeObjects[T any](d *EventDecoder, m *members, name string, fields []field[T], list *[]T, most int, fail **LineError) bool {
	if m.b[m.i] != '[' {
		note(fail, ReasonBadValue, name+" is not a list")
		return m.skip()
	}
	for m.i = jsonscan.Space(m.b, m.i+1); m.i < len(m.b); m.i = jsonscan.Space(m.b, m.i+1) {
		if m.b[m.i] == ']' && len(*list) == 0 {
			m.i++
			return true
		}
		if len(*list) >= most {
			if !m.skip() {
				return false
			}
		} else {
			var v T
			if !decodeObject(d, m, name, fields, &v, fail) {
				return false
			}
			*list = append(*list, v)
		}
		m.i = jsonscan.Space(m.b, m.i)
		if m.i >= len(m.b) {
			return false
		}
		switch m.b[m.i] {
		case ']':
			m.i++
			return true
		case ',':
		default:
			return false
		}
	}
	return false
}
