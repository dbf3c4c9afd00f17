package parca

import (
	"encoding/binary"
	"math"
	"strings"
)

// Types of columns, as Arrow numbers them.
const (
	typeNull      = 1
	typeInt       = 2
	typeFloat     = 3
	typeBinary    = 4
	typeUtf8      = 5
	typeBool      = 6
	typeDecimal   = 7
	typeDate      = 8
	typeTime      = 9
	typeTimestamp = 10
	typeInterval  = 11
	typeList      = 12
	typeStruct    = 13
	typeUnion     = 14
	typeFixed     = 15
	typeFixedList = 16
	typeMap       = 17
	typeDuration  = 18
	typeLargeBin  = 19
	typeLargeUtf8 = 20
	typeLargeList = 21
	typeRunEnd    = 22
	typeBinView   = 23
	typeUtf8View  = 24
	typeListView  = 25
	typeLargeView = 26
)

// field is a column of a schema.
type field struct {
	name  []byte
	kind  byte
	width int // bytes of a value; bits/8 of an integer; items of a fixed list; unit of a timestamp is in unit
	unit  int
	dense bool // of a union
	kids  []field
	// Of a dictionary's indexes: its number. Where hasDict is set, kind, width and kids are those of its values.
	hasDict    bool
	dict       int64
	indexWidth int
}

// ipcStream reads one Arrow IPC stream: a schema, dictionaries, records.
type ipcStream struct {
	m       *uploadMemory
	rest    []byte
	version []byte // of parca_write_schema_version
	fields  []field
	byDict  map[int64]*field
	dicts   map[int64]*dictionary
	count   int
	total   int // fields

	// While a message is read.
	f        flat
	body     []byte
	nodes    int
	nodesN   int
	bufs     int
	bufsN    int
	variadic int
	varN     int
	packed   bool
	skip     bool // its buffers are not wanted: they are passed over
}

// dictionary is the values of a dictionary column.
type dictionary struct {
	values array
	texts  []uint32 // ids of its texts, once asked
	locs   uint32   // base of its locations, once asked
	lines  uint32   // base of its functions, once asked
	known  bool
}

// array is a column of one record. Lengths of its buffers are checked; what they say is not.
type array struct {
	f     *field
	n     int
	nulls []byte // nil: none is null
	a, b  []byte // values; offsets and data; indexes; views; offsets and sizes
	vars  [][]byte
	kids  []array
	dict  *dictionary
}

// openStream reads the schema.
func openStream(m *uploadMemory, ipc []byte) (*ipcStream, error) {
	s := &ipcStream{m: m, rest: ipc, byDict: map[int64]*field{}, dicts: map[int64]*dictionary{}}
	kind, header, ok, err := s.message()
	if err != nil {
		return nil, err
	}
	if !ok || kind != 1 {
		return nil, corrupt("it is no Arrow IPC stream: it does not begin with a schema")
	}
	if s.f.int16(header, 0) != 0 {
		return nil, &Error{Code: CodeSchema, Detail: "big-endian Arrow is not read"}
	}
	at, n := s.f.vector(header, 1, 4)
	if s.fields, err = s.schemaFields(at, n, 0); err != nil {
		return nil, err
	}
	s.register(s.fields)
	at, n = s.f.vector(header, 2, 4)
	for i := range n {
		kv := s.f.ref(at + 4*i)
		if string(s.f.text(kv, 0)) == "parca_write_schema_version" {
			s.version = s.f.text(kv, 1)
		}
	}
	if s.f.bad {
		return nil, corrupt("the Arrow schema is torn")
	}
	return s, nil
}

func (s *ipcStream) register(fields []field) {
	for i := range fields {
		f := &fields[i]
		if f.hasDict {
			s.byDict[f.dict] = f
		}
		s.register(f.kids)
	}
}

// message reads the next message: its header's type and table. ok is false at the end of the stream.
func (s *ipcStream) message() (kind byte, header int, ok bool, err error) {
	if len(s.rest) == 0 {
		return 0, 0, false, nil
	}
	if s.count++; s.count > maxRecordCount {
		return 0, 0, false, &Error{Code: CodeTooLarge, Detail: "too many messages in one Arrow stream"}
	}
	if len(s.rest) < 4 {
		return 0, 0, false, corrupt("the Arrow stream is torn")
	}
	size := binary.LittleEndian.Uint32(s.rest)
	s.rest = s.rest[4:]
	if size == math.MaxUint32 {
		if len(s.rest) < 4 {
			return 0, 0, false, corrupt("the Arrow stream is torn")
		}
		size = binary.LittleEndian.Uint32(s.rest)
		s.rest = s.rest[4:]
	}
	if size == 0 {
		return 0, 0, false, nil
	}
	if uint64(size) > uint64(len(s.rest)) || size < 8 {
		return 0, 0, false, corrupt("the Arrow stream is torn: a message of %d bytes does not fit", size)
	}
	s.f = flat{b: s.rest[:size]}
	s.rest = s.rest[size:]
	root := s.f.ref0()
	kind = s.f.byte(root, 1, 0)
	header = s.f.table(root, 2)
	length := s.f.int64(root, 3)
	if s.f.bad || length < 0 || length > int64(len(s.rest)) {
		return 0, 0, false, corrupt("the Arrow stream is torn: a body of %d bytes does not fit", length)
	}
	s.body = s.rest[:length]
	s.rest = s.rest[length:]
	return kind, header, true, nil
}

