package parcatest

import (
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// The Go library has no builders for dictionaries of structs and for views of lists of them, so the arrays are put together by hand.

// texts collects a dictionary of texts and the indexes into it.
type texts struct {
	typ   *arrow.DictionaryType
	ids   *array.Uint32Builder
	known map[string]uint32
	list  []string
}

// newTexts is for values of type utf8 or binary.
func newTexts(value arrow.DataType) *texts {
	return &texts{typ: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint32, ValueType: value},
		ids: array.NewUint32Builder(memory.DefaultAllocator), known: map[string]uint32{}}
}

func (t *texts) add(s string) {
	id, ok := t.known[s]
	if !ok {
		id = uint32(len(t.list))
		t.known[s] = id
		t.list = append(t.list, s)
	}
	t.ids.Append(id)
}

func (t *texts) addNull() { t.ids.AppendNull() }

// addOrNull takes "" for null.
func (t *texts) addOrNull(s string) {
	if s == "" {
		t.addNull()
		return
	}
	t.add(s)
}

func (t *texts) array() arrow.Array {
	return array.NewDictionaryArray(t.typ, t.ids.NewArray(), textArray(t.typ.ValueType, t.list))
}

func textArray(typ arrow.DataType, list []string) arrow.Array {
	switch typ.ID() {
	case arrow.STRING:
		b := array.NewStringBuilder(memory.DefaultAllocator)
		b.AppendValues(list, nil)
		return b.NewArray()
	case arrow.BINARY:
		b := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)
		for _, s := range list {
			b.Append([]byte(s))
		}
		return b.NewArray()
	}
	panic(fmt.Sprintf("no texts of %v", typ))
}

// runs collects the ends of runs of equal values.
type runs struct {
	ends []int32
	n    int32
}

// more counts a row and says whether it begins a run. The agent makes each null a run of its own.
func (r *runs) more(same bool) (begins bool) {
	r.n++
	if same && len(r.ends) > 0 {
		r.ends[len(r.ends)-1] = r.n
		return false
	}
	r.ends = append(r.ends, r.n)
	return true
}

func (r *runs) array(values arrow.Array) arrow.Array {
	b := array.NewInt32Builder(memory.DefaultAllocator)
	b.AppendValues(r.ends, nil)
	return array.NewRunEndEncodedArray(b.NewArray(), values, int(r.n), 0)
}

// textRuns is a run-end encoded column of texts, in a dictionary or plain.
type textRuns struct {
	runs
	dict  *texts // nil: plain utf8
	plain *array.StringBuilder
	last  string
	null  bool
}

func newTextRuns(value arrow.DataType) *textRuns { return &textRuns{dict: newTexts(value)} }

func newPlainRuns() *textRuns {
	return &textRuns{plain: array.NewStringBuilder(memory.DefaultAllocator)}
}

func (t *textRuns) add(s string, null bool) {
	begins := t.more(!null && !t.null && s == t.last)
	t.last, t.null = s, null
	switch {
	case !begins:
	case t.dict != nil && null:
		t.dict.addNull()
	case t.dict != nil:
		t.dict.add(s)
	case null:
		t.plain.AppendNull()
	default:
		t.plain.Append(s)
	}
}

func (t *textRuns) array() arrow.Array {
	if t.dict != nil {
		return t.runs.array(t.dict.array())
	}
	return t.runs.array(t.plain.NewArray())
}

// numberRuns is a run-end encoded column of numbers.
type numberRuns struct {
	runs
	signed bool
	list   []int64
}

func (u *numberRuns) add(v int64) {
	same := len(u.list) > 0 && u.list[len(u.list)-1] == v
	if u.more(same) {
		u.list = append(u.list, v)
	}
}

func (u *numberRuns) array() arrow.Array {
	if u.signed {
		return u.runs.array(int64s(u.list))
	}
	b := array.NewUint64Builder(memory.DefaultAllocator)
	for _, v := range u.list {
		b.Append(uint64(v))
	}
	return u.runs.array(b.NewArray())
}

func int64s(list []int64) arrow.Array {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	b.AppendValues(list, nil)
	return b.NewArray()
}

func uint64s(list []uint64) arrow.Array {
	b := array.NewUint64Builder(memory.DefaultAllocator)
	b.AppendValues(list, nil)
	return b.NewArray()
}

func uint32s(list []uint32) arrow.Array {
	b := array.NewUint32Builder(memory.DefaultAllocator)
	b.AppendValues(list, nil)
	return b.NewArray()
}

// structs joins columns of equal length without nulls.
func structs(n int, typ *arrow.StructType, columns ...arrow.Array) arrow.Array {
	data := make([]arrow.ArrayData, len(columns))
	for i, c := range columns {
		data[i] = c.Data()
	}
	return array.NewStructData(array.NewData(typ, n, []*memory.Buffer{nil}, data, 0, 0))
}

// span is where a list lies among all items; a null list has from -1.
type span struct{ from, n int32 }

// views makes a list_view.
func views(typ *arrow.ListViewType, spans []span, items arrow.Array) arrow.Array {
	offsets, sizes, valid := array.NewInt32Builder(memory.DefaultAllocator), array.NewInt32Builder(memory.DefaultAllocator),
		array.NewBooleanBuilder(memory.DefaultAllocator)
	nulls := 0
	for _, s := range spans {
		valid.Append(s.from >= 0)
		if s.from < 0 {
			nulls++
		}
		offsets.Append(max(s.from, 0))
		sizes.Append(s.n)
	}
	var bitmap *memory.Buffer
	if nulls > 0 {
		bitmap = valid.NewArray().Data().Buffers()[1]
	}
	buffer := func(b *array.Int32Builder) *memory.Buffer {
		if buf := b.NewArray().Data().Buffers()[1]; buf != nil {
			return buf
		}
		return memory.NewBufferBytes(nil)
	}
	return array.NewListViewData(array.NewData(typ, len(spans), []*memory.Buffer{bitmap, buffer(offsets), buffer(sizes)},
		[]arrow.ArrayData{items.Data()}, nulls, 0))
}

// lists makes a list out of items that lie one after the other. A length of -1 is a null.
func lists(typ *arrow.ListType, lengths []int32, items arrow.Array) arrow.Array {
	offsets, valid := array.NewInt32Builder(memory.DefaultAllocator), array.NewBooleanBuilder(memory.DefaultAllocator)
	at, nulls := int32(0), 0
	offsets.Append(at)
	for _, n := range lengths {
		at += max(n, 0)
		offsets.Append(at)
		valid.Append(n >= 0)
		if n < 0 {
			nulls++
		}
	}
	var bitmap *memory.Buffer
	if nulls > 0 {
		bitmap = valid.NewArray().Data().Buffers()[1]
	}
	return array.NewListData(array.NewData(typ, len(lengths), []*memory.Buffer{bitmap, offsets.NewArray().Data().Buffers()[1]},
		[]arrow.ArrayData{items.Data()}, nulls, 0))
}
