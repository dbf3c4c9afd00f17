package trace

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/klauspost/compress/gzip"
)

// Fix writes traces anew: with every arrow on the slices that it was meant for, for Perfetto slices that overlap in lanes, broken JSON
// mended, and several files, of the ranks of a job, in one.
type Fix struct {
	Paths  []string // files; packed with gzip or not
	Out    string   // file to write; it must not be one of Paths
	Format string   // FormatPerfetto, FormatChrome, or "" for what Out's name says
	// grow, if there is one, begins to write a file of Paths.
	grow func(ctx context.Context, path string) (*growing, error)
}

// The formats that Fix writes.
const (
	FormatPerfetto = "perfetto"
	FormatChrome   = "chrome"
)

// perfettoNames are how names of files in Perfetto's format end.
var perfettoNames = []string{".pftrace", ".perfetto-trace", ".pb"}

// format is what is asked, or what the name says: .json and .json.gz are Chrome's.
func (f *Fix) format() string {
	if f.Format == "" && strings.HasSuffix(strings.TrimSuffix(f.Out, ".gz"), ".json") {
		return FormatChrome
	}
	return cmp.Or(f.Format, FormatPerfetto)
}

// Fixed is what Fix did.
type Fixed struct {
	Slices    uint64 // and instants
	Counters  uint64
	Arrows    uint64
	Lanes     uint64            // tracks beside those of threads, for slices that overlap
	Ambiguous uint64            // work whose call cannot be told: several have its correlation
	Unknown   uint64            // arrows in the file of which an end stands for no slice
	Members   uint64            // members beside the events that are too long to be kept
	Broken    uint64            // elements that are no event
	Mended    uint64            // events that are no JSON, and could be read all the same
	LeftOut   map[string]uint64 // events by phase that are neither slices, instants, counters nor arrows
	Torn      []string          // files that end before they are whole
	Baseless  []string          // files with a base time that is no whole number
	Far       bool              // Chrome's JSON has times that doubles of us do not hold to the ns
	Unsaid    uint64            // arrows that Chrome's JSON cannot say
	Examples  []string          // of these
}

// Run writes the trace, under another name until it is whole, and says on words what it did.
func (f *Fix) Run(ctx context.Context, words io.Writer) (*Fixed, error) {
	// Nearly all of the heap is a few large slices without pointers, which are quick to mark and dear to keep when they are garbage.
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	if err := f.distinct(); err != nil {
		return nil, err
	}
	if f.Format == "" && f.format() == FormatPerfetto && !slices.Contains(perfettoNames, filepath.Ext(strings.TrimSuffix(f.Out, ".gz"))) {
		return nil, fmt.Errorf("%s: the name says no format: end it in .pftrace or .json, or choose one", f.Out)
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

// write writes the trace, packed if Out's name ends so.
func (f *Fix) write(ctx context.Context, out io.Writer, dir string, done *Fixed) error {
	if !strings.HasSuffix(f.Out, ".gz") {
		return f.writePlain(ctx, out, dir, done)
	}
	z := gzip.NewWriter(out)
	return cmp.Or(f.writePlain(ctx, z, dir, done), z.Close())
}

func (f *Fix) writePlain(ctx context.Context, out io.Writer, dir string, done *Fixed) error {
	if f.format() == FormatChrome {
		return f.writeChrome(ctx, out, dir, done)
	}
	w := newFixWriter(out, done)
	for i, path := range f.Paths {
		file, err := readWhole(ctx, path, dir, f.grow)
		if err != nil {
			return err
		}
		w.file(file, f.label(path), i)
		file.close()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return cmp.Or(w.err, w.out.Flush())
}

// label is what processes of a file are called by, where there are several files.
func (f *Fix) label(path string) string {
	if len(f.Paths) == 1 {
		return ""
	}
	return strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".gz"), ".json") + ": "
}

func (f *Fix) writeChrome(ctx context.Context, out io.Writer, dir string, done *Fixed) error {
	var files []*wholeFile
	var labels []string
	defer func() {
		for _, file := range files {
			file.close()
		}
	}()
	for _, path := range f.Paths {
		file, err := readWhole(ctx, path, dir, f.grow)
		if err != nil {
			return err
		}
		files, labels = append(files, file), append(labels, f.label(path))
	}
	return writeChrome(out, files, labels, done)
}

// add counts what was found when a file was read.
func (d *Fixed) add(f *wholeFile) {
	d.Broken += f.broken
	d.Mended += f.mended
	if f.baseless {
		d.Baseless = append(d.Baseless, f.path)
	}
	if f.torn != "" {
		d.Torn = append(d.Torn, f.path+": "+f.torn)
	}
}

// unsaid counts an arrow that Chrome's JSON cannot say.
func (d *Fixed) unsaid(arrow string) {
	d.Unsaid++
	if len(d.Examples) < maxExamples {
		d.Examples = append(d.Examples, arrow)
	}
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
		fmt.Fprintf(w, "%s times a GPU's work has a correlation that several calls have: no arrow is drawn, since it may be of "+
			"another rank\n",
			n(d.Ambiguous))
	}
	if d.Unknown > 0 {
		fmt.Fprintf(w, "%s arrows have an end where no slice begins or ends, and are left out: what they meant cannot be told\n", n(d.Unknown))
	}
	if d.Members > 0 {
		fmt.Fprintf(w, "%s members beside the events are too long, and are left out\n", n(d.Members))
	}
	if d.Mended > 0 {
		fmt.Fprintf(w, "%s events were no JSON, and are mended\n", n(d.Mended))
	}
	if d.Broken > 0 {
		fmt.Fprintf(w, "%s elements are no events, and are left out\n", n(d.Broken))
	}
	for _, phase := range slices.Sorted(maps.Keys(d.LeftOut)) {
		fmt.Fprintf(w, "%s events of phase %s are neither slices nor arrows, and are left out\n", n(d.LeftOut[phase]), phase)
	}
	if d.Unsaid > 0 {
		fmt.Fprintf(w, "%s arrows cannot be said in Chrome's JSON: the slice where they end begins before the other, or at once and is "+
			"longer, or has another arrow; write for Perfetto (-o NAME.pftrace)\n", n(d.Unsaid))
		for _, e := range d.Examples {
			fmt.Fprintf(w, "  %s\n", e)
		}
	}
	for _, path := range d.Baseless {
		fmt.Fprintf(w, "%s: baseTimeNanoseconds is no whole number, and counts as 0\n", path)
	}
	if d.Far {
		fmt.Fprintln(w, "events lie more than 50 days apart, and viewers do not hold such times to the ns: write for Perfetto (-o NAME.pftrace)")
	}
	for _, text := range d.Torn {
		fmt.Fprintf(w, "%s; what stands before is there\n", text)
	}
	fmt.Fprintf(w, "open it: warpline trace open %s\n", path)
}
