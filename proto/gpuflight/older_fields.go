package gpuflight

import (
	"math"
	"strconv"
	"unsafe"

	"github.com/warpline/warpline/proto/jsonscan"
)

// olderReader reads the fields of an older line. Its methods return false for bad syntax; what is sound JSON but cannot be used is noted in
// fail.
type olderReader struct {
	m    members
	have uint64
	fail *LineError
}

// first reports whether the value under the key is the one that counts. When it is not, the value is passed, which is all there is to do.
func (r *olderReader) first(field uint64) (counts, ok bool) {
	if r.have&field != 0 || r.m.b[r.m.i] == 'n' {
		return false, r.m.skip()
	}
	r.have |= field
	return true, true
}

func (r *olderReader) text(field uint64, into *[]byte) bool {
	counts, ok := r.first(field)
	if !counts {
		return ok
	}
	name := r.m.key
	s, isString, ok := r.m.text(nil)
	if !isString {
		note(&r.fail, ReasonBadValue, string(name)+" is not a string")
	}
	*into = s
	return ok
}

func (r *olderReader) integer(field uint64, kind ColumnKind, into *int64) bool {
	counts, ok := r.first(field)
	if !counts {
		return ok
	}
	v, text, good, ok := r.number(kind)
	if good && text == nil {
		*into = v
	} else if ok && text != nil {
		r.bad(ReasonBadValue, " is not an integer")
	}
	return ok
}

func (r *olderReader) unsigned(field uint64, into *uint64) bool {
	v := int64(*into)
	ok := r.integer(field, KindU64, &v)
	*into = uint64(v)
	return ok
}

func (r *olderReader) u32(field uint64, into *uint32) bool {
	v := int64(*into)
	ok := r.integer(field, KindU32, &v)
	*into = uint32(v)
	return ok
}

// coded reads what is a number in some versions and a word in others.
func (r *olderReader) coded(field uint64, kind ColumnKind, into *int64, word *[]byte) bool {
	counts, ok := r.first(field)
	if !counts {
		return ok
	}
	v, text, good, ok := r.number(kind)
	if good {
		*into, *word = v, text
	}
	return ok
}

func (r *olderReader) float(field uint64, into *float64) bool {
	counts, ok := r.first(field)
	if !counts {
		return ok
	}
	*into, ok = r.m.float(string(r.m.key), &r.fail)
	return ok
}

func (r *olderReader) bad(reason, words string) {
	note(&r.fail, reason, string(r.m.key)+words)
}

// number reads an integer: as such, as a number without a fraction such as 1e6, or in quotes, in decimal or as 0x and hex digits. text is
// set when the quotes hold anything else; "" is 0.
func (r *olderReader) number(kind ColumnKind) (v int64, text []byte, good, ok bool) {
	m := &r.m
	if m.b[m.i] == '"' {
		s, _, ok := m.text(nil)
		if !ok || len(s) == 0 {
			return 0, nil, ok, ok
		}
		v, isNumber, reason := quotedNumber(kind, s)
		if reason != "" {
			r.bad(reason, "")
			return 0, nil, false, true
		}
		if !isNumber {
			return 0, s, true, true
		}
		return v, nil, true, true
	}
	start := m.i
	if c := m.b[start]; c != '-' && c-'0' > 9 {
		r.bad(ReasonBadValue, " is not an integer")
		return 0, nil, false, m.skip()
	}
	end, integer, ok := jsonscan.Number(m.b, start)
	m.i = end
	if !ok {
		return 0, nil, false, false
	}
	digits := m.b[start:end]
	if !integer {
		f, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(digits), len(digits)), 64)
		if err != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<63 {
			r.bad(ReasonBadValue, " is not an integer")
			return 0, nil, false, true
		}
		digits = strconv.AppendInt(make([]byte, 0, 20), int64(f), 10)
	}
	v, reason := kind.parse(digits)
	if reason != "" {
		r.bad(reason, "")
		return 0, nil, false, true
	}
	return v, nil, true, true
}

