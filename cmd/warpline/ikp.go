package main

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/warpline/warpline/proto/intrakernel"
)

// ikpCmd makes the files of the intra-kernel profiler's host side, without a service.
type ikpCmd struct {
	Input    string   `placeholder:"FILE" help:"${ikp_input}"`
	Events   string   `placeholder:"FILE" help:"The device's records; a name that ends in .gz is unpacked, - is stdin."`
	Counters string   `placeholder:"FILE" help:"The device's counters: how much each warp recorded."`
	Trace    string   `placeholder:"FILE" help:"${ikp_trace}"`
	Scale    *float64 `placeholder:"S" help:"What the times in the trace of --trace were multiplied with; by default the input's, or 1."`
	Out      string   `short:"o" required:"" placeholder:"DIR" help:"Folder to write to; it is made if it is not there."`
}

func (c *ikpCmd) check(p *program) error {
	name := p.Settings.name
	stdin := 0
	for _, file := range []string{c.Input, c.Events, c.Counters, c.Trace} {
		if file == "-" {
			stdin++
		}
	}
	switch {
	case stdin > 1:
		return errors.New("only one of the files can be -: stdin is read once")
	case c.Trace != "" && (c.Events != "" || c.Counters != ""):
		return fmt.Errorf("%s is instead of %s and %s: give one or the other", name("trace"), name("events"), name("counters"))
	case c.Trace == "" && (c.Input == "" || c.Events == "" || c.Counters == ""):
		return fmt.Errorf("give %s, %s and %s, or %s", name("input"), name("events"), name("counters"), name("trace"))
	case c.Trace == "" && c.Scale != nil:
		return fmt.Errorf("%s is for %s: the scale of buffers is in the input, as options.scale", name("scale"), name("trace"))
	case c.Trace != "" && c.Input != "" && c.Scale != nil:
		return fmt.Errorf("%s: the input has a scale, as options.scale: give one of them", name("scale"))
	}
	return nil
}

// Run reads everything before it writes anything.
func (c *ikpCmd) Run(ctx context.Context, p *program) error {
	// Nearly all of the heap is a few large slices without pointers, which are quick to mark and dear to keep when they are garbage.
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	h, line, err := c.read(ctx, p.Stdin)
	if err != nil {
		return c.named(err)
	}
	fromTrace := c.Trace != ""
	if line.Survivors == 0 {
		fmt.Fprintln(p.Stderr, "no records, or none of the blocks in block_filter: nothing is written")
		return nil
	}
	if fromTrace && !h.Options.HasSummary() {
		fmt.Fprintln(p.Stderr, "the options of the input ask for no summary: nothing is written")
		return nil
	}
	files, err := newFolder(ctx, c.Out)
	if err != nil {
		return fmt.Errorf("%s: %w: give a folder that can be written to", p.Settings.name("out"), err)
	}
	if err := files.end(c.write(files, h, line, !fromTrace)); err != nil {
		return fmt.Errorf("write below %s: %w: see whether there is space, and the right to write", c.Out, err)
	}
	for _, file := range files.shown {
		fmt.Fprintln(p.Stderr, filepath.Join(c.Out, file))
	}
	if line.UnmatchedEnd > 0 || line.UnmatchedBegin > 0 {
		fmt.Fprintf(p.Stderr, "%s without a begin and %s without an end are in no slice: a larger per_warp_cap loses fewer\n",
			english.Plural(int(line.UnmatchedEnd), "end", ""), english.Plural(int(line.UnmatchedBegin), "begin", ""))
	}
	if fromTrace && line.Rounded {
		fmt.Fprintf(p.Stderr, "at scale %v six decimals do not tell one ns from the next: durations are as near as the trace says\n",
			h.Options.Scale)
	}
	return nil
}

// write writes what the options ask for, the trace last: it brings the events into another order.
func (c *ikpCmd) write(files *folder, h *intrakernel.Header, line *intrakernel.Timeline, trace bool) error {
	if h.Options.HasSummary() {
		if err := files.write(intrakernel.SummaryPath(h.Path), line.WriteSummary); err != nil {
			return err
		}
	}
	if h.Options.HasBlocks() {
		dir := intrakernel.BlocksPath(h.Path)
		err := line.WriteBlocks(func(name string) (io.WriteCloser, error) { return files.create(path.Join(dir, name)) })
		if err != nil {
			return err
		}
		files.shown = append(files.shown, dir)
	}
	if !trace {
		return nil
	}
	return files.write(h.Path, line.WriteTrace)
}

