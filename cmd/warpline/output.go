package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"strconv"

	"golang.org/x/term"
)

// isTerminal reports whether a person reads w as it is written.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// leastWidth is the narrowest that output is made for; a terminal that is narrower breaks the lines.
const leastWidth = 40

// look says how wide and how colourful output to w may be: colour only on a terminal and not where NO_COLOR is set.
func (p *program) look(w io.Writer) (width int, colour bool) {
	width = 100
	if v, ok := p.Env("COLUMNS"); ok {
		if n, err := strconv.Atoi(v); err == nil && n > 0 {
			width = max(n, leastWidth)
		}
	}
	if !isTerminal(w) {
		return width, false
	}
	if n, _, err := term.GetSize(int(w.(*os.File).Fd())); err == nil && n > 0 {
		width = max(n, leastWidth)
	}
	no, ok := p.Env("NO_COLOR")
	return width, !ok || no == ""
}

// quieter logs warnings and worse only: the demo tells its own story.
func quieter(p *program) *slog.Logger {
	return slog.New(slog.NewTextHandler(p.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// newEncoder writes JSON for people and programs: < and > of kernel names stay as they are.
func newEncoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc
}
