package parca

import (
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/aggregate/state"
	"github.com/warpline/warpline/proto/parca"
	"github.com/warpline/warpline/sink/table"
)

// labels is which labels of a session are written, and what was folded together. A label that changes by the row must not fill a table, so
// a session has so many values a day of each name, and so many names; the rest counts its rows under other.
type labels struct {
	all   []label
	over  []folded // of the open chunk
	dirty bool
}

// label is a value that was written, by hashes of it.
type label struct {
	name, value uint64
	day         int32
}

// folded is rows whose value of a label is not kept.
type folded struct {
	name string
	rows uint64
}

const (
	// maxValues and maxLabelNames bound the values of a label and the labels of a session that are kept on one day.
	maxValues     = 8
	maxLabelNames = 32
	// other stands for values, and names, beyond them.
	other = "(other)"
)

// label notes the labels of a part of n rows.
func (s *session) label(process *parca.Process, receivedAt int64, n uint64) {
	day := rows.DayOf(receivedAt)
	for _, own := range []parca.Label{{Name: "node", Value: process.Node}, {Name: "pid", Value: process.PID},
		{Name: "comm", Value: process.Comm}} {
		if own.Value != "" {
			s.oneLabel(own, day, n)
		}
	}
	for _, l := range process.Labels {
		s.oneLabel(l, day, n)
	}
}

func (s *session) oneLabel(l parca.Label, day int32, n uint64) {
	switch s.labels.keep(xxh3.HashString(l.Name), xxh3.HashString(l.Value), day) {
	case labelNew:
		s.labels.dirty = true
		s.labelRow(rows.Clip(l.Name), rows.Clip(l.Value), 0, day)
	case valueOver:
		s.labels.fold(rows.Clip(l.Name), n)
	case nameOver:
		s.labels.fold(other, n)
	}
}

// What becomes of a label's value.
const (
	labelKnown = iota
	labelNew
	valueOver
	nameOver
)

// keep remembers a value for a day, if it may. A value that was last seen on an earlier day makes room.
func (l *labels) keep(name, value uint64, day int32) int {
	values, names, spare := 0, 0, -1
	for i := range l.all {
		have := &l.all[i]
		if have.name == name && have.value == value {
			if have.day >= day {
				return labelKnown
			}
			have.day = day
			return labelNew
		}
		if have.name == name {
			values++
		}
		if first := slices.IndexFunc(l.all[:i], func(o label) bool { return o.name == have.name }); first < 0 {
			names++
		}
		if have.day < day && (spare < 0 || have.day < l.all[spare].day) && have.name == name {
			spare = i
		}
	}
	if values >= maxValues && spare < 0 {
		return valueOver
	}
	if values == 0 && names >= maxLabelNames {
		before := len(l.all)
		l.all = slices.DeleteFunc(l.all, func(o label) bool { return o.day < day })
		if len(l.all) == before {
			return nameOver
		}
		return l.keep(name, value, day)
	}
	if values >= maxValues {
		l.all[spare] = label{name, value, day}
		return labelNew
	}
	l.all = append(l.all, label{name, value, day})
	return labelNew
}

// fold counts rows under a label's other values.
func (l *labels) fold(name string, n uint64) {
	for i := range l.over {
		if l.over[i].name == name {
			l.over[i].rows += n
			return
		}
	}
	l.over = append(l.over, folded{name, n})
}

// flush writes what was folded together.
func (l *labels) flush(s *session) {
	for _, o := range l.over {
		s.labelRow(o.name, other, o.rows, s.ReceivedDay())
	}
	l.over = l.over[:0]
}

func (s *session) labelRow(name, value string, n uint64, day int32) {
	table.SessionLabels.Append(s.f.Out.Batch(table.SessionLabels.Table, s.FactPartition()), &table.SessionLabelRow{
		HeadRow: s.Head(), Label: name, Value: value, Rows: n, ReceivedDay: day,
	})
}

func (l *labels) append(w *state.Writer, full bool) {
	w.Bool(full || l.dirty)
	if !full && !l.dirty {
		return
	}
	w.N(len(l.all))
	for _, have := range l.all {
		w.U64Fixed(have.name)
		w.U64Fixed(have.value)
		w.I64(int64(have.day))
	}
}

func (l *labels) read(r *state.Reader) {
	if !r.Bool() {
		return
	}
	l.all = l.all[:0]
	for range r.N(17) {
		l.all = append(l.all, label{r.Fixed64(), r.Fixed64(), int32(r.I64())})
	}
}

func (l *labels) size(full bool) int {
	if full || l.dirty {
		return 20 * len(l.all)
	}
	return 1
}
