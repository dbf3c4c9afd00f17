package parcatest

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// message is a protobuf message under construction, field by field. Zero values are left out, as in proto3.
type message []byte

func (m *message) text(field protowire.Number, s string) {
	if s != "" {
		*m = protowire.AppendString(protowire.AppendTag(*m, field, protowire.BytesType), s)
	}
}

// sub adds a field that is a message or bytes, empty ones too.
func (m *message) sub(field protowire.Number, b []byte) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, field, protowire.BytesType), b)
}

func (m *message) number(field protowire.Number, v uint64) {
	if v != 0 {
		*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), v)
	}
}

func (m *message) fixed(field protowire.Number, v uint64) {
	if v != 0 {
		*m = protowire.AppendFixed64(protowire.AppendTag(*m, field, protowire.Fixed64Type), v)
	}
}

// packed adds repeated numbers.
func (m *message) packed(field protowire.Number, list ...uint64) {
	if len(list) == 0 {
		return
	}
	var b []byte
	for _, v := range list {
		b = protowire.AppendVarint(b, v)
	}
	m.sub(field, b)
}

// fields reads the fields of an answer: numbers and bytes, the last of each field. It returns what it could read of a broken message.
func fields(b []byte) (numbers map[protowire.Number]uint64, bytes map[protowire.Number][]byte) {
	numbers, bytes = map[protowire.Number]uint64{}, map[protowire.Number][]byte{}
	for len(b) > 0 {
		field, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return numbers, bytes
		}
		b = b[n:]
		switch typ {
		case protowire.VarintType:
			v, k := protowire.ConsumeVarint(b)
			n = k
			numbers[field] = v
		case protowire.BytesType:
			v, k := protowire.ConsumeBytes(b)
			n = k
			bytes[field] = v
		default:
			n = protowire.ConsumeFieldValue(field, typ, b)
		}
		if n < 0 || n > math.MaxInt32 {
			return numbers, bytes
		}
		b = b[n:]
	}
	return numbers, bytes
}
