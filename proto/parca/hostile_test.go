package parca

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"runtime/metrics"
	"slices"
	"strconv"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	arrowarray "github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// maxMemory is what 1 MiB of input may allocate.
const maxMemory = 64 << 20

// allocated says how many bytes fn allocates in all, freed ones too.
func allocated(fn func()) uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	fn()
	metrics.Read(sample)
	return sample[0].Value.Uint64() - before
}

// bounded fails if fn allocates more than 1 MiB of input may.
func bounded(t testing.TB, size int, fn func()) {
	t.Helper()
	if n := allocated(fn); size <= 1<<20 && n > maxMemory {
		t.Fatalf("%d bytes of input take %d MiB", size, n>>20)
	}
}

// refused wants an error that says that the upload can never be taken.
func refused(t *testing.T, err error, code string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("%v, want code %s", err, code)
	}
}

// record is a v2 record of n rows that tests spoil: values, times, run-end encoded types and stacks over one dictionary of locations.
type record struct {
	rows       int
	labels     int     // columns
	runEnds    []int32 // of sample_type
	offsets    []int32 // of stacks
	sizes      []int32
	indexes    []uint32 // of locations
	locations  int
	labelIndex uint32
}

func fixed(kind arrow.DataType, n int, b []byte) arrow.ArrayData {
	return arrowarray.NewData(kind, n, []*memory.Buffer{nil, memory.NewBufferBytes(b)}, nil, 0, 0)
}

func le32[T int32 | uint32](v []T) (b []byte) {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, uint32(x))
	}
	return b
}

func texts32(all ...string) *arrowarray.Data {
	offsets, data := []int32{0}, ""
	for _, s := range all {
		data += s
		offsets = append(offsets, int32(len(data)))
	}
	return arrowarray.NewData(arrow.BinaryTypes.String, len(all),
		[]*memory.Buffer{nil, memory.NewBufferBytes(le32(offsets)), memory.NewBufferBytes([]byte(data))}, nil, 0, 0)
}

func (r record) ipc(t *testing.T) []byte {
	t.Helper()
	i64, u64, i32 := arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Uint64, arrow.PrimitiveTypes.Int32
	times := bytes.Repeat(binary.LittleEndian.AppendUint64(nil, 1795168800000000000), r.rows)
	ones := bytes.Repeat(binary.LittleEndian.AppendUint64(nil, 1), r.rows)
	if r.runEnds == nil {
		r.runEnds = []int32{int32(r.rows)}
	}
	names := make([]string, len(r.runEnds))
	for i := range names {
		names[i] = "gpu_pcsample"
	}
	text := arrow.RunEndEncodedOf(i32, arrow.BinaryTypes.String)
	kinds := arrowarray.NewData(text, r.rows, []*memory.Buffer{nil},
		[]arrow.ArrayData{fixed(i32, len(r.runEnds), le32(r.runEnds)), texts32(names...)}, 0, 0)

	location := arrow.StructOf(arrow.Field{Name: "address", Type: u64})
	n := max(r.locations, 1)
	values := arrowarray.NewData(location, n, []*memory.Buffer{nil}, []arrow.ArrayData{fixed(u64, n, make([]byte, 8*n))}, 0, 0)
	dict := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint32, ValueType: location}
	index := arrowarray.NewDataWithDictionary(dict, len(r.indexes),
		[]*memory.Buffer{nil, memory.NewBufferBytes(le32(r.indexes))}, 0, 0, values)
	list := arrow.ListViewOf(dict)
	if r.offsets == nil {
		r.offsets, r.sizes = make([]int32, r.rows), slices.Repeat([]int32{int32(len(r.indexes))}, r.rows)
	}
	stacks := arrowarray.NewData(list, r.rows,
		[]*memory.Buffer{nil, memory.NewBufferBytes(le32(r.offsets)), memory.NewBufferBytes(le32(r.sizes))}, []arrow.ArrayData{index}, 0, 0)

	ldict := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint32, ValueType: arrow.BinaryTypes.String}
	label := arrow.RunEndEncodedOf(i32, ldict)
	var fields []arrow.Field
	var kids []arrow.ArrayData
	lvalues := texts32("v")
	for i := range r.labels {
		fields = append(fields, arrow.Field{Name: "label" + strconv.Itoa(i), Type: label})
		one := arrowarray.NewDataWithDictionary(ldict, 1,
			[]*memory.Buffer{nil, memory.NewBufferBytes(le32([]uint32{r.labelIndex}))}, 0, 0, lvalues)
		kids = append(kids, arrowarray.NewData(label, r.rows, []*memory.Buffer{nil},
			[]arrow.ArrayData{fixed(i32, 1, le32([]int32{int32(r.rows)})), one}, 0, 0))
	}
	labels := arrow.StructOf(fields...)

	version := arrow.NewMetadata([]string{"parca_write_schema_version"}, []string{"v2"})
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "labels", Type: labels}, {Name: "stacktrace", Type: list}, {Name: "value", Type: i64}, {Name: "sample_type", Type: text},
		{Name: "timestamp", Type: &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}}, {Name: "new_column", Type: i64},
	}, &version)
	cols := []arrow.Array{
		raw{arrowarray.NewData(labels, r.rows, []*memory.Buffer{nil}, kids, 0, 0)}.array(), raw{stacks}.array(),
		raw{fixed(i64, r.rows, ones)}.array(), raw{kinds}.array(),
		raw{fixed(&arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}, r.rows, times)}.array(),
		raw{fixed(i64, r.rows, ones)}.array(),
	}
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema), ipc.WithLZ4())
	if err := w.Write(arrowarray.NewRecord(schema, cols, int64(r.rows))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

type raw struct{ d arrow.ArrayData }

func (r raw) array() arrow.Array { return arrowarray.MakeFromData(r.d) }

// Each record says something impossible, and is refused with what is wrong. A good one before and behind it is read.
func TestHostileRecords(t *testing.T) {
	var b Batch
	for name, c := range map[string]struct {
		record record
		code   string
	}{
		"run ends that fall":          {record{rows: 9, runEnds: []int32{5, 3, 9}}, CodeCorrupt},
		"run ends below 0":            {record{rows: 9, runEnds: []int32{-1, 9}}, CodeCorrupt},
		"run ends that overrun":       {record{rows: 9, runEnds: []int32{5, 1 << 30}}, CodeCorrupt},
		"an index of a location":      {record{rows: 9, indexes: []uint32{7}}, CodeCorrupt},
		"an index of 2^32-1":          {record{rows: 9, indexes: []uint32{1<<32 - 1}}, CodeCorrupt},
		"a stack outside":             {record{rows: 1, indexes: []uint32{0}, offsets: []int32{5}, sizes: []int32{1}}, CodeCorrupt},
		"a stack below 0":             {record{rows: 1, indexes: []uint32{0}, offsets: []int32{-1}, sizes: []int32{1}}, CodeCorrupt},
		"a stack of a size below 0":   {record{rows: 1, indexes: []uint32{0}, offsets: []int32{0}, sizes: []int32{-1}}, CodeCorrupt},
		"an index of a label's value": {record{rows: 2, labels: 1, labelIndex: 8}, CodeCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, b.DecodeArrow(c.record.ipc(t)), c.code)
			if b.Len() != 0 {
				t.Fatal("rows of a refused record")
			}
			if err := b.DecodeArrow(vector(t, "batch1.v2.lz4.arrows")); err != nil || b.Len() != 22 {
				t.Fatal(err)
			}
		})
	}
}

