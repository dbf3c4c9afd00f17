// Package ikp makes the files of an intra-kernel profiler's host side without a service: trace, summary and distributions of blocks
// (Write), and drawings of the last two (Plot).
package ikp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/warpline/warpline/proto/intrakernel"
)

// Write writes what write_trace would, from buffers (Input, Events and Counters) or from a trace (Trace, and Input if there is one).
type Write struct {
	// Input, Events, Counters and Trace name files; what is packed with gzip is unpacked, - is stdin, "" is not given.
	Input, Events, Counters, Trace string
	// Scale is what the times of a trace without an input were multiplied with; nil is 1.
	Scale *float64
	// Out is the folder to write below, OutName how the user calls that setting.
	Out, OutName string
}

// Run reads everything before it writes anything. It says on words what it wrote, and what was lost.
func (c *Write) Run(ctx context.Context, stdin io.Reader, words io.Writer) error {
	// Nearly all of the heap is a few large slices without pointers, which are quick to mark and dear to keep when they are garbage.
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	h, line, err := c.read(ctx, stdin)
	if err != nil {
		return c.named(err)
	}
	fromTrace := c.Trace != ""
	if line.Survivors == 0 && line.Elements == 0 { // a trace that has names of SMs alone is of records without partners
		fmt.Fprintln(words, "no records, or none of the blocks in block_filter: nothing is written")
		return nil
	}
	if fromTrace && !h.Options.HasSummary() {
		fmt.Fprintln(words, "the options of the input ask for no summary: nothing is written")
		return nil
	}
	shown, err := writeBelow(ctx, c.Out, c.OutName, func(files *folder) error { return c.write(files, h, line, !fromTrace) })
	if err != nil {
		return err
	}
	for _, file := range shown {
		fmt.Fprintln(words, file)
	}
	if line.UnmatchedEnd > 0 || line.UnmatchedBegin > 0 {
		fmt.Fprintf(words, "%s without a begin and %s without an end are in no slice: a larger per_warp_cap loses fewer\n",
			english.Plural(int(line.UnmatchedEnd), "end", ""), english.Plural(int(line.UnmatchedBegin), "begin", ""))
	}
	if fromTrace && line.Rounded {
		fmt.Fprintf(words, "at scale %v six decimals do not tell one ns from the next: durations are as near as the trace says\n",
			h.Options.Scale)
	}
	return nil
}

// write writes what the options ask for, the trace last: it brings the events into another order.
func (c *Write) write(files *folder, h *intrakernel.Header, line *intrakernel.Timeline, trace bool) error {
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
func (c *Write) read(ctx context.Context, stdin io.Reader) (*intrakernel.Header, *intrakernel.Timeline, error) {
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
func (c *Write) header(stdin io.Reader) (*intrakernel.Header, error) {
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
func (c *Write) named(err error) error {
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
