package pprof

import (
	"fmt"
	"io"
	"strings"

	"github.com/google/pprof/profile"
)

// builder makes a profile. A frame has one location and a name one function, however often they occur.
type builder struct {
	p         *profile.Profile
	functions map[functionKey]*profile.Function
	mappings  map[[2]string]*profile.Mapping // by build id and cubin
	launches  map[string]*profile.Location   // frames of launch stacks, by their text
	labels    map[[2]string]map[string][]string

	// Rows come ordered by place: the locations of the present instruction are enough.
	at  place // without opcode and reason
	of  []*profile.Location
	key []string
}

type functionKey struct{ name, system, file string }

func newBuilder(t Type) *builder {
	b := &builder{
		functions: map[functionKey]*profile.Function{}, mappings: map[[2]string]*profile.Mapping{},
		launches: map[string]*profile.Location{}, labels: map[[2]string]map[string][]string{},
	}
	b.p = &profile.Profile{DefaultSampleType: "samples",
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "gpu_ns", Unit: "nanoseconds"}},
		Comments:   []string{"gpu_ns is an estimate: samples × nominal sampling period, over all samplers of a GPU; no wall time"}}
	if t == Kernels {
		b.p.DefaultSampleType, b.p.Comments = "duration", nil
		b.p.SampleType = []*profile.ValueType{{Type: "calls", Unit: "count"}, {Type: "duration", Unit: "nanoseconds"}}
	}
	return b
}

func (b *builder) add(p *place, l *line, stack []string, count, ns uint64) error {
	if len(b.p.Sample) == maxSamples {
		return fmt.Errorf("%w: more than %d", ErrTooMany, maxSamples)
	}
	s := &profile.Sample{Value: []int64{number(count), number(ns)}, Location: make([]*profile.Location, 0, 1+len(stack))}
	s.Location = append(s.Location, b.instruction(p, l))
	for _, f := range stack {
		s.Location = append(s.Location, b.launch(f))
	}
	if p.Reason != "" {
		s.Label = b.label(p.Reason, p.SASS)
	}
	b.p.Sample = append(b.p.Sample, s)
	return nil
}

// label returns the labels of a reason and an opcode; samples that are alike share them.
func (b *builder) label(reason, sass string) map[string][]string {
	key := [2]string{reason, sass}
	if b.labels[key] == nil {
		m := map[string][]string{"stall_reason": {shown(reason)}}
		if sass != "" {
			m["sass"] = []string{shown(sass)}
		}
		b.labels[key] = m
	}
	return b.labels[key]
}

// instruction returns the location of a place: its source line, and the lines that it was inlined into.
func (b *builder) instruction(p *place, l *line) *profile.Location {
	at := place{Tenant: p.Tenant, BuildID: p.BuildID, Cubin: p.Cubin, Function: p.Function, Offset: p.Offset}
	if at != b.at {
		b.at, b.of, b.key = at, b.of[:0], b.key[:0]
	}
	key := fmt.Sprintf("%s:%d\n%s", l.File, l.Number, strings.Join(l.Chain, "\n"))
	for i, k := range b.key {
		if k == key {
			return b.of[i]
		}
	}
	loc := &profile.Location{Address: p.Offset, Mapping: b.mapping(p)}
	for _, f := range l.frames(p) {
		loc.Line = append(loc.Line, b.line(f))
	}
	b.of, b.key = append(b.of, b.location(loc)), append(b.key, key)
	return loc
}

func (b *builder) launch(text string) *profile.Location {
	loc := b.launches[text]
	if loc == nil {
		loc = b.location(&profile.Location{Line: []profile.Line{b.line(parseFrame(text))}})
		b.launches[text] = loc
	}
	return loc
}

func (b *builder) location(loc *profile.Location) *profile.Location {
	b.p.Location = append(b.p.Location, loc)
	loc.ID = uint64(len(b.p.Location))
	return loc
}

func (b *builder) line(f frame) profile.Line {
	key := functionKey{f.Name, f.Function, f.File}
	fn := b.functions[key]
	if fn == nil {
		fn = &profile.Function{ID: uint64(len(b.p.Function)) + 1, Name: shown(f.Name), SystemName: shown(f.Function), Filename: shown(f.File)}
		if fn.Name == fn.SystemName && !strings.HasPrefix(fn.Name, "_Z") {
			fn.SystemName = "" // pprof takes equal names as not demangled yet, and removes all that stands in < >
		}
		b.functions[key] = fn
		b.p.Function = append(b.p.Function, fn)
	}
	return profile.Line{Function: fn, Line: f.Line}
}

// mapping returns the cubin of a place, nil where the client does not name any. Offsets are those of functions, so every one fits.
func (b *builder) mapping(p *place) *profile.Mapping {
	if p.Cubin == "" && p.BuildID == "" {
		return nil
	}
	key := [2]string{p.BuildID, p.Cubin}
	m := b.mappings[key]
	if m == nil {
		m = &profile.Mapping{ID: uint64(len(b.p.Mapping)) + 1, Limit: 1<<63 - 1, File: shown(p.Cubin), BuildID: shown(p.BuildID),
			HasFunctions: true, HasFilenames: true, HasLineNumbers: true, HasInlineFrames: true}
		b.mappings[key] = m
		b.p.Mapping = append(b.p.Mapping, m)
	}
	return m
}

func (b *builder) finish(w io.Writer, first, last int64) error {
	b.p.TimeNanos, b.p.DurationNanos = first*1e9, (last-first)*1e9
	if err := b.p.Write(w); err != nil {
		return fmt.Errorf("write the profile: %w", err)
	}
	return nil
}
