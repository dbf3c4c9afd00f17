package intrakernel

import (
	"math"
	"math/bits"
	"strconv"
)

// appendF6 appends x as C's %f does: six decimals, the exact value rounded half to even. strconv takes its slow path for this format, and
// a trace is made of such numbers, so the 128 bits that are enough here are used instead.
func appendF6(b []byte, x float64) []byte {
	u := math.Float64bits(x)
	exp := int(u >> 52 & 0x7ff)
	switch {
	case math.IsInf(x, 1): // as C writes it, though it is no JSON: a sum of squares at a scale of 1e150
		return append(b, "inf"...)
	case exp == 0x7ff || exp >= 1023+63: // or beyond an uint64
		return strconv.AppendFloat(b, x, 'f', 6, 64)
	}
	if u>>63 != 0 {
		b = append(b, '-')
	}
	m := u & (1<<52 - 1)
	if exp != 0 {
		m |= 1 << 52
	} else {
		exp = 1
	}
	shift := 1075 - exp // x is m / 2^shift
	if shift <= 0 {
		return append(strconv.AppendUint(b, m<<-shift, 10), ".000000"...)
	}
	whole := uint64(0)
	if shift < 64 {
		whole = m >> shift
		m &= 1<<shift - 1
	}
	micros := uint64(0)
	if m != 0 {
		micros = scaled(m, uint(shift))
		if micros == 1_000_000 {
			whole, micros = whole+1, 0
		}
	}
	b = append(strconv.AppendUint(b, whole, 10), '.')
	for p := uint64(100_000); p > 0; p /= 10 {
		b = append(b, byte('0'+micros/p%10))
	}
	return b
}

// scaled is m * 10^6 / 2^shift, rounded half to even; m is below 2^53.
func scaled(m uint64, shift uint) uint64 {
	hi, lo := bits.Mul64(m, 1_000_000)
	var q, restHi, restLo, halfHi, halfLo uint64
	switch {
	case shift >= 128:
		return 0
	case shift > 64:
		q = hi >> (shift - 64)
		restHi, restLo = hi&(1<<(shift-64)-1), lo
		halfHi = 1 << (shift - 65)
	case shift == 64:
		q, restLo, halfLo = hi, lo, 1<<63
	default:
		q = hi<<(64-shift) | lo>>shift
		restLo, halfLo = lo&(1<<shift-1), 1<<(shift-1)
	}
	if restHi > halfHi || restHi == halfHi && (restLo > halfLo || restLo == halfLo && q&1 == 1) {
		q++
	}
	return q
}
