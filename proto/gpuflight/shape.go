package gpuflight

import (
	"bytes"
	"maps"
	"math"
	"reflect"
	"strconv"
)

// shape is what a structure takes of a JSON object: its keys, and what each may hold. encoding/json passes over what does not fit without
// a word, so the line is held against the shape once more.
type shape map[string]*place

// place is what may stand at a key.
type place struct {
	kind   reflect.Kind // String, Bool, Int64, Uint64, Float64; Struct is an object, Invalid anything
	object shape        // of a Struct
	list   bool         // a list of those
	most   int          // elements that are read of a list, 0 all
	loose  bool         // a number that may stand in quotes
	lo     int64        // least and greatest number that its column holds
	hi     uint64
}

// fits are the tags of numbers whose column is narrower than the field.
var fits = map[string]struct {
	lo int64
	hi uint64
}{
	"u8": {0, math.MaxUint8}, "u32": {0, math.MaxUint32}, "i32": {math.MinInt32, math.MaxInt32},
	"id":   {0, 1 << 30},              // of a device or a segment
	"size": {0, math.MaxInt64},        // also a duration, a count, or a time since 1970
	"mib":  {0, math.MaxUint64 >> 20}, // stored in bytes
}

// shapeOf makes the shape of a structure from its tags: json names the key, fits the range, most how much of a list is read.
func shapeOf(t reflect.Type) shape {
	s := shape{}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			maps.Copy(s, shapeOf(f.Type))
		}
		key := f.Tag.Get("json")
		if key == "" || key == "-" {
			continue
		}
		p := &place{loose: f.Type == reflect.TypeFor[looseInt](), lo: math.MinInt64, hi: math.MaxUint64}
		p.most, _ = strconv.Atoi(f.Tag.Get("most"))
		if r, ok := fits[f.Tag.Get("fits")]; ok {
			p.lo, p.hi = r.lo, r.hi
		}
		of := f.Type
		p.list = of.Kind() == reflect.Slice
		if p.list {
			of = of.Elem()
		}
		p.kind = of.Kind()
		if p.kind == reflect.Struct {
			p.object = shapeOf(of)
		}
		s[key] = p
	}
	return s
}

// with adds to a shape what another one takes. Of a key that both have the other's place holds, but the keys of objects are added up.
func (s shape) with(other shape) shape {
	s = maps.Clone(s)
	for key, p := range other {
		if old := s[key]; old != nil && old.object != nil && p.object != nil {
			both := *p
			both.object = old.object.with(p.object)
			p = &both
		}
		s[key] = p
	}
	return s
}

// and adds keys that may hold anything.
func (s shape) and(keys ...string) shape {
	s = maps.Clone(s)
	for _, k := range keys {
		s[k] = &place{}
	}
	return s
}

// takes reports whether the value, which is good JSON and not a list that the place wants, is read as it stands. A null is: it says
// nothing.
func (p *place) takes(value []byte) bool {
	c := value[0]
	if c == 'n' {
		return true
	}
	if p.loose {
		value = bytes.Trim(value, `"`)
		if len(value) == 0 {
			return false
		}
		c = value[0]
	}
	number := c == '-' || c-'0' <= 9
	switch p.kind {
	case reflect.String:
		return c == '"'
	case reflect.Bool:
		return c == 't' || c == 'f'
	case reflect.Float64:
		_, err := strconv.ParseFloat(string(value), 64)
		return number && err == nil
	case reflect.Int64:
		v, err := strconv.ParseInt(string(value), 10, 64)
		return err == nil && v >= p.lo && (v < 0 || uint64(v) <= p.hi)
	case reflect.Uint64:
		v, err := strconv.ParseUint(string(value), 10, 64)
		return err == nil && v <= p.hi
	}
	return true
}
