package aggregate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/zeebo/xxh3"
)

// writer appends the fields of a state change; reader takes them off again in the same order. Integers are varints.
type writer struct{ b []byte }

func (w *writer) u64(v uint64) { w.b = binary.AppendUvarint(w.b, v) }
func (w *writer) i64(v int64)  { w.b = binary.AppendVarint(w.b, v) }
func (w *writer) n(v int)      { w.u64(uint64(v)) }
func (w *writer) bool(v bool) {
	if v {
		w.b = append(w.b, 1)
	} else {
		w.b = append(w.b, 0)
	}
}
func (w *writer) str(s string) { w.n(len(s)); w.b = append(w.b, s...) }
func (w *writer) hash(h xxh3.Uint128) {
	w.b = binary.LittleEndian.AppendUint64(w.b, h.Lo)
	w.b = binary.LittleEndian.AppendUint64(w.b, h.Hi)
}

// errState is what every malformed state gives: it was written by us, so it is damage or another version.
var errState = errors.New("partition state is damaged or of another version")

type reader struct {
	b      []byte
	err    error
	layout layout // of the state that is read
	dry    bool   // it is only looked whether it can be read
}

func (r *reader) fail() { r.b, r.err = nil, errState }

// failf is fail that says what is wrong.
func (r *reader) failf(format string, args ...any) {
	r.b, r.err = nil, fmt.Errorf(format+": %w", append(args, errState)...)
}

func (r *reader) u64() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) i64() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) u32() uint32 {
	v := r.u64()
	if v > math.MaxUint32 {
		r.fail()
		return 0
	}
	return uint32(v)
}

// n reads a count of things that take at least size bytes each, so that damage cannot make us allocate more than we were given.
func (r *reader) n(size int) int {
	v := r.u64()
	if v > uint64(len(r.b)/size) {
		r.fail()
		return 0
	}
	return int(v)
}

func (r *reader) bool() bool {
	if len(r.b) == 0 {
		r.fail()
		return false
	}
	v := r.b[0] != 0
	r.b = r.b[1:]
	return v
}

func (r *reader) bytes() []byte {
	n := r.n(1)
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) str() string { return string(r.bytes()) }

func (r *reader) fixed64() uint64 {
	if len(r.b) < 8 {
		r.fail()
		return 0
	}
	v := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

func (r *reader) hash() xxh3.Uint128 {
	if len(r.b) < 16 {
		r.fail()
		return xxh3.Uint128{}
	}
	h := xxh3.Uint128{Lo: binary.LittleEndian.Uint64(r.b), Hi: binary.LittleEndian.Uint64(r.b[8:])}
	r.b = r.b[16:]
	return h
}
