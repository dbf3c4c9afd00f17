package parca

import "encoding/binary"

// flat reads a FlatBuffers message. Every position is checked: what lies outside reads as absent, and bad becomes true.
type flat struct {
	b   []byte
	bad bool
}

func (f *flat) u32(at int) uint32 {
	if at < 0 || at > len(f.b)-4 {
		f.bad = true
		return 0
	}
	return binary.LittleEndian.Uint32(f.b[at:])
}

func (f *flat) u16(at int) int {
	if at < 0 || at > len(f.b)-2 {
		f.bad = true
		return 0
	}
	return int(binary.LittleEndian.Uint16(f.b[at:]))
}

func (f *flat) i64(at int) int64 {
	if at < 0 || at > len(f.b)-8 {
		f.bad = true
		return 0
	}
	return int64(binary.LittleEndian.Uint64(f.b[at:]))
}

// field returns where field i of the table at t is, 0 if it is absent.
func (f *flat) field(t, i int) int {
	if t == 0 {
		return 0
	}
	v := t - int(int32(f.u32(t)))
	size := f.u16(v)
	if f.bad || 4+2*i+2 > size {
		return 0
	}
	off := f.u16(v + 4 + 2*i)
	if off == 0 {
		return 0
	}
	return t + off
}

// ref follows the offset at position at; 0 stays 0.
func (f *flat) ref(at int) int {
	if at == 0 {
		return 0
	}
	to := at + int(f.u32(at))
	if to > len(f.b)-4 || to <= at {
		f.bad = true
		return 0
	}
	return to
}

func (f *flat) table(t, i int) int { return f.ref(f.field(t, i)) }

// vector returns where the elements of a vector are and how many; each takes size bytes.
func (f *flat) vector(t, i, size int) (at, n int) {
	v := f.table(t, i)
	if v == 0 {
		return 0, 0
	}
	n = int(f.u32(v))
	if n < 0 || n > (len(f.b)-v-4)/size {
		f.bad = true
		return 0, 0
	}
	return v + 4, n
}

func (f *flat) text(t, i int) []byte {
	at, n := f.vector(t, i, 1)
	return f.b[at : at+n]
}

func (f *flat) byte(t, i int, otherwise byte) byte {
	at := f.field(t, i)
	if at == 0 {
		return otherwise
	}
	if at >= len(f.b) || at < 0 {
		f.bad = true
		return 0
	}
	return f.b[at]
}

func (f *flat) int16(t, i int) int {
	if at := f.field(t, i); at != 0 {
		return f.u16(at)
	}
	return 0
}

func (f *flat) int32(t, i int) int {
	if at := f.field(t, i); at != 0 {
		return int(int32(f.u32(at)))
	}
	return 0
}

func (f *flat) int64(t, i int) int64 {
	if at := f.field(t, i); at != 0 {
		return f.i64(at)
	}
	return 0
}
