// Package state has the codec of the state that a partition publishes, and the sets of hashes in it.
package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/zeebo/xxh3"
)

// Writer appends the fields of a state change; Reader reads them in the same order. Integers are varints.
type Writer struct{ Body []byte }

// U64 appends a number.
func (w *Writer) U64(v uint64) { w.Body = binary.AppendUvarint(w.Body, v) }

// I64 appends a number that may be below 0.
func (w *Writer) I64(v int64) { w.Body = binary.AppendVarint(w.Body, v) }

// N appends a count.
func (w *Writer) N(v int) { w.U64(uint64(v)) }

// Bool appends a bool.
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

// U64Fixed appends 8 bytes, for numbers that are hashes.
func (w *Writer) U64Fixed(v uint64) { w.Body = binary.LittleEndian.AppendUint64(w.Body, v) }

// Err is the error for every malformed state. It was written by Warpline, so it is damaged or of another version.
var Err = errors.New("partition state is damaged or of another version")

// Reader reads what a Writer wrote.
type Reader struct {
	Rest   []byte
	Err    error
	Layout Layout // of the state that is read
	Dry    bool   // a dry run: only to find out whether it can be read
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

// N reads a count of things that take at least size bytes each, so that a damaged count cannot make us allocate more than the state is
// long.
func (r *Reader) N(size int) int {
	v := r.U64()
	if v > uint64(len(r.Rest)/size) {
		r.Fail()
		return 0
	}
	return int(v)
}

// Bool reads a bool.
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

// Section writes a section of a session: the source's name, the version, the length, and the bytes.
func (w *Writer) Section(name string, version uint64, body []byte) {
	w.Str(name)
	w.U64(version)
	w.N(len(body))
	w.Body = append(w.Body, body...)
}