// quotedNumber reads "17", "-1" or "0x1a0".
func quotedNumber(kind ColumnKind, s []byte) (v int64, isNumber bool, reason string) {
	if len(s) > 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X') {
		for _, c := range s[2:] {
			if !isHex(c) {
				return 0, false, ""
			}
		}
		u, err := strconv.ParseUint(unsafe.String(unsafe.SliceData(s), len(s))[2:], 16, 64)
		if err != nil {
			return 0, true, ReasonOutOfRange
		}
		var digits [20]byte
		v, reason = kind.parse(strconv.AppendUint(digits[:0], u, 10))
		return v, true, reason
	}
	end, integer, ok := jsonscan.Number(s, 0)
	if !ok || !integer || end != len(s) {
		return 0, false, ""
	}
	v, reason = kind.parse(s)
	return v, true, reason
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// host reads the host's load of a system_sample.
func (r *olderReader) host(o *Older) bool {
	counts, ok := r.first(oldHost)
	if !counts || r.m.b[r.m.i] != '{' {
		return ok && (!counts || r.m.skip())
	}
	o.HasHost = true
	in := olderReader{m: walkObject(r.m.b, r.m.i), fail: r.fail}
	for in.m.next() {
		switch string(in.m.key) {
		case "cpu_pct":
			ok = in.float(1, &o.Host.CPUPct)
		case "ram_used_mib":
			ok = in.unsigned(2, &o.Host.RAMUsedMiB)
		case "ram_total_mib":
			ok = in.unsigned(4, &o.Host.RAMTotalMiB)
		default:
			ok = in.m.skip()
		}
		if !ok {
			break
		}
	}
	r.m.i, r.fail = in.m.i, in.fail
	return in.m.ok
}

// devices reads the GPUs of a system_sample; those beyond maxDevices are passed over.
func (r *olderReader) devices(o *Older) bool {
	counts, ok := r.first(oldDevices)
	if !counts || r.m.b[r.m.i] != '[' {
		return ok && (!counts || r.m.skip())
	}
	b := r.m.b
	i := jsonscan.Space(b, r.m.i+1)
	if i < len(b) && b[i] == ']' {
		r.m.i = i + 1
		return true
	}
	for {
		if i < len(b) && b[i] == '{' && len(o.Devices) < maxDevices {
			var d DeviceSample
			in := olderReader{m: walkObject(b, i), fail: r.fail}
			ok = in.device(&d)
			i, r.fail = in.m.i, in.fail
			o.Devices = append(o.Devices, d)
		} else {
			i, ok = skipValue(b, i)
		}
		r.m.i = i
		if !ok {
			return false
		}
		i = jsonscan.Space(b, i)
		if i >= len(b) || b[i] != ',' && b[i] != ']' {
			r.m.i = i
			return false
		}
		if b[i] == ']' {
			r.m.i = i + 1
			return true
		}
		i = jsonscan.Space(b, i+1)
	}
}

func (r *olderReader) device(d *DeviceSample) bool {
	for r.m.next() {
		ok := false
		switch string(r.m.key) {
		case "id":
			ok = r.integer(1, KindI32, &d.ID)
		case "temp_c":
			ok = r.integer(2, KindI64, &d.TempC)
		case "used_mib":
			ok = r.unsigned(1<<2, &d.UsedMiB)
		case "free_mib":
			ok = r.unsigned(1<<3, &d.FreeMiB)
		case "total_mib":
			ok = r.unsigned(1<<4, &d.TotalMiB)
		case "util_gpu", "util_gpu_pct":
			ok = r.unsigned(1<<5, &d.UtilGPUPct)
		case "util_mem", "util_mem_pct":
			ok = r.unsigned(1<<6, &d.UtilMemPct)
		case "power_mw":
			ok = r.unsigned(1<<7, &d.PowerMW)
		case "clk_sm", "clk_sm_mhz":
			ok = r.unsigned(1<<9, &d.ClkSMMHz)
		case "clk_mem", "clk_mem_mhz":
			ok = r.unsigned(1<<10, &d.ClkMemMHz)
		case "pcie_rx_bw", "pcie_rx_bw_bps":
			ok = r.unsigned(1<<11, &d.PCIeRxBps)
		case "pcie_tx_bw", "pcie_tx_bw_bps":
			ok = r.unsigned(1<<12, &d.PCIeTxBps)
		default:
			ok = r.m.skip()
		}
		if !ok {
			return false
		}
	}
	return r.m.ok
}
