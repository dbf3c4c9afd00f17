package gpuflight

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
	"unsafe"

	"github.com/warpline/warpline/proto/jsonscan"
)

// readRows decodes the array that opens at b[i] into batch. ok is false for bad syntax.
func (p *plan) readRows(batch *Batch, b []byte, i int) (end int, ok bool) {
	i = jsonscan.Space(b, i+1)
	if i < len(b) && b[i] == ']' {
		return i + 1, true
	}
	for wire := 0; ; wire++ {
		lo := batch.rows * p.stride
		hi := lo + p.stride + 1
		if hi > len(batch.vals) {
			batch.vals = append(batch.vals, make([]int64, max(hi, 64*p.stride, len(batch.vals)))...)
		}
		row := batch.vals[lo:hi:hi]
		next, good := -1, false
		if p.fast {
			next, good = readRowFast(p.cells, row, b, i)
		}
		if !good {
			var bad BadRow
			if next, good = p.readRow(row, b, i, &bad); !good {
				return next, false
			}
			good = bad.Reason == ""
			if !good {
				bad.Row, bad.Count, bad.Start, bad.End = wire, 1, i, next
				batch.addBad(bad)
			}
		}
		if good {
			for _, c := range p.absent {
				row[c] = 0
			}
			batch.rows++
		}
		i = next
		if i < len(b) && b[i] != ',' && b[i] != ']' {
			i = jsonscan.Space(b, i)
		}
		if i >= len(b) {
			return i, false
		}
		if b[i] == ']' {
			return i + 1, true
		}
		if b[i] != ',' {
			return i, false
		}
		i++
		if i < len(b) && b[i] != '[' {
			i = jsonscan.Space(b, i)
		}
	}
}

// Eight bytes at a time: '0' in each, and the high bit of each.
const (
	asciiZeros = 0x3030303030303030
	highs      = 0x8080808080808080
)

// readRowFast reads a row written as the client writes it: no white space, integers in range, as many as there are columns. It
// gives up, with ok false and row in any state, on everything else; readRow then says what the row is.
//
// Eight bytes are looked at as one word. Most cells end within it, so that their length costs one bit scan and their value three
// multiplications, whatever their digits: no branch depends on the data.
func readRowFast(cells []cell, row []int64, b []byte, i int) (end int, ok bool) {
	if i >= len(b) || b[i] != '[' {
		return 0, false
	}
	i++
	last := len(cells) - 1
	refused := int64(0) // negative once a cell had a superfluous leading zero
	for k := range cells {
		if i+8 > len(b) {
			return 0, false
		}
		w := binary.LittleEndian.Uint64(b[i:])
		x := w ^ asciiZeros
		// A byte above 9 gets its high bit set; bytes above the lowest such may be wrong, and do not matter.
		stop := (x + 0x7676767676767676 | x) & highs
		n := bits.TrailingZeros64(stop) // 8*digits + 7
		c := &cells[k]
		var v int64
		var term byte
		wide := false
		if n >= 15 && n < 64 {
			refused |= (int64(x&0xff) - 1) & (15 - int64(n))
			term = byte(w >> (uint(n-7) & 63))
			x <<= uint(71-n) & 63
			x = x * 2561 >> 8 & 0x00ff00ff00ff00ff
			x = x * 6553601 >> 16 & 0x0000ffff0000ffff
			v = int64(x * 42949672960001 >> 32)
			i += n>>3 + 1
		} else {
			mag, negative, next := readInteger(b, i)
			if next < 0 || next >= len(b) {
				return 0, false
			}
			v = int64(mag)
			if mag > math.MaxInt64 {
				wide = c.kind == KindU64 && !negative
				if !wide {
					return 0, false
				}
			} else if negative {
				v = -v
			}
			term = b[next]
			i = next + 1
		}
		if uint64(v)-c.lo > c.span && !wide {
			return 0, false
		}
		row[c.pos] = v
		if term != ',' {
			if term != ']' || k != last {
				return 0, false
			}
			return i, refused >= 0
		}
	}
	return 0, false
}

