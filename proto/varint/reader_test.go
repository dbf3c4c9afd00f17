package varint_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/warpline/warpline/proto/varint"
)

// What was written is read, field by field, and nothing is left.
func TestReader(t *testing.T) {
	b := binary.AppendUvarint(nil, math.MaxUint64)
	b = binary.AppendVarint(b, math.MinInt64)
	b = binary.AppendUvarint(b, math.MaxInt64)
	b = binary.AppendUvarint(b, 3)
	b = append(b, "abcdef"...)
	r := varint.Reader{Rest: b}
	if n := r.Uint(); n != math.MaxUint64 {
		t.Errorf("%d", n)
	}
	if n := r.Int(); n != math.MinInt64 {
		t.Errorf("%d", n)
	}
	if n := r.Size(); n != math.MaxInt64 {
		t.Errorf("%d", n)
	}
	if n := r.Count(2); n != 3 {
		t.Errorf("%d items", n)
	}
	if s := string(r.Take(6)); s != "abcdef" || !r.Done() {
		t.Errorf("%q, done %v", s, r.Done())
	}
	if r.Uint(); !r.Bad || r.Done() {
		t.Error("a field that is not there is not noticed")
	}
}

// What is missing, too large or cut is bad, for good, and gives zeros.
func TestReaderOfBadBytes(t *testing.T) {
	long := []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1}
	for name, c := range map[string]struct {
		src  []byte
		read func(r *varint.Reader) bool // whether it gave a zero
	}{
		"nothing":                {nil, func(r *varint.Reader) bool { return r.Uint() == 0 }},
		"nothing below 0":        {nil, func(r *varint.Reader) bool { return r.Int() == 0 }},
		"a number that is cut":   {[]byte{0x80}, func(r *varint.Reader) bool { return r.Uint() == 0 }},
		"a number without end":   {long, func(r *varint.Reader) bool { return r.Uint() == 0 }},
		"one below 0 likewise":   {long, func(r *varint.Reader) bool { return r.Int() == 0 }},
		"a size beyond int64":    {binary.AppendUvarint(nil, 1<<63), func(r *varint.Reader) bool { return r.Size() == 0 }},
		"more items than bytes":  {append(binary.AppendUvarint(nil, 3), 1, 2, 3, 4, 5), func(r *varint.Reader) bool { return r.Count(2) == 0 }},
		"items without end":      {append(binary.AppendUvarint(nil, math.MaxUint64), 1), func(r *varint.Reader) bool { return r.Count(1) == 0 }},
		"more bytes than are":    {[]byte{1}, func(r *varint.Reader) bool { return r.Take(2) == nil }},
		"less than no bytes":     {[]byte{1}, func(r *varint.Reader) bool { return r.Take(-1) == nil }},
		"what a caller refuses":  {[]byte{1, 2}, func(r *varint.Reader) bool { r.Fail(); return r.Uint() == 0 }},
		"a good field after one": {append([]byte{0xff}, 5), func(r *varint.Reader) bool { r.Take(9); return r.Uint() == 0 }},
	} {
		r := varint.Reader{Rest: c.src}
		if !c.read(&r) || !r.Bad || len(r.Rest) > 0 || r.Done() {
			t.Errorf("%s: bad %v, %d bytes are left", name, r.Bad, len(r.Rest))
		}
	}
}
