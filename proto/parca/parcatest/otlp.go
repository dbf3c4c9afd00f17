package parcatest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/warpline/warpline/proto/parca"
)

// OTLP encodes rows as newer agents do: an ExportProfilesServiceRequest of opentelemetry.proto.collector.profiles.v1development as proto
// 1.10 numbers it. A resource is a process, a profile a sample type of it, a sample one row.
func OTLP(rows []parca.WireRow) []byte {
	return newOTLP(sampleFields{attributes: 2, link: 3, values: 4}).encode(rows)
}

// OTLP19 is OTLP as proto 1.8 and 1.9 number it: it decodes without an error as 1.10, to nonsense.
func OTLP19(rows []parca.WireRow) []byte {
	return newOTLP(sampleFields{values: 2, attributes: 3, link: 4}).encode(rows)
}

// sampleFields are the numbers that were dealt anew.
type sampleFields struct{ attributes, link, values protowire.Number }

type otlp struct {
	sample sampleFields

	texts, attributes, mappings, functions, locations, stacks table
}

// table is a table of the dictionary, its first entry zero.
type table struct {
	known map[string]uint64
	list  []message
}

func newOTLP(s sampleFields) *otlp {
	o := &otlp{sample: s}
	for _, t := range []*table{&o.texts, &o.attributes, &o.mappings, &o.functions, &o.locations, &o.stacks} {
		t.known = map[string]uint64{"": 0}
		t.list = []message{nil}
	}
	return o
}

func (t *table) index(m message) uint64 {
	i, ok := t.known[string(m)]
	if !ok {
		i = uint64(len(t.list))
		t.known[string(m)] = i
		t.list = append(t.list, m)
	}
	return i
}

func (o *otlp) text(s string) uint64 { return o.texts.index(message(s)) }

// attribute is an entry of the table of attributes.
func (o *otlp) attribute(key string, value any) uint64 {
	var m message
	m.number(1, o.text(key))
	m.sub(2, anyValue(value))
	return o.attributes.index(m)
}

func anyValue(v any) []byte {
	switch v := v.(type) {
	case string:
		return protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), v)
	case int64:
		return protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), uint64(v))
	}
	panic(fmt.Sprintf("no attribute of %T", v))
}

func (o *otlp) stack(frames []parca.WireFrame) uint64 {
	var list []uint64
	for i := range frames {
		list = append(list, o.location(&frames[i]))
	}
	var m message
	m.packed(1, list...)
	return o.stacks.index(m)
}

func (o *otlp) location(f *parca.WireFrame) uint64 {
	var mapping, m message
	mapping.number(4, o.text(f.MappingFile))
	if f.MappingBuildID != "" {
		kind := "process.executable.build_id.gnu"
		if strings.HasPrefix(f.FrameType, "cuda") {
			kind = "process.executable.build_id.htlhash"
		}
		mapping.packed(5, o.attribute(kind, f.MappingBuildID))
	}
	m.number(1, o.mappings.index(mapping))
	m.number(2, f.Address)
	if f.HasLines {
		var function, line message
		function.number(1, o.text(f.SystemName))
		function.number(3, o.text(f.Filename))
		line.number(1, o.functions.index(function))
		line.number(2, f.Line)
		line.number(3, f.Column)
		m.sub(3, line)
	}
	m.packed(4, o.attribute("profile.frame.type", f.FrameType))
	return o.locations.index(m)
}

// OfSample says whether a label goes with a sample; the others are the process's.
func ofSample(label string) bool {
	return label == "cpu" || label == "gpu_view" || strings.HasPrefix(label, "thread_") || strings.HasPrefix(label, "cuda_")
}

// resource is the process of a row as an encoded Resource.
func resource(labels map[string]string) message {
	var m message
	add := func(key string, value any) {
		var pair message
		pair.text(1, key)
		pair.sub(2, anyValue(value))
		m.sub(1, pair)
	}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		switch v := labels[name]; {
		case ofSample(name):
		case name == "node":
			add("host.name", v)
		case name == "pid":
			pid, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				panic(err)
			}
			add("process.pid", pid)
		default:
			add(name, v)
		}
	}
	return m
}

func (o *otlp) sampleAttributes(labels map[string]string) []uint64 {
	var out []uint64
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		switch v := labels[name]; {
		case name == "cpu":
			n, _ := strconv.ParseInt(v, 10, 64)
			out = append(out, o.attribute("cpu.logical_number", n))
		case name == "thread_id":
			n, _ := strconv.ParseInt(v, 10, 64)
			out = append(out, o.attribute("thread.id", n))
		case name == "thread_name":
			out = append(out, o.attribute("thread.name", v))
		case ofSample(name):
			out = append(out, o.attribute("process.context.label."+name, v))
		}
	}
	return out
}

// profileKey is what the samples of one profile share.
type profileKey struct {
	sampleType, unit string
	period           int64
	duration         uint64
}

func (o *otlp) encode(rows []parca.WireRow) []byte {
	type process struct {
		resource message
		keys     []profileKey
		samples  map[profileKey][]message
	}
	var list []*process
	processes := map[string]*process{}
	for i := range rows {
		r := &rows[i]
		of := resource(r.Labels)
		p := processes[string(of)]
		if p == nil {
			p = &process{resource: of, samples: map[profileKey][]message{}}
			processes[string(of)] = p
			list = append(list, p)
		}
		key := profileKey{r.SampleType, r.SampleUnit, r.Period, r.Duration}
		if p.samples[key] == nil {
			p.keys = append(p.keys, key)
		}
		var m message
		m.number(1, o.stack(r.Stacktrace))
		m.packed(o.sample.attributes, o.sampleAttributes(r.Labels)...)
		m.packed(o.sample.values, uint64(r.Value))
		m.sub(5, protowire.AppendFixed64(nil, uint64(r.TimestampUnixNS)))
		p.samples[key] = append(p.samples[key], m)
	}
	var out message
	for _, p := range list {
		var scope, of message
		for _, key := range p.keys {
			var profile, kind message
			kind.number(1, o.text(key.sampleType))
			kind.number(2, o.text(key.unit))
			profile.sub(1, kind)
			for _, s := range p.samples[key] {
				profile.sub(2, s)
			}
			profile.number(4, key.duration)
			profile.number(6, uint64(key.period))
			scope.sub(2, profile)
		}
		of.sub(1, p.resource)
		of.sub(2, scope)
		out.sub(1, of)
	}
	out.sub(2, o.dictionary())
	return out
}

func (o *otlp) dictionary() message {
	var m message
	tables := []table{
		1: o.mappings, 2: o.locations, 3: o.functions, 4: {list: []message{nil}}, 5: o.texts, 6: o.attributes, 7: o.stacks,
	}
	for field, t := range tables {
		for _, entry := range t.list {
			m.sub(protowire.Number(field), entry)
		}
	}
	return m
}
