package parcatest

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/warpline/warpline/proto/parca"
)

var (
	utf8Dict = &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint32, ValueType: arrow.BinaryTypes.String}
	utf8Runs = arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String)

	functionType = arrow.StructOf(
		arrow.Field{Name: "system_name", Type: arrow.BinaryTypes.StringView, Nullable: true},
		arrow.Field{Name: "filename", Type: utf8Dict, Nullable: true},
		arrow.Field{Name: "start_line", Type: arrow.PrimitiveTypes.Uint64})
	functionDict = &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint32, ValueType: functionType}
	lineType     = arrow.StructOf(
		arrow.Field{Name: "line", Type: arrow.PrimitiveTypes.Uint64},
		arrow.Field{Name: "column", Type: arrow.PrimitiveTypes.Uint64},
		arrow.Field{Name: "function", Type: functionDict})
	linesType    = arrow.ListViewOf(lineType)
	locationType = arrow.StructOf(
		arrow.Field{Name: "address", Type: arrow.PrimitiveTypes.Uint64},
		arrow.Field{Name: "frame_type", Type: utf8Dict, Nullable: true},
		arrow.Field{Name: "mapping_file", Type: utf8Dict, Nullable: true},
		arrow.Field{Name: "mapping_build_id", Type: utf8Dict, Nullable: true},
		arrow.Field{Name: "lines", Type: linesType, Nullable: true})
	locationDict = &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint32, ValueType: locationType}
	stacksType   = arrow.ListViewOf(locationDict)
)

// Arrow encodes rows as the agent does by default: an IPC stream of schema v2, its buffers compressed as LZ4 frames. A row with a nil
// stack has none; one whose Temporality is "" has none. Rows may share Labels and Stacktrace, which makes it faster. It panics on rows
// that cannot be, such as a StacktraceID that is not 32 hex digits; "" becomes a hash of the frames.
func Arrow(rows []parca.WireRow) []byte { return encodeV2(rows, ipc.WithLZ4()) }

// ArrowPlain is Arrow without compression, as offline files have it.
func ArrowPlain(rows []parca.WireRow) []byte { return encodeV2(rows) }

func encodeV2(rows []parca.WireRow, o ...ipc.Option) []byte {
	labels, labelsType := labelColumns(rows)
	stacks := newStackColumn()
	ids := array.NewFixedSizeBinaryBuilder(memory.DefaultAllocator, &arrow.FixedSizeBinaryType{ByteWidth: 16})
	values, times := make([]int64, len(rows)), array.NewTimestampBuilder(memory.DefaultAllocator, timestampType)
	texts := make([]*textRuns, 6)
	for i := range texts {
		texts[i] = newPlainRuns()
	}
	period, duration := &numberRuns{signed: true}, &numberRuns{}
	hashes := &stackIDs{}
	for i := range rows {
		r := &rows[i]
		stacks.add(r.Stacktrace)
		ids.Append(hashes.of(r))
		values[i] = r.Value
		for j, s := range [...]string{r.Producer, r.SampleType, r.SampleUnit, r.PeriodType, r.PeriodUnit, r.Temporality} {
			texts[j].add(s, j == 5 && s == "")
		}
		period.add(r.Period)
		duration.add(int64(r.Duration))
		times.Append(arrow.Timestamp(r.TimestampUnixNS))
	}
	uuid := arrow.NewMetadata([]string{"ARROW:extension:metadata", "ARROW:extension:name"}, []string{"", "arrow.uuid"})
	fields := []arrow.Field{{Name: "labels", Type: labelsType}, {Name: "stacktrace", Type: stacksType, Nullable: true},
		{Name: "stacktrace_id", Type: &arrow.FixedSizeBinaryType{ByteWidth: 16}, Metadata: uuid},
		{Name: "value", Type: arrow.PrimitiveTypes.Int64}}
	columns := []arrow.Array{labels, stacks.array(), ids.NewArray(), int64s(values)}
	for i, name := range [...]string{"producer", "sample_type", "sample_unit", "period_type", "period_unit", "temporality"} {
		fields = append(fields, arrow.Field{Name: name, Type: utf8Runs, Nullable: name == "temporality"})
		columns = append(columns, texts[i].array())
	}
	fields = append(fields, arrow.Field{Name: "period", Type: arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64)},
		arrow.Field{Name: "duration", Type: arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Uint64)},
		arrow.Field{Name: "timestamp", Type: timestampType})
	columns = append(columns, period.array(), duration.array(), times.NewArray())
	return stream("v2", fields, columns, len(rows), o...)
}

var timestampType = &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}

// stream writes one record as an IPC stream of its own.
func stream(version string, fields []arrow.Field, columns []arrow.Array, n int, o ...ipc.Option) []byte {
	var meta *arrow.Metadata
	if version != "" {
		m := arrow.NewMetadata([]string{"parca_write_schema_version"}, []string{version})
		meta = &m
	}
	schema := arrow.NewSchema(fields, meta)
	var b bytes.Buffer
	w := ipc.NewWriter(&b, append(o, ipc.WithSchema(schema))...)
	if err := w.Write(array.NewRecord(schema, columns, int64(n))); err != nil {
		panic(fmt.Errorf("encode a batch: %w", err))
	}
	if err := w.Close(); err != nil {
		panic(fmt.Errorf("encode a batch: %w", err))
	}
	return b.Bytes()
}

// labelNames are the labels of all rows, sorted.
func labelNames(rows []parca.WireRow) []string {
	names := map[string]bool{}
	for i := range rows {
		if i > 0 && sameMap(rows[i].Labels, rows[i-1].Labels) {
			continue
		}
		for name := range rows[i].Labels {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func labelColumns(rows []parca.WireRow) (arrow.Array, arrow.DataType) {
	names := labelNames(rows)
	fields, columns := make([]arrow.Field, len(names)), make([]arrow.Array, len(names))
	for i, name := range names {
		c := newTextRuns(arrow.BinaryTypes.String)
		for j := range rows {
			v, ok := rows[j].Labels[name]
			c.add(v, !ok)
		}
		columns[i] = c.array()
		fields[i] = arrow.Field{Name: name, Type: columns[i].DataType(), Nullable: true}
	}
	typ := arrow.StructOf(fields...)
	return structs(len(rows), typ, columns...), typ
}

// stackIDs gives stacks their 16 bytes.
type stackIDs struct{ known map[*parca.WireFrame][]byte }

func (s *stackIDs) of(r *parca.WireRow) []byte {
	if r.StacktraceID != "" {
		id, err := hex.DecodeString(r.StacktraceID)
		if err != nil || len(id) != 16 {
			panic(fmt.Sprintf("stacktrace id %q is not 32 hex digits", r.StacktraceID))
		}
		return id
	}
	if len(r.Stacktrace) == 0 {
		return make([]byte, 16)
	}
	if s.known == nil {
		s.known = map[*parca.WireFrame][]byte{}
	}
	id, ok := s.known[&r.Stacktrace[0]]
	if !ok {
		id = stackHash(r.Stacktrace)
		s.known[&r.Stacktrace[0]] = id
	}
	return id
}
