package telemetry

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// legacyDeviceBytes finds used, total and free, in this order.
func (v *Validator) legacyDeviceBytes(allocated integer, o *Options) *Refusal {
	r, val := &v.record, &v.values
	keys := []field{fDeviceUsed}
	if o.BundleKeys {
		keys = append(keys, fUsedOfDevice)
	}
	used, refusal := v.firstOf(allocated, keys...)
	if refusal != nil {
		return refusal
	}
	val.setInt(fDeviceUsed, used)

	total := integer{kind: kNull}
	found := r.has(fDeviceTotal)
	if found {
		if total, refusal = v.optional(fDeviceTotal); refusal != nil {
			return refusal
		}
	}
	aliases := [...]field{fTotalMemory, fTotalOfDevice, fTotalBytes}
	for i := 0; i < 2*len(aliases) && !found; i++ {
		f := aliases[i%len(aliases)]
		t := r.get(f)
		if i >= len(aliases) {
			t = v.meta.find(names[f])
		}
		found = t.kind != kAbsent
		if found {
			total = integerOf(r.bytes(t), t.kind)
			if total.kind != kInt && total.kind != kNull {
				return notInteger(f)
			}
		}
	}
	val.setInt(fDeviceTotal, total)

	free := integer{kind: kNull}
	from := fDeviceFree
	if o.BundleKeys && !r.has(from) {
		from = fFreeOfDevice
	}
	switch {
	case r.has(from):
		if free, refusal = v.optional(from); refusal != nil {
			return refusal
		}
	case total.kind == kInt:
		free = left(total, used)
	}
	val.setInt(fDeviceFree, free)
	return nil
}

func (v *Validator) legacyDevice() (integer, *Refusal) {
	r := &v.record
	if r.has(fDeviceID) {
		n := v.integer(fDeviceID)
		if n.kind != kInt {
			return n, notInteger(fDeviceID)
		}
		return n, nil
	}
	if t := v.text(fDevice); t.kind == kString {
		if containsFold(t.b, "cpu") {
			return small(-1), nil
		}
		if i := bytes.LastIndexByte(t.b, ':'); i >= 0 {
			if n, ok, refusal := deviceNumber(t.b[i+1:]); ok || refusal != nil {
				return n, refusal
			}
		}
		if len(t.b) >= 4 && equalFold(t.b[:4], "/gpu") {
			return small(0), nil
		}
	}
	if r.has(fMemoryMB) {
		return small(0), nil
	}
	return small(-1), nil
}

// deviceNumber reads what stands behind the last colon; not ok if it is not a number. Python takes digits of every script there; we do
// not guess what a device in other digits than ours might be.
func deviceNumber(b []byte) (n integer, ok bool, _ *Refusal) {
	ascii, decimal := true, true
	counted := 0 // digits before the first that Python does not count with: of these it takes no more than MaxDigits
	for rest := b; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		rest = rest[size:]
		switch {
		case r >= '0' && r <= '9':
		case unicode.Is(unicode.Nd, r):
			ascii = false
		case unicode.Is(otherDigits, r):
			ascii, decimal = false, false
		default:
			return n, false, nil
		}
		if decimal {
			counted++
		}
	}
	switch {
	case len(b) == 0:
		return n, false, nil
	case counted > MaxDigits:
		return n, false, &Refusal{IntegerTooLong, names[fDevice], tooManyDigits(counted)}
	case !decimal:
		return n, false, &Refusal{NonASCIIDigits, names[fDevice], "invalid literal for int() with base 10: " + shownLiteral(b)}
	case !ascii:
		return n, false, refuse(NonASCIIDigits, fDevice, " ends in digits that are not ASCII")
	}
	return integerOf(b, kInt), true, nil
}

// shownLiteral quotes digits as Python does in its refusal: 200 characters, the quotes among them, and then it stops.
func shownLiteral(digits []byte) string {
	const most = 200
	text := "'" + string(digits) + "'"
	count := 0
	for i := range text {
		count++
		if count > most {
			return text[:i]
		}
	}
	return text
}

// otherDigits are the characters that Python calls digits but does not count with: superscripts, digits in circles.
var otherDigits = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0xb2, 0xb3, 1}, {0xb9, 0xb9, 1}, {0x1369, 0x1371, 1}, {0x19da, 0x19da, 1}, {0x2070, 0x2070, 1}, {0x2074, 0x2079, 1}, {0x2080, 0x2089, 1},
		{0x2460, 0x2468, 1}, {0x2474, 0x247c, 1}, {0x2488, 0x2490, 1}, {0x24ea, 0x24ea, 1}, {0x24f5, 0x24fd, 1}, {0x24ff, 0x24ff, 1},
		{0x2776, 0x277e, 1}, {0x2780, 0x2788, 1}, {0x278a, 0x2792, 1},
	},
	R32:         []unicode.Range32{{0x10a40, 0x10a43, 1}, {0x10e60, 0x10e68, 1}, {0x11052, 0x1105a, 1}, {0x1f100, 0x1f10a, 1}},
	LatinOffset: 2,
}
