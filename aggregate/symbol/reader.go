package symbol

import (
	"bytes"
	"encoding/binary"
)

// reader reads numbers; reading beyond the end sets bad.
type reader struct {
	b   []byte
	at  int
	bad bool
}

func (r *reader) bytes(n int) []byte {
	if n > len(r.b)-r.at {
		r.bad, r.at = true, len(r.b)
		return make([]byte, 8)[:min(n, 8)]
	}
	r.at += n
	return r.b[r.at-n : r.at]
}

func (r *reader) u8() uint8 {
	if r.at >= len(r.b) {
		r.bad = true
		return 0
	}
	r.at++
	return r.b[r.at-1]
}

func (r *reader) u16() uint16 { return binary.LittleEndian.Uint16(r.bytes(2)) }
func (r *reader) u32() uint32 { return binary.LittleEndian.Uint32(r.bytes(4)) }
func (r *reader) u64() uint64 { return binary.LittleEndian.Uint64(r.bytes(8)) }

// address reads what is left, 4 or 8 bytes.
func (r *reader) address() uint64 {
	switch len(r.b) - r.at {
	case 8:
		return r.u64()
	case 4:
		return uint64(r.u32())
	}
	r.bad = true
	return 0
}

// uleb reads a number of at most 64 bits.
func (r *reader) uleb() (v uint64) {
	for shift := uint(0); ; shift += 7 {
		b := r.u8()
		if shift > 63 || shift == 63 && b > 1 {
			r.bad = true
		}
		v |= uint64(b&0x7f) << shift
		if b < 0x80 || r.bad {
			return v
		}
	}
}

// sleb reads a signed number of at most 64 bits.
func (r *reader) sleb() (v int64) {
	for shift := uint(0); ; {
		b := r.u8()
		v |= int64(b&0x7f) << shift
		shift += 7
		if shift > 70 {
			r.bad = true
		}
		if b < 0x80 || r.bad {
			if b&0x40 != 0 && shift < 64 {
				v |= -1 << shift
			}
			return v
		}
	}
}

// text reads up to a NUL.
func (r *reader) text() []byte {
	n := bytes.IndexByte(r.b[r.at:], 0)
	if n < 0 {
		r.bad, r.at = true, len(r.b)
		return nil
	}
	r.at += n + 1
	return r.b[r.at-n-1 : r.at-1]
}
