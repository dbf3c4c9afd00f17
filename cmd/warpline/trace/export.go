package trace

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Export writes sessions of a service as one trace, with every arrow on its slices: their events, as ClickHouse has them, go to files
// beside the trace, which are read as they grow, and those are written as Fix does.
type Export struct {
	Sessions []string // ids, for names
	Out      string   // file to write, "-" is standard output
	Format   string   // as Fix.Format
	// Events writes the events of a session, by its place in Sessions, in Chrome's JSON.
	Events func(ctx context.Context, i int, w io.Writer) error
}

// Run writes the trace. It leaves nothing behind but Out.
func (e *Export) Run(ctx context.Context, out, words io.Writer) (*Fixed, error) {
	beside := filepath.Dir(e.Out)
	if e.Out == "-" {
		beside = ""
	}
	dir, err := os.MkdirTemp(beside, ".warpline-export-*")
	if err != nil {
		return nil, fmt.Errorf("%w: name a file in a folder that is there", err)
	}
	defer os.RemoveAll(dir)
	f := Fix{Out: e.Out, Format: e.Format}
	places := map[string]int{}
	for i, id := range e.Sessions {
		path := filepath.Join(dir, fmt.Sprintf("%d", i), fileName(id)+".json")
		places[path] = i
		f.Paths = append(f.Paths, path)
	}
	f.grow = func(ctx context.Context, path string) (*growing, error) { return e.begin(ctx, places[path], path) }
	if e.Out != "-" {
		return f.Run(ctx, words)
	}
	if f.Out = filepath.Join(dir, "out.json"); f.Format == FormatPerfetto {
		f.Out = filepath.Join(dir, "out.pftrace")
	}
	done, err := f.Run(ctx, io.Discard) // it would name a file that is about to go
	if err != nil {
		return nil, err
	}
	file, err := os.Open(f.Out)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	_, err = io.Copy(out, file)
	return done, err
}

// begin begins to write the events of one session to a file.
func (e *Export) begin(ctx context.Context, i int, path string) (*growing, error) {
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return grow(ctx, file, func(ctx context.Context, w io.Writer) error {
		if err := e.Events(ctx, i, w); err != nil {
			return fmt.Errorf("session %s: %w", e.Sessions[i], err)
		}
		return nil
	}), nil
}

// fileName is the name of a session as a file has it: what is no letter, digit, dot or dash becomes a line.
func fileName(id string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '_'
	}, id)
	return name[:min(len(name), 100)]
}