// Rows that share one stack of a million frames cost one stack, which is cut. A million of them, which 163 KiB can say, would take more
// memory than that may: they are refused.
func TestManyRowsOfOneLongStack(t *testing.T) {
	var b Batch
	for _, rows := range []int{100_000, 1 << 20} {
		ipc := record{rows: rows, indexes: make([]uint32, 1<<20), locations: 1}.ipc(t)
		bounded(t, len(ipc), func() {
			err := b.DecodeArrow(ipc)
			if rows == 1<<20 {
				refused(t, err, CodeTooLarge)
				return
			}
			if err != nil || b.Len() != rows || len(b.held2) != maxFrames {
				t.Fatalf("%v, %d rows, %d frames", err, b.Len(), len(b.held2))
			}
		})
	}
}

// 1 MiB of the smallest things that a message can hold takes no more memory than it may.
func TestSmallestThings(t *testing.T) {
	many := func(entry ...byte) []byte { return bytes.Repeat(entry, 1<<20/len(entry)) }
	var b Batch
	for table := byte(1); table <= 7; table++ {
		var distinct message
		for i := uint64(0); len(distinct.b) < 1<<20-16; i++ {
			distinct.bytes(int(table), binary.AppendUvarint([]byte{8}, i))
		}
		for _, dict := range [][]byte{many(table<<3|2, 0), distinct.b} {
			var m message
			m.bytes(2, dict)
			bounded(t, 1<<20, func() { _ = b.DecodeOTLP(m.b) })
			b = Batch{}
		}
	}
	var profile, scope, resource, m message
	profile.bytes(2, []byte{0x20, 1})
	scope.bytes(2, many(profile.b...))
	resource.bytes(2, scope.b)
	m.bytes(1, resource.b)
	bounded(t, 1<<20, func() { _ = b.DecodeOTLP(m.b) })
	var p Part
	for skipped := range 9 { // how many sections are empty before the one of zeros
		body := append([]byte{partVersion}, make([]byte, 3+skipped)...)
		body = append(binary.AppendUvarint(body, 1<<18), make([]byte, 1<<20)...)
		bounded(t, 1<<20, func() { _ = p.Decode(body) })
		p = Part{}
	}
	bounded(t, 1<<20, func() { _ = b.DecodeArrow(many(0xff, 0xff, 0xff, 0xff, 8, 0, 0, 0)) })
}

func TestTenThousandLabelColumns(t *testing.T) {
	ipc := record{rows: 500, labels: 10_000, indexes: []uint32{0}}.ipc(t)
	t.Log(len(ipc), "bytes")
	var b Batch
	if err := b.DecodeArrow(ipc); err != nil {
		t.Fatal(err)
	}
	ids, _ := pieces(t, &b)
	if len(ids) != 1 {
		t.Fatal(ids)
	}
}

