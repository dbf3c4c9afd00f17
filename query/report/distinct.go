package report

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rivo/uniseg"
)

// distinct shortens names to width cells each so that names that differ still differ: five instances of a template whose arguments differ
// are five names. Names that fit stay. Names that cut alone would make equal are shortened where they are the same, and show the places
// where they differ; names for which the width is too small even for that are numbered.
func distinct(names []string, width int) []string {
	text := make(map[string]string, len(names))
	alike := map[string][]string{} // by what cut makes of them
	var made []string
	for _, name := range names {
		if _, seen := text[name]; seen {
			continue
		}
		t := cut(name, width)
		text[name] = t
		if alike[t] == nil {
			made = append(made, t)
		}
		alike[t] = append(alike[t], name)
	}
	for _, t := range made {
		of := slices.DeleteFunc(alike[t], func(name string) bool { return cells(name) <= width }) // those are shown as they are
		if len(of) < 2 && len(of) == len(alike[t]) || len(of) == 0 || width < 2 {
			continue
		}
		for i, shown := range apart(of, width) {
			if shown == "" || alike[shown] != nil {
				shown = numbered(of[i], width, alike)
			}
			text[of[i]] = shown
			alike[shown] = append(alike[shown], of[i])
		}
	}
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = text[name]
	}
	return out
}

// numbered is the beginning of a name with the first free number after it, if there is room for a number.
func numbered(name string, width int, taken map[string][]string) string {
	for n := 1; ; n++ {
		tail := "~" + strconv.Itoa(n)
		if len(tail) > width {
			return cut(name, width)
		}
		if t := cut(name, width-len(tail)) + tail; taken[t] == nil {
			return t
		}
	}
}

// graphemes are the characters of a name as a terminal shows them.
func graphemes(name string) (all []string) {
	for g := uniseg.NewGraphemes(Printable(name)); g.Next(); {
		all = append(all, g.Str())
	}
	return all
}

// shared is how many characters are the same at the beginning of two names.
func shared(a, b []string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// apart shortens names to width cells, so that each shows where it differs from the others: up to the first such place two names show the
// same, and there they differ. A name for which that does not fit is "".
func apart(names []string, width int) []string {
	sorted := make([]int, len(names))
	chars := make([][]string, len(names))
	for i, name := range names {
		sorted[i], chars[i] = i, graphemes(name)
	}
	slices.SortFunc(sorted, func(a, b int) int { return slices.Compare(chars[a], chars[b]) })
	alike := make([]int, len(names)) // how many characters each shares with the next
	for k := range len(sorted) - 1 {
		alike[k] = shared(chars[sorted[k]], chars[sorted[k+1]])
	}
	out := make([]string, len(names))
	for k, i := range sorted {
		var places []int
		add := func(n int) {
			if n < len(chars[i]) && !slices.Contains(places, n) && len(places) <= width {
				places = append(places, n)
			}
		}
		for j, n := k-1, len(chars[i]); j >= 0; j-- {
			n = min(n, alike[j])
			add(n)
		}
		for j, n := k, len(chars[i]); j < len(sorted)-1; j++ {
			n = min(n, alike[j])
			add(n)
		}
		slices.Sort(places)
		out[i] = showing(chars[i], places, width)
	}
	return out
}

// showing shortens a name to width cells, so that it shows the characters at some places, or returns "" when they do not fit.
func showing(name []string, places []int, width int) string {
	v := &view{name: name, shown: make([]bool, len(name)), left: width - 1} // all is left out: one ellipsis
	for _, p := range places {
		v.show(p)
	}
	if v.left < 0 {
		return ""
	}
	// The room that is left is for what a reader looks at: what follows the differences, the beginning, the end, and what comes before the
	// differences.
	for i := range name {
		if v.left == 0 {
			break
		}
		for _, p := range places {
			v.try(p + i)
		}
		v.try(i)
		v.try(len(name) - 1 - i)
		for _, p := range places {
			v.try(p - i)
		}
	}
	return v.String()
}

// view is a name of which some characters are shown; each run of others is an ellipsis of one cell.
type view struct {
	name  []string
	shown []bool
	left  int // cells
}

// cost is how many cells it takes to show one more character: its own, and an ellipsis more or less.
func (v *view) cost(i int) int {
	hidden := func(i int) bool { return i >= 0 && i < len(v.name) && !v.shown[i] }
	gaps := 0
	for _, side := range []bool{hidden(i - 1), hidden(i + 1)} {
		if side {
			gaps++
		}
	}
	return uniseg.StringWidth(v.name[i]) + gaps - 1
}

func (v *view) show(i int) {
	if !v.shown[i] {
		v.left -= v.cost(i)
		v.shown[i] = true
	}
}

// try shows a character if there is room.
func (v *view) try(i int) {
	if i >= 0 && i < len(v.name) && !v.shown[i] && v.cost(i) <= v.left {
		v.show(i)
	}
}

func (v *view) String() string {
	var b strings.Builder
	for i, c := range v.name {
		switch {
		case v.shown[i]:
			b.WriteString(c)
		case i == 0 || v.shown[i-1]:
			b.WriteString("…")
		}
	}
	return b.String()
}

// shortIDs shortens session ids and the like for a column, by id: a UUID to as much of its beginning as distinguishes it from the others.
// Commands accept what is shown.
func shortIDs(ids []string) map[string]string {
	out := make(map[string]string, len(ids))
	var others []string
	for _, id := range ids {
		if !uuid.MatchString(id) {
			others = append(others, id)
			continue
		}
		n := len(firstOfUUID(id))
		for _, other := range ids {
			if other != id {
				for n < len(id) && strings.HasPrefix(other, id[:n]) {
					n++
				}
			}
		}
		out[id] = Printable(id[:n])
	}
	for i, text := range distinct(others, 16) {
		out[others[i]] = text
	}
	return out
}
