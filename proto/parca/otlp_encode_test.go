package parca

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"
)

// message writes protobuf.
type message struct{ b []byte }

func (m *message) varint(num int, v uint64) {
	m.b = binary.AppendUvarint(binary.AppendUvarint(m.b, uint64(num)<<3), v)
}

func (m *message) bytes(num int, b []byte) {
	m.b = append(binary.AppendUvarint(binary.AppendUvarint(m.b, uint64(num)<<3|2), uint64(len(b))), b...)
}

func (m *message) packed(num int, vs ...uint64) {
	var p []byte
	for _, v := range vs {
		p = binary.AppendUvarint(p, v)
	}
	if len(p) > 0 {
		m.bytes(num, p)
	}
}

// entries is a table whose entries are written once. Entry 0 is empty.
type entries struct {
	index map[string]uint64
	all   []string
}

func (e *entries) of(s string) uint64 {
	if e.index == nil {
		e.index, e.all = map[string]uint64{"": 0}, []string{""}
	}
	n, ok := e.index[s]
	if !ok {
		n = uint64(len(e.all))
		e.index[s] = n
		e.all = append(e.all, s)
	}
	return n
}

// otlpOf writes rows as OTLP profiles of proto 1.10, or as 1.9 numbers them.
func otlpOf(rows []WireRow, version int) []byte {
	var texts, attrs, functions, mappings, locs, stacks entries
	for _, e := range []*entries{&texts, &attrs, &functions, &mappings, &locs, &stacks} {
		e.of("")
	}
	attr := func(key, value string) uint64 {
		var v, a message
		v.bytes(1, []byte(value))
		a.varint(1, texts.of(key))
		a.bytes(2, v.b)
		return attrs.of(string(a.b))
	}
	process := func(name string) bool { return name == "node" || name == "pid" || name == "comm" || name == "cluster" }
	var request message
	for from := 0; from < len(rows); {
		to := from + 1
		same := func(a, b *WireRow) bool {
			for _, n := range []string{"node", "pid", "comm", "cluster"} {
				if a.Labels[n] != b.Labels[n] {
					return false
				}
			}
			return a.SampleType == b.SampleType && a.Period == b.Period
		}
		for to < len(rows) && same(&rows[from], &rows[to]) {
			to++
		}
		first := &rows[from]
		var resource, profile, kind message
		for _, name := range slices.Sorted(maps.Keys(first.Labels)) {
			if !process(name) {
				continue
			}
			var kv, v message
			switch name {
			case "node":
				kv.bytes(1, []byte("host.name"))
			case "pid":
				kv.bytes(1, []byte("process.pid"))
			default:
				kv.bytes(1, []byte(name))
			}
			v.bytes(1, []byte(first.Labels[name]))
			kv.bytes(2, v.b)
			resource.bytes(1, kv.b)
		}
		kind.varint(1, texts.of(first.SampleType))
		kind.varint(2, texts.of(first.SampleUnit))
		profile.bytes(1, kind.b)
		for i := range rows[from:to] {
			w := &rows[from+i]
			var st message
			var places []uint64
			for _, f := range w.Stacktrace {
				var l, mp message
				mp.varint(4, texts.of(f.MappingFile))
				if f.MappingBuildID != "" {
					mp.packed(5, attr("process.executable.build_id.htlhash", f.MappingBuildID))
				}
				l.varint(1, mappings.of(string(mp.b)))
				l.varint(2, f.Address)
				if f.HasLines {
					var fn, ln message
					fn.varint(1, texts.of(f.SystemName))
					fn.varint(3, texts.of(f.Filename))
					ln.varint(1, functions.of(string(fn.b)))
					ln.varint(2, f.Line)
					l.bytes(3, ln.b)
				}
				l.packed(4, attr("profile.frame.type", f.FrameType))
				places = append(places, locs.of(string(l.b)))
			}
			st.packed(1, places...)
			var sample message
			var indexes []uint64
			for _, name := range slices.Sorted(maps.Keys(w.Labels)) {
				switch {
				case process(name):
				case name == "thread_id" || name == "thread_name":
					indexes = append(indexes, attr(strings.ReplaceAll(name, "_", "."), w.Labels[name]))
				case name == "cpu":
					indexes = append(indexes, attr("cpu.logical_number", w.Labels[name]))
				default:
					indexes = append(indexes, attr("process.context.label."+name, w.Labels[name]))
				}
			}
			sample.varint(1, stacks.of(string(st.b)))
			if version == 9 {
				sample.packed(2, uint64(w.Value))
				sample.packed(3, indexes...)
			} else {
				sample.packed(2, indexes...)
				sample.packed(4, uint64(w.Value))
			}
			sample.bytes(5, binary.LittleEndian.AppendUint64(nil, uint64(w.TimestampUnixNS)))
			profile.bytes(2, sample.b)
		}
		profile.varint(4, first.Duration)
		profile.varint(6, uint64(first.Period))
		var scope, rp message
		scope.bytes(2, profile.b)
		rp.bytes(1, resource.b)
		rp.bytes(2, scope.b)
		request.bytes(1, rp.b)
		from = to
	}
	var dict message
	for num, e := range []*entries{1: &mappings, 2: &locs, 3: &functions, 5: &texts, 6: &attrs, 7: &stacks} {
		if e != nil {
			for _, s := range e.all {
				dict.bytes(num, []byte(s))
			}
		}
	}
	request.bytes(2, dict.b)
	return request.b
}