// readInteger reads an integer of up to 20 digits at b[i]. end is -1 when there is none, it has a leading zero, or it does not fit
// 64 bits; what follows the digits is for the caller to judge.
func readInteger(b []byte, i int) (mag uint64, negative bool, end int) {
	if i < len(b) && b[i] == '-' {
		negative = true
		i++
	}
	start := i
	for i < len(b) {
		d := b[i] - '0'
		if d > 9 {
			break
		}
		if i-start >= 19 {
			hi, lo := bits.Mul64(mag, 10)
			sum, carry := bits.Add64(lo, uint64(d), 0)
			if hi != 0 || carry != 0 {
				return 0, negative, -1
			}
			mag = sum
		} else {
			mag = mag*10 + uint64(d)
		}
		i++
	}
	if i == start || (b[start] == '0' && i > start+1) {
		return 0, negative, -1
	}
	return mag, negative, i
}

// readRow reads any element of the rows array. ok is false for bad syntax; bad.Reason is set when the element cannot be a row.
func (p *plan) readRow(row []int64, b []byte, i int, bad *BadRow) (end int, ok bool) {
	if i >= len(b) || b[i] != '[' {
		bad.Reason, bad.Detail = ReasonBadValue, "row is not an array"
		return skipValue(b, i)
	}
	k := 0
	i = jsonscan.Space(b, i+1)
	for more := i < len(b) && b[i] != ']'; more; k++ {
		start := i
		number, integer := i < len(b) && (b[i] == '-' || b[i]-'0' <= 9), false
		if number {
			i, integer, ok = jsonscan.Number(b, i)
		} else {
			i, ok = skipValue(b, i)
		}
		if !ok {
			return i, false
		}
		if k < len(p.cells) && p.cells[k].known {
			c := &p.cells[k]
			v, reason := int64(0), ReasonBadValue
			switch {
			case integer && c.kind != KindF64:
				v, reason = c.kind.parse(b[start:i])
			case number && c.kind == KindF64:
				v, reason = parseFloat(b[start:i])
			}
			row[c.pos] = v
			if reason != "" && bad.Reason == "" {
				bad.Reason, bad.Detail = reason, columnName(p, c)
			}
		}
		i = jsonscan.Space(b, i)
		if i >= len(b) {
			return i, false
		}
		more = b[i] == ','
		if more {
			i = jsonscan.Space(b, i+1)
		}
	}
	if i >= len(b) || b[i] != ']' {
		return i, false
	}
	// The wrong number of cells says more than a value that stands in the wrong place for it.
	if k < len(p.cells) {
		bad.Reason, bad.Detail = ReasonRaggedRow, "fewer cells than columns"
	} else if k > len(p.cells) {
		bad.Reason, bad.Detail = ReasonRaggedRow, "more cells than columns"
	}
	return i + 1, true
}

func columnName(p *plan, c *cell) string { return schemas[p.batchType][c.pos].name }

// parse converts integer text to the bits of the kind; reason is empty when it fits.
func (k ColumnKind) parse(text []byte) (v int64, reason string) {
	mag, negative, end := readInteger(text, 0)
	if k == KindDuration && negative && (end < 0 || mag > 0) {
		return 0, ReasonNegativeDuration
	}
	switch {
	case end < 0:
		return 0, ReasonOutOfRange
	case negative && mag > 1<<63:
		return 0, ReasonOutOfRange
	case negative:
		v = -int64(mag)
	case mag > math.MaxInt64 && k != KindU64:
		return 0, ReasonOutOfRange
	case mag > math.MaxInt64:
		return int64(mag), ""
	default:
		v = int64(mag)
	}
	if lo, span := k.limits(); uint64(v)-lo > span {
		return 0, ReasonOutOfRange
	}
	return v, ""
}

func parseFloat(text []byte) (v int64, reason string) {
	f, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(text), len(text)), 64)
	if err != nil {
		return 0, ReasonOutOfRange // the syntax was checked
	}
	return int64(math.Float64bits(f)), ""
}
