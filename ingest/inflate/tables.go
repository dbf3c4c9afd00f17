package inflate

import (
	"math/bits"
	"sync"
)

// An entry of a decoding table says what the next bits are:
//
//	bits 0-7   how many bits to take: code and extra bits; 0: no such code
//	bits 8-11  of these, how many are the code (so the extra bits lie above)
//	bits 16-30 literal byte, or base of a length or distance, or where a subtable starts
//	bit 15     subtable; bits 8-11 are then its width and 0-7 the width of the main table
//	bit 14     end of block
//	bit 31     literal
type entry = uint32

const (
	flagSubtable = 1 << 15
	flagEnd      = 1 << 14
	flagLiteral  = 1 << 31

	litBits  = 11
	distBits = 8
)

// Tables have a power of two of entries so that an index can be masked; the worst sets of codes need 2342 and 402 of them.
type (
	litTable  [4096]entry
	distTable [512]entry
)

// litEntries and distEntries are the entries of the symbols, code lengths not yet entered; 0 for symbols that must not occur.
var litEntries, distEntries = func() (l [288]entry, d [32]entry) {
	for i := range 256 {
		l[i] = flagLiteral | entry(i)<<16
	}
	l[256] = flagEnd
	base := 3
	for i := range 28 {
		extra := max(0, i/4-1)
		l[257+i] = entry(base)<<16 | entry(extra)
		base += 1 << extra
	}
	l[285] = 258 << 16
	base = 1
	for i := range 30 {
		extra := max(0, i/2-1)
		d[i] = entry(base)<<16 | entry(extra)
		base += 1 << extra
	}
	return l, d
}()

// build fills a table from code lengths. It reports false for sets of codes that deflate does not allow: over-subscribed, or
// incomplete unless it is a single code of one bit. An empty set is allowed as long as nothing uses it.
func build(table []entry, width uint, lengths []uint8, symbols []entry) bool {
	var count [16]int
	longest := uint(0)
	for _, n := range lengths {
		count[n]++
		longest = max(longest, uint(n))
	}
	clear(table)
	if longest == 0 {
		return true
	}
	var next [17]int
	code := 0
	for n := 1; n <= 15; n++ {
		next[n] = code
		code = (code + count[n]) << 1
	}
	left := 1
	for n := uint(1); n <= longest; n++ {
		left = left<<1 - count[n]
		if left < 0 {
			return false
		}
	}
	if left > 0 && !(longest == 1 && count[1] == 1) {
		return false
	}
	var deepest [1 << litBits]uint8 // longest code behind each index that needs a subtable
	codes := next
	if longest > width {
		for _, n := range lengths {
			if n > 0 {
				if main := reverse(codes[n], uint(n)) & (1<<width - 1); uint(n) > width {
					deepest[main] = max(deepest[main], n)
				}
				codes[n]++
			}
		}
	}
	free := 1 << width // where the next subtable goes
	for symbol, n8 := range lengths {
		n := uint(n8)
		if n == 0 {
			continue
		}
		reversed := reverse(next[n], n)
		next[n]++
		e := symbols[symbol] // 0 stays 0: a code for a symbol that must not occur
		start, size, used := 0, width, n
		if n > width {
			main := reversed & (1<<width - 1)
			if table[main] == 0 {
				sub := uint(deepest[main]) - width
				table[main] = flagSubtable | entry(free)<<16 | entry(sub)<<8 | entry(width)
				free += 1 << sub
				if free > len(table) {
					return false
				}
			}
			start, size, used = int(table[main]>>16), uint(table[main]>>8&15), n-width
			reversed >>= width
		}
		if e != 0 {
			e = e&^0xff | entry(used)<<8 | (e&0xff + entry(used))
		}
		for i := reversed; i < 1<<size; i += 1 << used {
			table[start+i] = e
		}
	}
	return true
}

// reverse returns the n bits of a code, first bit lowest, as they come in the stream.
func reverse(code int, n uint) int { return int(bits.Reverse16(uint16(code)) >> (16 - n)) }

var fixed = sync.OnceValue(func() *struct {
	lit  litTable
	dist distTable
} {
	t := new(struct {
		lit  litTable
		dist distTable
	})
	var l [288]uint8
	for i := range l {
		switch {
		case i < 144:
			l[i] = 8
		case i < 256:
			l[i] = 9
		case i < 280:
			l[i] = 7
		default:
			l[i] = 8
		}
	}
	var d [32]uint8
	for i := range d {
		d[i] = 5
	}
	build(t.lit[:], litBits, l[:], litEntries[:])
	build(t.dist[:], distBits, d[:], distEntries[:])
	return t
})

func fixedLit() *litTable   { return &fixed().lit }
func fixedDist() *distTable { return &fixed().dist }

// codeOrder is the order in which the lengths of the code length code are sent.
var codeOrder = [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// codeEntries are the symbols of the code length code, plain numbers.
var codeEntries = func() (e [19]entry) {
	for i := range e {
		e[i] = flagLiteral | entry(i)<<16
	}
	return e
}()

// codes reads the codes of a dynamic block.
func (z *Reader) codes() error {
	if !z.need(14) {
		return z.short()
	}
	literals, distances, n := int(z.take(5))+257, int(z.take(5))+1, int(z.take(4))+4
	if literals > 286 || distances > 30 {
		return ErrCorrupt
	}
	var lengths [286 + 30]uint8
	var first [19]uint8
	for _, i := range codeOrder[:n] {
		if !z.need(3) {
			return z.short()
		}
		first[i] = uint8(z.take(3))
	}
	var table [128]entry
	if !build(table[:], 7, first[:], codeEntries[:]) {
		return ErrCorrupt
	}
	total := literals + distances
	for i := 0; i < total; {
		z.need(14) // code and extra bits; there may be fewer at the very end
		e := table[z.bits&127]
		width := uint(e & 0xff)
		if width == 0 && z.n >= 7 {
			return ErrCorrupt
		}
		if width == 0 || width > z.n {
			return z.short()
		}
		z.take(width)
		symbol := uint8(e >> 16)
		if symbol < 16 {
			lengths[i] = symbol
			i++
			continue
		}
		var value uint8
		extra, repeat := uint(7), 11
		switch symbol {
		case 16:
			if i == 0 {
				return ErrCorrupt
			}
			value, extra, repeat = lengths[i-1], 2, 3
		case 17:
			extra, repeat = 3, 3
		}
		if extra > z.n {
			return z.short()
		}
		repeat += int(z.take(extra))
		if i+repeat > total {
			return ErrCorrupt
		}
		for range repeat {
			lengths[i] = value
			i++
		}
	}
	if !build(z.lit[:], litBits, lengths[:literals], litEntries[:]) ||
		!build(z.dist[:], distBits, lengths[literals:total], distEntries[:]) {
		return ErrCorrupt
	}
	return nil
}