// read makes the timeline of buffers or of a trace.
func (c *ikpCmd) read(ctx context.Context, stdin io.Reader) (*intrakernel.Header, *intrakernel.Timeline, error) {
	h, err := c.header(stdin)
	if err != nil {
		return nil, nil, err
	}
	if c.Trace != "" {
		trace, err := openInput(ctx, c.Trace, stdin, -1)
		if err != nil {
			return nil, nil, err
		}
		defer trace.Close()
		line, err := intrakernel.ReadTrace(trace, h, c.Input != "")
		return h, line, err
	}
	want, err := h.Session.EventBytes()
	if err != nil {
		return nil, nil, err
	}
	events, err := openInput(ctx, c.Events, stdin, int64(want))
	if err != nil {
		return nil, nil, err
	}
	defer events.Close()
	counters, err := openInput(ctx, c.Counters, stdin, int64(h.Session.Slots()*4))
	if err != nil {
		return nil, nil, err
	}
	defer counters.Close()
	capture, err := intrakernel.Collect(events, counters, h)
	if err != nil {
		return nil, nil, err
	}
	line, err := capture.Timeline(h)
	return h, line, err
}

// header is the input's; without one it has what the name of the trace and the flags say.
func (c *ikpCmd) header(stdin io.Reader) (*intrakernel.Header, error) {
	if c.Input == "" {
		h := &intrakernel.Header{Path: "trace.json", Options: intrakernel.DefaultOptions()}
		if c.Trace != "-" {
			h.Path = strings.TrimSuffix(filepath.Base(c.Trace), ".gz")
		}
		if c.Scale != nil {
			h.Options.Scale = *c.Scale
		}
		return h, nil
	}
	in, err := openInput(context.Background(), c.Input, stdin, -1)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, intrakernel.MaxHeader+1))
	if err != nil {
		return nil, &intrakernel.Error{In: intrakernel.InHeader, Text: "read: " + err.Error() + ": copy the file again", Err: err}
	}
	return intrakernel.ParseHeader(text)
}

// named puts the name of the file into an error about what is in it.
func (c *ikpCmd) named(err error) error {
	var wrong *intrakernel.Error
	if !errors.As(err, &wrong) || err != error(wrong) {
		return err
	}
	file := map[string]string{intrakernel.InHeader: c.Input, intrakernel.InEvents: c.Events, intrakernel.InCounters: c.Counters,
		intrakernel.InTrace: c.Trace}[wrong.In]
	if file == "-" {
		file = "stdin"
	}
	return fmt.Errorf("%s: %w", cmp.Or(file, c.Trace), err)
}

// inputFile is a file that is read, unpacked if it is packed, until ctx ends.
type inputFile struct {
	io.Reader
	ctx   context.Context
	close func() error
}

func (f *inputFile) Read(b []byte) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	return f.Reader.Read(b)
}

func (f *inputFile) Close() error { return f.close() }

// openInput opens a file, - for stdin. It is unpacked if its name ends in .gz, or if it begins as gzip does and is not a regular file of
// the size that a buffer has to have: a buffer may begin with any bytes.
func openInput(ctx context.Context, name string, stdin io.Reader, size int64) (*inputFile, error) {
	in, closing, exact := stdin, func() error { return nil }, false
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, usage(err)
		}
		info, err := f.Stat()
		if err != nil || info.IsDir() {
			f.Close()
			return nil, usage(errors.Join(err, fmt.Errorf("%s is a folder: name a file", name)))
		}
		in, closing, exact = f, f.Close, info.Mode().IsRegular() && info.Size() == size
	}
	buffered := bufio.NewReaderSize(in, 1<<16)
	magic, _ := buffered.Peek(3)
	if packed := bytes.Equal(magic, []byte{0x1f, 0x8b, 8}) && !exact; !packed && !strings.HasSuffix(name, ".gz") {
		return &inputFile{buffered, ctx, closing}, nil
	}
	z, err := gzip.NewReader(buffered)
	if err != nil {
		closing()
		return nil, usage(fmt.Errorf("unpack %s: %w: give a whole gzip file, or one without .gz in its name", name, err))
	}
	return &inputFile{z, ctx, closing}, nil
}

// folder writes files below one folder and nowhere else, whatever their paths and whatever links are there. They get their names when all
// are whole.
type folder struct {
	ctx   context.Context
	root  *os.Root
	files []string // written as partial(name)
	shown []string
	dirs  map[string]bool
}

func newFolder(ctx context.Context, dir string) (*folder, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	return &folder{ctx: ctx, root: root, dirs: map[string]bool{}}, err
}

func partial(name string) string { return path.Join(path.Dir(name), "."+path.Base(name)+".partial") }

func (f *folder) create(name string) (*os.File, error) {
	if err := f.ctx.Err(); err != nil {
		return nil, err
	}
	if dir := path.Dir(name); !f.dirs[dir] {
		if err := f.root.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		f.dirs[dir] = true
	}
	file, err := f.root.Create(partial(name))
	if err == nil {
		f.files = append(f.files, name)
	}
	return file, err
}

func (f *folder) write(name string, write func(io.Writer) error) error {
	file, err := f.create(name)
	if err != nil {
		return err
	}
	f.shown = append(f.shown, name)
	return errors.Join(write(file), file.Close())
}

// end gives the files their names. If err says that they are not whole, it removes them and returns err.
func (f *folder) end(err error) error {
	defer f.root.Close()
	for _, name := range f.files {
		if err == nil {
			err = f.root.Rename(partial(name), name)
		}
		if err != nil {
			f.root.Remove(partial(name))
		}
	}
	return err
}