// ref0 is the root table.
func (f *flat) ref0() int {
	to := int(f.u32(0))
	if to == 0 || to > len(f.b)-4 {
		f.bad = true
		return 0
	}
	return to
}

func (s *ipcStream) schemaFields(at, n, depth int) ([]field, error) {
	if n == 0 {
		return nil, nil
	}
	s.total += n
	if s.total > maxFields || depth > maxDepth {
		return nil, &Error{Code: CodeTooLarge, Detail: "the Arrow schema has too many columns"}
	}
	if err := s.m.take(n * 128); err != nil {
		return nil, err
	}
	fields := make([]field, n)
	for i := range fields {
		t := s.f.ref(at + 4*i)
		fd := &fields[i]
		fd.name = s.f.text(t, 0)
		fd.kind = s.f.byte(t, 2, 0)
		ty := s.f.table(t, 3)
		switch fd.kind {
		case typeInt:
			fd.width = s.f.int32(ty, 0) / 8
		case typeFloat:
			fd.width = 2 << s.f.int16(ty, 0)
		case typeTimestamp:
			fd.width, fd.unit = 8, s.f.int16(ty, 0)
		case typeDuration:
			fd.width = 8
		case typeDate, typeTime, typeInterval, typeDecimal:
			fd.width = 8 // only the buffers' count matters: nothing reads these
		case typeFixed, typeFixedList:
			fd.width = s.f.int32(ty, 0)
		case typeUnion:
			fd.dense = s.f.int16(ty, 0) == 1
		}
		if d := s.f.table(t, 4); d != 0 {
			fd.hasDict, fd.dict, fd.indexWidth = true, s.f.int64(d, 0), 4
			if it := s.f.table(d, 1); it != 0 {
				fd.indexWidth = s.f.int32(it, 0) / 8
			}
			if w := fd.indexWidth; w != 1 && w != 2 && w != 4 && w != 8 {
				return nil, corrupt("a dictionary's indexes have %d bytes", w)
			}
		}
		if fd.width < 0 || fd.width > 1<<16 {
			return nil, corrupt("a column's values have %d bytes", fd.width)
		}
		kat, kn := s.f.vector(t, 5, 4)
		if s.f.bad {
			return nil, corrupt("the Arrow schema is torn")
		}
		var err error
		if fd.kids, err = s.schemaFields(kat, kn, depth+1); err != nil {
			return nil, err
		}
	}
	return fields, nil
}

// record reads messages up to the next record. ok is false at the end of the stream.
func (s *ipcStream) record() (cols []array, n int, ok bool, err error) {
	for {
		kind, header, ok, err := s.message()
		if err != nil || !ok {
			return nil, 0, false, err
		}
		switch kind {
		case 2:
			id := s.f.int64(header, 0)
			fd := s.byDict[id]
			if s.f.byte(header, 2, 0) != 0 {
				return nil, 0, false, &Error{Code: CodeSchema, Detail: "delta dictionaries are not read"}
			}
			n, err := s.batch(s.f.table(header, 1))
			if err != nil {
				return nil, 0, false, err
			}
			if fd == nil {
				continue
			}
			values := *fd
			values.hasDict = false
			held := new(dictionary)
			vf := &values
			if held.values, err = s.array(vf, 0); err != nil {
				return nil, 0, false, err
			}
			if held.values.n != n || n > maxDictionary {
				return nil, 0, false, corrupt("a dictionary has another length than it says")
			}
			s.dicts[id] = held
		case 3:
			n, err := s.batch(header)
			if err != nil {
				return nil, 0, false, err
			}
			if n > maxRows {
				return nil, 0, false, &Error{Code: CodeTooLarge, Detail: "more than 4 Mi rows in one record"}
			}
			if err := s.m.take(len(s.fields) * 224); err != nil {
				return nil, 0, false, err
			}
			cols = make([]array, len(s.fields))
			for i := range cols {
				s.skip = !known(s.fields[i].name)
				if cols[i], err = s.array(&s.fields[i], 0); err != nil {
					return nil, 0, false, err
				}
				if cols[i].n != n {
					return nil, 0, false, corrupt("column %.64q has %d rows, the record %d", s.fields[i].name, cols[i].n, n)
				}
			}
			s.skip = false
			return cols, n, true, nil
		default:
			return nil, 0, false, corrupt("a message of type %d is no record", kind)
		}
	}
}

// batch begins a record batch.
func (s *ipcStream) batch(t int) (n int, err error) {
	length := s.f.int64(t, 0)
	s.nodes, s.nodesN = s.f.vector(t, 1, 16)
	s.bufs, s.bufsN = s.f.vector(t, 2, 16)
	s.variadic, s.varN = s.f.vector(t, 4, 8)
	s.packed = false
	if c := s.f.table(t, 3); c != 0 {
		if s.f.byte(c, 0, 0) != 0 {
			return 0, &Error{Code: CodeSchema, Detail: "Arrow buffers may be compressed with LZ4 only"}
		}
		s.packed = true
	}
	if s.f.bad || length < 0 || length > math.MaxInt32 {
		return 0, corrupt("a record batch of %d rows is torn", length)
	}
	return int(length), nil
}

// known says whether a column of a record is one that is read.
func known(name []byte) bool {
	switch string(name) {
	case "labels", "stacktrace", "stacktrace_id", "value", "timestamp", "producer", "sample_type", "sample_unit", "period_type", "period_unit",
		"temporality", "period", "duration", "locations":
		return true
	}
	return strings.HasPrefix(string(name), "labels.")
}
