package trace

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/dustin/go-humanize"
)

// Fix writes traces anew, for Perfetto: with every arrow on the slices that it was meant for, slices that overlap in lanes, broken JSON mended,
// and several files, of the ranks of a job, in one.
type Fix struct {
	Paths []string // files; packed with gzip or not
	Out   string   // file to write; it must not be one of Paths
}

// Fixed is what Fix did.
type Fixed struct {
	Slices    uint64 // and instants
	Counters  uint64
	Arrows    uint64
	Lanes     uint64            // tracks beside those of threads, for slices that overlap
	Ambiguous uint64            // work whose call cannot be told: several have its correlation
	Broken    uint64            // elements that are no event
	LeftOut   map[string]uint64 // events by phase that are neither slices, instants, counters nor arrows
	Torn      []string          // files that end before they are whole
}

// Run writes the trace, under another name until it is whole, and says on words what it did.
func (f *Fix) Run(ctx context.Context, words io.Writer) (*Fixed, error) {
	if err := f.distinct(); err != nil {
		return nil, err
	}
	dir := filepath.Dir(f.Out)
	tmp, err := os.CreateTemp(dir, ".warpline-fix-*")
	if err != nil {
		return nil, fmt.Errorf("%w: name a file in a folder that is there", err)
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	done := &Fixed{LeftOut: map[string]uint64{}}
	if err := f.write(ctx, tmp, dir, done); err != nil {
		return nil, err
	}
	if err := errors.Join(tmp.Chmod(0o644), tmp.Close(), os.Rename(tmp.Name(), f.Out)); err != nil {
		return nil, fmt.Errorf("write %s: %w", f.Out, err)
	}
	done.print(words, f.Out)
	return done, nil
}

// distinct refuses to write over what is read.
func (f *Fix) distinct() error {
	out, err := os.Stat(f.Out)
	if err != nil {
		return nil
	}
	for _, path := range f.Paths {
		if in, err := os.Stat(path); err == nil && os.SameFile(in, out) {
			return fmt.Errorf("%s is read and would be written: name another file to write", path)
		}
	}
	return nil
}

func (f *Fix) write(ctx context.Context, out io.Writer, dir string, done *Fixed) error {
	w := newFixWriter(out, done)
	for i, path := range f.Paths {
		file, err := readWhole(ctx, path, dir)
		if err != nil {
			return err
		}
		label := ""
		if len(f.Paths) > 1 {
			label = strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".gz"), ".json") + ": "
		}
		if file.torn != "" {
			done.Torn = append(done.Torn, path+": "+file.torn)
		}
		w.file(file, label, i)
		file.close()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return w.out.Flush()
}

// print says what was done, in the words of lint.
func (d *Fixed) print(out io.Writer, path string) {
	w := bufio.NewWriter(out)
	defer w.Flush()
	n := func(n uint64) string { return humanize.Comma(int64(n)) }
	fmt.Fprintf(w, "%s: %s slices, %s arrows, %s counter values\n", path, n(d.Slices), n(d.Arrows), n(d.Counters))
	if d.Lanes > 0 {
		fmt.Fprintf(w, "%s more rows hold slices that overlap the one before them in part\n", n(d.Lanes))
	}
	if d.Ambiguous > 0 {
		fmt.Fprintf(w, "%s times a GPU's work has a correlation that several calls have: no arrow is drawn, since it may be of another rank\n",
			n(d.Ambiguous))
	}
	if d.Broken > 0 {
		fmt.Fprintf(w, "%s elements are no events, and are left out\n", n(d.Broken))
	}
	for phase, k := range d.LeftOut {
		fmt.Fprintf(w, "%s events of phase %s are neither slices nor arrows, and are left out\n", n(k), phase)
	}
	for _, text := range d.Torn {
		fmt.Fprintf(w, "%s; what stands before is there\n", text)
	}
	fmt.Fprintf(w, "open it: warpline trace open %s\n", path)
}
