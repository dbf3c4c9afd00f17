package pprof

import (
	"bufio"
	"io"
	"slices"
	"strconv"
	"strings"
)

// folder writes stacks as lines of text, outermost frame first, with the value at the end. It keeps nothing.
type folder struct {
	w    *bufio.Writer
	kind Type
}

func newFolder(w io.Writer, t Type) *folder { return &folder{bufio.NewWriter(w), t} }

func (f *folder) add(p *place, l *line, stack []string, count, ns uint64) error {
	between := ""
	put := func(x frame) {
		f.w.WriteString(between + x.folded())
		between = ";"
	}
	for _, text := range slices.Backward(stack) {
		put(parseFrame(text))
	}
	for _, x := range slices.Backward(l.frames(p)) {
		put(x)
	}
	value := count
	if f.kind == Kernels {
		value = ns
	} else {
		f.w.WriteString(";[" + clean(strings.TrimPrefix(p.Reason, "smsp__pcsamp_warps_issue_stalled_")) + "]")
	}
	_, err := f.w.WriteString(" " + strconv.FormatUint(value, 10) + "\n")
	return err
}

func (x frame) folded() string {
	if x.File == "" {
		return clean(x.Name)
	}
	return clean(x.Name) + " (" + clean(x.File) + ":" + strconv.FormatInt(x.Line, 10) + ")"
}

// clean is text without what divides frames.
func clean(text string) string { return strings.ReplaceAll(shown(text), ";", ":") }

func (f *folder) finish(io.Writer, int64, int64) error { return f.w.Flush() }