// An LZ4 buffer that says that it is 2^40 bytes is refused before they are allocated.
func TestLengthsThatLie(t *testing.T) {
	good := vector(t, "batch1.v2.lz4.arrows")
	magic := []byte{4, 0x22, 0x4d, 0x18}
	found := 0
	for at := 8; at < len(good)-4; at++ {
		if !bytes.Equal(good[at:at+4], magic) {
			continue
		}
		found++
		for _, length := range []uint64{1 << 40, 1 << 62, 1 << 63, 1 << 31, 200 << 20} {
			bad := bytes.Clone(good)
			binary.LittleEndian.PutUint64(bad[at-8:], length)
			var b Batch
			bounded(t, len(bad), func() { refused(t, b.DecodeArrow(bad), CodeCorrupt) })
		}
	}
	if found == 0 {
		t.Fatal("no compressed buffer")
	}
}

// Whatever is cut off or spoiled, there is an answer, and no more memory than may be.
func TestSpoiledVectors(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"batch1.v2.lz4.arrows", "offline_v2.padata", "offline_v1.padata"} {
		good := vector(t, name)
		for range 400 {
			bad := bytes.Clone(good)
			for range 1 + rng.IntN(4) {
				bad[rng.IntN(len(bad))] = byte(rng.IntN(256))
			}
			if rng.IntN(4) == 0 {
				bad = bad[:rng.IntN(len(bad))]
			}
			tryAll(t, bad)
		}
	}
}

// tryAll decodes bytes as everything, and cuts what they give.
func tryAll(t testing.TB, data []byte) {
	var b Batch
	check := func(err error) {
		var e *Error
		var need *NeedLocations
		var torn *TornError
		switch {
		case err == nil:
			pieces(t, &b)
			for range b.Rows() {
				break
			}
		case errors.As(err, &e), errors.As(err, &need), errors.As(err, &torn), err == io.EOF:
			if b.Len() != 0 {
				t.Fatal("rows of what was refused")
			}
		default:
			t.Fatal(err)
		}
	}
	bounded(t, len(data), func() { check(b.DecodeArrow(data)) })
	bounded(t, len(data), func() { check(b.DecodeOTLP(data)) })
	bounded(t, len(data), func() {
		p, err := NewPadata(bytes.NewReader(data), int64(len(data)))
		for err == nil {
			var ipc [][]byte
			if ipc, err = p.Next(); err != nil {
				break
			}
			if len(ipc) == 1 {
				check(b.DecodeArrow(ipc[0]))
			} else {
				check(b.DecodeArrowV1(ipc[0], ipc[1]))
			}
		}
		b.Reset()
		check(err)
	})
}

// Later batches of an offline file refer to stacks that an earlier one wrote.
func TestStacksAreHandedForward(t *testing.T) {
	file := []byte(padataMagic + "\x00\x00\x00\x02")
	for _, name := range []string{"batch1.v1.samples.arrows", "batch1.v1.locations.arrows", "batch1.v1.samples.arrows",
		"hash_collision.v1.locations.arrows"} {
		b := vector(t, name)
		file = append(binary.BigEndian.AppendUint32(file, uint32(len(b))), b...)
	}
	rows, end := padataRows(t, file)
	if end != io.EOF {
		t.Fatal(end)
	}
	sameRows(t, rows, wantRows(t, "batch1", "batch1"))
}

func FuzzArrow(f *testing.F) {
	f.Add(vector(f, "batch1.v2.lz4.arrows"))
	f.Add(vector(f, "hash_collision.v1.samples.arrows"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var b Batch
		bounded(t, len(data), func() {
			if b.DecodeArrow(data) == nil {
				pieces(t, &b)
			}
			_, _ = StacktraceIDs(data)
		})
	})
}

func FuzzPadata(f *testing.F) {
	f.Add(vector(f, "offline_v1.padata"))
	f.Add(vector(f, "offline_v2.padata"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if IsPadata(data) {
			tryAll(t, data)
		}
	})
}

func FuzzOTLP(f *testing.F) {
	f.Add(otlpOf(manyRows(20), 0))
	f.Add(otlpOf(manyRows(3), 9))
	f.Fuzz(func(t *testing.T, data []byte) {
		var b Batch
		bounded(t, len(data), func() {
			if b.DecodeOTLP(data) == nil {
				pieces(t, &b)
			}
		})
	})
}

func FuzzPart(f *testing.F) {
	var b Batch
	if err := b.DecodeOTLP(otlpOf(manyRows(20), 0)); err != nil {
		f.Fatal(err)
	}
	_ = b.Cut(func(p Piece) error {
		f.Add(bytes.Clone(p.Body))
		return nil
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		var p Part
		bounded(t, len(data), func() {
			if p.Decode(data) == nil {
				var again Part
				if err := again.Decode(AppendPart(nil, &p)); err != nil {
					t.Fatal(err)
				}
			}
		})
	})
}
