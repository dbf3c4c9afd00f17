package pprof

import (
	"strconv"
	"strings"

	"github.com/warpline/warpline/query/report"
)

// frame is a line of a stack.
type frame struct {
	File     string
	Line     int64
	Function string // as it was sent
	Name     string // demangled
}

// parseFrame reads "<file>:<line> <function>", as inline chains have it; any other text is the name of a function.
func parseFrame(text string) frame {
	for at := 0; ; {
		colon := strings.IndexByte(text[at:], ':')
		if colon < 0 {
			return frame{Function: text, Name: report.Demangled(text)}
		}
		at += colon + 1
		digits, function, found := strings.Cut(text[at:], " ")
		if n, err := strconv.ParseUint(digits, 10, 32); err == nil && found && function != "" {
			return frame{File: text[:at-1], Line: int64(n), Function: function, Name: report.Demangled(function)}
		}
	}
}

// frames are the lines of a place, innermost first: several where functions are inlined. The last one is the kernel.
func (l *line) frames(p *place) []frame {
	name := l.Demangled
	if name == "" {
		name = report.Demangled(p.Function)
	}
	if name == "" {
		name = "(name not known yet)"
	}
	if len(l.Chain) == 0 {
		return []frame{{File: l.File, Line: int64(l.Number), Function: p.Function, Name: name}}
	}
	all := make([]frame, len(l.Chain))
	for i, text := range l.Chain {
		all[i] = parseFrame(text)
	}
	kernel := &all[len(all)-1] // the chain has the whole name, which samples may have cut
	if kernel.Name == kernel.Function && kernel.Function == p.Function {
		kernel.Name = name
	}
	return all
}

// shown is text that viewers may print to a terminal as it is.
func shown(text string) string { return report.Printable(strings.ToValidUTF8(text, "\uFFFD")) }
