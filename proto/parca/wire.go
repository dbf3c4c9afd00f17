package parca

import (
	"iter"
	"strings"
)

// Rows gives every row as the wire has it, in its order. It is for tests and tools: it allocates.
func (b *Batch) Rows() iter.Seq[WireRow] {
	return func(yield func(WireRow) bool) {
		for i := range b.rows {
			if !yield(b.wireRow(i)) {
				return
			}
		}
	}
}

func (b *Batch) wireRow(i int) WireRow {
	r := &b.rows[i]
	h, s := &b.heads[r.head], &b.sets[r.set]
	text := func(n uint32) string { return strings.Clone(b.texts.all[n]) } // what it refers to is used again
	w := WireRow{
		TimestampUnixNS: r.at, Value: r.value, Labels: map[string]string{},
		Producer: text(h.producer), SampleType: text(h.sampleType), SampleUnit: text(h.sampleUnit),
		PeriodType: text(h.periodType), PeriodUnit: text(h.periodUnit), Temporality: text(h.temporality),
		Period: h.period, Duration: h.duration, StacktraceID: b.stackID(i),
	}
	for _, p := range b.held[s.from:s.to] {
		w.Labels[text(b.pairs[p].name)] = text(b.pairs[p].value)
	}
	st := &b.stacks[r.stack]
	for _, at := range b.held2[st.from:st.to] {
		l := &b.locs[at]
		f := WireFrame{Address: l.address, FrameType: text(l.kind), MappingFile: text(l.mapping), MappingBuildID: text(l.build),
			HasLines: l.resolved}
		if !l.resolved {
			w.Stacktrace = append(w.Stacktrace, f)
		}
		for _, ln := range b.lines[l.from:l.to] {
			f.Line, f.Column, f.SystemName, f.Filename = ln.line, ln.column, text(ln.function), text(ln.file)
			w.Stacktrace = append(w.Stacktrace, f)
		}
	}
	return w
}
