// Package varint reads what Warpline's processes write for each other in numbers of variable length: bytes that may be of a newer build,
// damaged, or of somebody else.
package varint

import (
	"encoding/binary"
	"math"
)

// Reader reads fields and remembers whether one was missing, so that callers look once, at the end. After the first that is missing
// nothing is left to read, and every field is 0.
type Reader struct {
	Rest []byte // what is not read yet
	Bad  bool
}

// Fail says that what was read cannot be right.
func (r *Reader) Fail() { r.Bad, r.Rest = true, nil }

// Uint reads a number.
func (r *Reader) Uint() uint64 {
	v, n := binary.Uvarint(r.Rest)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// Int reads a number that may be below 0.
func (r *Reader) Int() int64 {
	v, n := binary.Varint(r.Rest)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// Size reads a number of Uint that fits an int64.
func (r *Reader) Size() int64 {
	v := r.Uint()
	if v > math.MaxInt64 {
		r.Fail()
		return 0
	}
	return int64(v)
}

// Count reads how many items follow, each of which takes at least least bytes: there is room for them, so as many may be allocated.
func (r *Reader) Count(least int) int {
	n := r.Uint()
	if n > uint64(len(r.Rest)/least) {
		r.Fail()
		return 0
	}
	return int(n)
}

// Take reads so many bytes, nil where there are fewer. They are those of Rest, not a copy.
func (r *Reader) Take(n int) []byte {
	if n < 0 || len(r.Rest) < n {
		r.Fail()
		return nil
	}
	out := r.Rest[:n]
	r.Rest = r.Rest[n:]
	return out
}

// Done reports whether all was there, and nothing is left.
func (r *Reader) Done() bool { return !r.Bad && len(r.Rest) == 0 }
