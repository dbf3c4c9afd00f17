package parca

import "encoding/binary"

// Wire types of protobuf.
const (
	wireVarint = 0
	wire64     = 1
	wireBytes  = 2
	wire32     = 5
)

// wire reads the fields of one protobuf message in order.
type wire struct {
	b   []byte
	bad bool
}

// wireField is one field: v of a varint or a fixed number, data of bytes.
type wireField struct {
	num, kind int
	v         uint64
	data      []byte
}

// next reads a field. ok is false at the end, or where bad became true.
func (w *wire) next() (f wireField, ok bool) {
	if len(w.b) == 0 || w.bad {
		return f, false
	}
	tag := w.varint()
	f.num, f.kind = int(tag>>3), int(tag&7)
	if tag>>3 == 0 || tag>>3 > 1<<29 {
		w.bad = true
		return f, false
	}
	switch f.kind {
	case wireVarint:
		f.v = w.varint()
	case wire64:
		if len(w.b) < 8 {
			w.bad = true
			return f, false
		}
		f.v = binary.LittleEndian.Uint64(w.b)
		w.b = w.b[8:]
	case wireBytes:
		n := w.varint()
		if n > uint64(len(w.b)) {
			w.bad = true
			return f, false
		}
		f.data = w.b[:n:n]
		w.b = w.b[n:]
	case wire32:
		if len(w.b) < 4 {
			w.bad = true
			return f, false
		}
		f.v = uint64(binary.LittleEndian.Uint32(w.b))
		w.b = w.b[4:]
	default:
		w.bad = true
	}
	return f, !w.bad
}

func (w *wire) varint() uint64 {
	if len(w.b) > 0 && w.b[0] < 0x80 {
		v := w.b[0]
		w.b = w.b[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(w.b)
	if n <= 0 {
		w.bad = true
		w.b = nil
		return 0
	}
	w.b = w.b[n:]
	return v
}

// numbers appends a repeated varint field, packed or not.
func (f *wireField) numbers(dst []uint64) (_ []uint64, ok bool) {
	switch f.kind {
	case wireVarint:
		return append(dst, f.v), true
	case wireBytes:
		w := wire{b: f.data}
		for len(w.b) > 0 {
			dst = append(dst, w.varint())
		}
		return dst, !w.bad
	}
	return dst, false
}

// fixed64s appends a repeated fixed64 field, packed or not.
func (f *wireField) fixed64s(dst []uint64) (_ []uint64, ok bool) {
	switch f.kind {
	case wire64:
		return append(dst, f.v), true
	case wireBytes:
		for b := f.data; len(b) >= 8; b = b[8:] {
			dst = append(dst, binary.LittleEndian.Uint64(b))
		}
		return dst, len(f.data)%8 == 0
	}
	return dst, false
}
