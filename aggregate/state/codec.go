// Package state has the codec of the state that a partition publishes, and what remembers hashes in it.
package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/zeebo/xxh3"
)

// Writer appends the fields of a state change; reader takes them off again in the same order. Integers are varints.
type Writer struct{ Body []byte }

// U64 appends a number.
func (w *Writer) U64(v uint64) { w.Body = binary.AppendUvarint(w.Body, v) }

// I64 appends a number that may be below 0.
func (w *Writer) I64(v int64) { w.Body = binary.AppendVarint(w.Body, v) }

// N appends a count.
func (w *Writer) N(v int) { w.U64(uint64(v)) }

// Bool appends a truth.
func (w *Writer) Bool(v bool) {
	if v {
		w.Body = append(w.Body, 1)
	} else {
		w.Body = append(w.Body, 0)
	}
}

// Str appends a text.
func (w *Writer) Str(s string) { w.N(len(s)); w.Body = append(w.Body, s...) }

// Hash appends a hash.
func (w *Writer) Hash(h xxh3.Uint128) {
	w.Body = binary.LittleEndian.AppendUint64(w.Body, h.Lo)
	w.Body = binary.LittleEndian.AppendUint64(w.Body, h.Hi)
}

// Err is what every malformed state gives: it was written by us, so it is damage or another version.
var Err = errors.New("partition state is damaged or of another version")

// Reader reads what a Writer wrote.
type Reader struct {
	Rest   []byte
	Err    error
	Layout Layout // of the state that is read
	Dry    bool   // it is only looked whether it can be read
}

// Fail ends the reading; the first failure counts.
func (r *Reader) Fail() {
	r.Rest = nil
	if r.Err == nil {
		r.Err = Err
	}
}

// Failf is Fail that says what is wrong.
func (r *Reader) Failf(format string, args ...any) {
	r.Rest = nil
	if r.Err == nil {
		r.Err = fmt.Errorf(format+": %w", append(args, Err)...)
	}
}

// U64 reads a number.
func (r *Reader) U64() uint64 {
	v, n := binary.Uvarint(r.Rest)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// I64 reads a number that may be below 0.
func (r *Reader) I64() int64 {
	v, n := binary.Varint(r.Rest)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// U32 reads a number of 32 bits.
func (r *Reader) U32() uint32 {
	v := r.U64()
	if v > math.MaxUint32 {
		r.Fail()
		return 0
	}
	return uint32(v)
}

// N reads a count of things that take at least size bytes each, so that damage cannot make us allocate more than we were given.
func (r *Reader) N(size int) int {
	v := r.U64()
	if v > uint64(len(r.Rest)/size) {
		r.Fail()
		return 0
	}
	return int(v)
}

// Bool reads a truth.
func (r *Reader) Bool() bool {
	if len(r.Rest) == 0 {
		r.Fail()
		return false
	}
	v := r.Rest[0] != 0
	r.Rest = r.Rest[1:]
	return v
}

// Bytes reads what Str wrote, without a copy.
func (r *Reader) Bytes() []byte {
	n := r.N(1)
	v := r.Rest[:n]
	r.Rest = r.Rest[n:]
	return v
}

// Str reads a text.
func (r *Reader) Str() string { return string(r.Bytes()) }

// Fixed64 reads 8 bytes.
func (r *Reader) Fixed64() uint64 {
	if len(r.Rest) < 8 {
		r.Fail()
		return 0
	}
	v := binary.LittleEndian.Uint64(r.Rest)
	r.Rest = r.Rest[8:]
	return v
}

// Hash reads a hash.
func (r *Reader) Hash() xxh3.Uint128 {
	if len(r.Rest) < 16 {
		r.Fail()
		return xxh3.Uint128{}
	}
	h := xxh3.Uint128{Lo: binary.LittleEndian.Uint64(r.Rest), Hi: binary.LittleEndian.Uint64(r.Rest[8:])}
	r.Rest = r.Rest[16:]
	return h
}

// Section writes a section of a session: whose it is, in which version, how long, and its bytes.
func (w *Writer) Section(name string, version uint64, body []byte) {
	w.Str(name)
	w.U64(version)
	w.N(len(body))
	w.Body = append(w.Body, body...)
}
