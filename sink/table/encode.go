package table

import (
	"bytes"
	"fmt"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// EOS returns the message that ends an Arrow stream. A stream that ClickHouse reads is one schema message, the bodies of
// any number of batches of that schema, and this.
func EOS() []byte { return []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0} }

// Encode appends the batch to dst as Arrow IPC messages, dictionaries first, without schema message and without end of stream, so that
// bodies of several batches can be spliced. schema is the table's schema message, which must not be changed. The batch stays as it is, and
// the result does not refer to it. A batch whose columns differ in length panics, since it would shift values between rows: see
// [Batch.Mend].
func (b *Batch) Encode(dst []byte) (schema []byte, out []byte, err error) { return b.encode(dst) }

// EncodeLZ4 is Encode with the column buffers compressed, for a link that is slower than the processor.
func (b *Batch) EncodeLZ4(dst []byte) (schema []byte, out []byte, err error) {
	return b.encode(dst, ipc.WithLZ4())
}

func (b *Batch) encode(dst []byte, options ...ipc.Option) ([]byte, []byte, error) {
	if err := b.Check(); err != nil {
		panic("BUG: " + err.Error())
	}
	schema := b.table.SchemaMessage()
	rows := b.Rows()
	columns := make([]arrow.Array, len(b.table.Columns))
	for i := range columns {
		columns[i] = array.MakeFromData(b.data(&b.table.Columns[i], rows))
	}
	record := array.NewRecord(b.table.schema, columns, int64(rows))
	sink := &cut{skip: schema, out: dst}
	w := ipc.NewWriter(sink, append(options, ipc.WithSchema(b.table.schema))...)
	if err := w.Write(record); err != nil {
		return nil, dst, fmt.Errorf("encode batch of %s: %w", b.table.Name, err)
	}
	// The writer is not closed: that would only write the end of the stream.
	if len(sink.skip) > 0 {
		return nil, dst, fmt.Errorf("encode batch of %s: the stream ended inside its schema", b.table.Name)
	}
	return schema, sink.out, nil
}

// cut appends what is written to it to out, without the first bytes, which must equal skip.
type cut struct {
	skip, out []byte
}

func (c *cut) Write(p []byte) (int, error) {
	n := len(p)
	if k := min(len(c.skip), n); k > 0 {
		if !bytes.Equal(c.skip[:k], p[:k]) {
			return 0, fmt.Errorf("the stream does not open with the schema of its table")
		}
		c.skip, p = c.skip[k:], p[k:]
	}
	c.out = append(c.out, p...)
	return n, nil
}

// data wraps a column's memory as Arrow data, without a copy.
func (b *Batch) data(c *Column, rows int) arrow.ArrayData {
	typ := kinds[c.Kind].arrow
	switch storage(c.Kind) {
	case U8:
		return flat(typ, b.u8[c.slot])
	case U16:
		return flat(typ, b.u16[c.slot])
	case U32:
		return flat(typ, b.u32[c.slot])
	case U64:
		return flat(typ, b.u64[c.slot])
	case I32:
		return flat(typ, b.i32[c.slot])
	case I64:
		return flat(typ, b.i64[c.slot])
	case F32:
		return flat(typ, b.f32[c.slot])
	case F64:
		return flat(typ, b.f64[c.slot])
	case Str:
		return b.str[c.slot].arrow(typ)
	case Dict:
		d := &b.dict[c.slot]
		values := d.values.arrow(dictType.ValueType)
		return array.NewDataWithDictionary(typ, rows, []*memory.Buffer{nil, buffer(d.idx)}, 0, 0, values)
	case Hist:
		h := &b.hist[c.slot]
		entries := histType.Elem()
		pairs := array.NewData(entries, len(h.keys), []*memory.Buffer{nil}, []arrow.ArrayData{
			flat(histType.KeyType(), h.keys), flat(histType.ItemType(), h.counts)}, 0, 0)
		return array.NewData(typ, rows, []*memory.Buffer{nil, buffer(h.ends)}, []arrow.ArrayData{pairs}, 0, 0)
	}
	panic("BUG: table: a column of kind " + c.Kind.String() + " cannot be encoded")
}

func (s *strColumn) arrow(typ arrow.DataType) *array.Data {
	return array.NewData(typ, len(s.ends)-1, []*memory.Buffer{nil, buffer(s.ends), buffer(s.data)}, nil, 0, 0)
}

func flat[T any](typ arrow.DataType, values []T) *array.Data {
	return array.NewData(typ, len(values), []*memory.Buffer{nil, buffer(values)}, nil, 0, 0)
}

// buffer returns a slice of numbers as bytes, without a copy. Arrow is little-endian, as are all platforms that the engine runs on.
func buffer[T any](values []T) *memory.Buffer {
	var zero T
	return memory.NewBufferBytes(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*int(unsafe.Sizeof(zero))))
}
