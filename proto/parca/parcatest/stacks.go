package parcatest

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/warpline/warpline/proto/parca"
)

// stackColumn builds the column stacktrace of schema v2: equal stacks share their place among the items.
type stackColumn struct {
	spans   []span
	items   []uint32 // locations of all stacks
	bySlice map[*parca.WireFrame]span
	byText  map[string]span

	locations map[parca.WireFrame]uint32
	address   []uint64
	frame     *texts
	file      *texts
	build     *texts
	lines     []span
	line      []uint64
	column    []uint64
	functions []uint32 // of lines

	known     map[[2]string]uint32
	names     *array.StringViewBuilder
	filenames *texts
}

func newStackColumn() *stackColumn {
	utf8 := arrow.BinaryTypes.String
	return &stackColumn{bySlice: map[*parca.WireFrame]span{}, byText: map[string]span{}, locations: map[parca.WireFrame]uint32{},
		frame: newTexts(utf8), file: newTexts(utf8), build: newTexts(utf8), known: map[[2]string]uint32{},
		names: array.NewStringViewBuilder(memory.DefaultAllocator), filenames: newTexts(utf8)}
}

func (c *stackColumn) add(stack []parca.WireFrame) {
	if stack == nil {
		c.spans = append(c.spans, span{from: -1})
		return
	}
	if len(stack) == 0 {
		c.spans = append(c.spans, span{from: int32(len(c.items))})
		return
	}
	s, ok := c.bySlice[&stack[0]]
	if !ok || int(s.n) != len(stack) {
		s = c.place(stack)
		c.bySlice[&stack[0]] = s
	}
	c.spans = append(c.spans, s)
}

// place finds the stack among the items, or adds it.
func (c *stackColumn) place(stack []parca.WireFrame) span {
	ids := make([]uint32, len(stack))
	key := make([]byte, 0, 4*len(stack))
	for i := range stack {
		ids[i] = c.location(&stack[i])
		key = binary.LittleEndian.AppendUint32(key, ids[i])
	}
	s, ok := c.byText[string(key)]
	if !ok {
		s = span{int32(len(c.items)), int32(len(ids))}
		c.items = append(c.items, ids...)
		c.byText[string(key)] = s
	}
	return s
}

func (c *stackColumn) location(f *parca.WireFrame) uint32 {
	if id, ok := c.locations[*f]; ok {
		return id
	}
	id := uint32(len(c.address))
	c.locations[*f] = id
	c.address = append(c.address, f.Address)
	c.frame.addOrNull(f.FrameType)
	c.file.addOrNull(f.MappingFile)
	c.build.addOrNull(f.MappingBuildID)
	if !f.HasLines {
		c.lines = append(c.lines, span{from: -1})
		return id
	}
	c.lines = append(c.lines, span{int32(len(c.line)), 1})
	c.line, c.column = append(c.line, f.Line), append(c.column, f.Column)
	c.functions = append(c.functions, c.function(f.SystemName, f.Filename))
	return id
}

func (c *stackColumn) function(name, file string) uint32 {
	id, ok := c.known[[2]string{name, file}]
	if !ok {
		id = uint32(len(c.known))
		c.known[[2]string{name, file}] = id
		if name == "" {
			c.names.AppendNull()
		} else {
			c.names.Append(name)
		}
		c.filenames.addOrNull(file)
	}
	return id
}

func (c *stackColumn) array() arrow.Array {
	n := len(c.known)
	functions := structs(n, functionType, c.names.NewArray(), c.filenames.array(), uint64s(make([]uint64, n)))
	lines := structs(len(c.line), lineType, uint64s(c.line), uint64s(c.column),
		array.NewDictionaryArray(functionDict, uint32s(c.functions), functions))
	locations := structs(len(c.address), locationType, uint64s(c.address), c.frame.array(), c.file.array(), c.build.array(),
		views(linesType, c.lines, lines))
	return views(stacksType, c.spans, array.NewDictionaryArray(locationDict, uint32s(c.items), locations))
}

// stackHash is as weak as the agent's: names are not in it.
func stackHash(stack []parca.WireFrame) []byte {
	h := sha256.New()
	for i := range stack {
		h.Write([]byte(stack[i].MappingBuildID))
		h.Write(binary.LittleEndian.AppendUint64(nil, stack[i].Address))
	}
	return h.Sum(nil)[:16]
}

func sameMap(a, b map[string]string) bool { return len(a) == len(b) && maps.Equal(a, b) }
