package parcatest

import (
	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/warpline/warpline/proto/parca"
)

var (
	binaryDict = &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Uint32, ValueType: arrow.BinaryTypes.Binary}
	binaryRuns = arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, binaryDict)
	int64Runs  = arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Int64)
	uint64Runs = arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Uint64)

	lineV1Type = arrow.StructOf(
		arrow.Field{Name: "line", Type: arrow.PrimitiveTypes.Int64},
		arrow.Field{Name: "column", Type: arrow.PrimitiveTypes.Uint64},
		arrow.Field{Name: "function_name", Type: binaryDict},
		arrow.Field{Name: "function_system_name", Type: binaryDict},
		arrow.Field{Name: "function_filename", Type: binaryRuns},
		arrow.Field{Name: "function_start_line", Type: arrow.PrimitiveTypes.Int64})
	linesV1Type    = arrow.ListOf(lineV1Type)
	locationV1Type = arrow.StructOf(
		arrow.Field{Name: "address", Type: arrow.PrimitiveTypes.Uint64},
		arrow.Field{Name: "frame_type", Type: binaryRuns},
		arrow.Field{Name: "mapping_start", Type: uint64Runs},
		arrow.Field{Name: "mapping_limit", Type: uint64Runs},
		arrow.Field{Name: "mapping_offset", Type: uint64Runs},
		arrow.Field{Name: "mapping_file", Type: binaryRuns},
		arrow.Field{Name: "mapping_build_id", Type: binaryRuns},
		arrow.Field{Name: "lines", Type: linesV1Type})
	locationsV1Type = arrow.ListOf(locationV1Type)
)

// ArrowV1 encodes rows in the old schema: the stream of samples, and that of the stacks they name. Rows of one StacktraceID get the stack
// of the first of them, as the agent does.
func ArrowV1(rows []parca.WireRow) (samples, locations []byte) {
	var fields []arrow.Field
	var columns []arrow.Array
	add := func(name string, c arrow.Array, null bool) {
		fields = append(fields, arrow.Field{Name: name, Type: c.DataType(), Nullable: null})
		columns = append(columns, c)
	}
	for _, name := range labelNames(rows) {
		c := newTextRuns(arrow.BinaryTypes.Binary)
		for i := range rows {
			v, ok := rows[i].Labels[name]
			c.add(v, !ok)
		}
		add("labels."+name, c.array(), true)
	}
	var stacks [][]parca.WireFrame
	var ids []string
	known := map[string]bool{}
	id, values := newTextRuns(arrow.BinaryTypes.Binary), make([]int64, len(rows))
	texts := make([]*textRuns, 6)
	for i := range texts {
		texts[i] = newTextRuns(arrow.BinaryTypes.Binary)
	}
	period, duration, at := &numberRuns{signed: true}, &numberRuns{signed: true}, &numberRuns{signed: true}
	hashes := &stackIDs{}
	for i := range rows {
		r := &rows[i]
		stack := string(hashes.of(r))
		id.add(stack, false)
		if !known[stack] {
			known[stack] = true
			stacks, ids = append(stacks, r.Stacktrace), append(ids, stack)
		}
		values[i] = r.Value
		for j, s := range [...]string{r.Producer, r.SampleType, r.SampleUnit, r.PeriodType, r.PeriodUnit, r.Temporality} {
			texts[j].add(s, j == 5 && s == "")
		}
		period.add(r.Period)
		duration.add(int64(r.Duration))
		at.add(r.TimestampUnixNS)
	}
	add("stacktrace_id", id.array(), false)
	add("value", int64s(values), false)
	for i, name := range [...]string{"producer", "sample_type", "sample_unit", "period_type", "period_unit", "temporality"} {
		add(name, texts[i].array(), false)
	}
	add("period", period.array(), false)
	add("duration", duration.array(), false)
	add("timestamp", at.array(), false)
	return stream("v1", fields, columns, len(rows)), locationsV1(ids, stacks)
}

// locationsV1 is the record of stacks.
func locationsV1(ids []string, stacks [][]parca.WireFrame) []byte {
	complete := array.NewBooleanBuilder(memory.DefaultAllocator)
	var depths, lineCounts []int32
	var address, column []uint64
	var line, startLine []int64
	runsOf := func() *textRuns { return newTextRuns(arrow.BinaryTypes.Binary) }
	frame, file, build, filename := runsOf(), runsOf(), runsOf(), runsOf()
	start, limit, offset := &numberRuns{}, &numberRuns{}, &numberRuns{}
	name, system := newTexts(arrow.BinaryTypes.Binary), newTexts(arrow.BinaryTypes.Binary)
	for _, stack := range stacks {
		complete.Append(true)
		depths = append(depths, int32(len(stack)))
		for i := range stack {
			f := &stack[i]
			address = append(address, f.Address)
			frame.add(f.FrameType, f.FrameType == "")
			file.add(f.MappingFile, f.MappingFile == "")
			build.add(f.MappingBuildID, f.MappingBuildID == "")
			start.add(0)
			limit.add(0)
			offset.add(0)
			if !f.HasLines {
				lineCounts = append(lineCounts, -1)
				continue
			}
			lineCounts = append(lineCounts, 1)
			line, column, startLine = append(line, int64(f.Line)), append(column, f.Column), append(startLine, 0)
			if f.FrameType == "cuda-pc" { // the kernel is the system name, of other frames it is the name
				name.addNull()
				system.addOrNull(f.SystemName)
			} else {
				name.addOrNull(f.SystemName)
				system.add("")
			}
			filename.add(f.Filename, f.Filename == "")
		}
	}
	lines := structs(len(line), lineV1Type, int64s(line), uint64s(column), name.array(), system.array(), filename.array(), int64s(startLine))
	items := structs(len(address), locationV1Type, uint64s(address), frame.array(), start.array(), limit.array(), offset.array(), file.array(),
		build.array(), lists(linesV1Type, lineCounts, lines))
	fields := []arrow.Field{{Name: "stacktrace_id", Type: arrow.BinaryTypes.Binary},
		{Name: "is_complete", Type: arrow.FixedWidthTypes.Boolean},
		{Name: "locations", Type: locationsV1Type}}
	columns := []arrow.Array{textArray(arrow.BinaryTypes.Binary, ids), complete.NewArray(), lists(locationsV1Type, depths, items)}
	return stream("v1", fields, columns, len(stacks))
}
