package trace

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/klauspost/compress/gzip"

	"github.com/warpline/warpline/proto/chrometrace"
	"github.com/warpline/warpline/proto/chrometrace/flows"
	"github.com/warpline/warpline/proto/kineto"
)

// piece is a slice, an instant or a counter of a file. Its text is read again when it is written.
type piece struct {
	ts, dur    int64 // dur is -1 of one that never ends
	at, endAt  int64 // byte at which the text of it, and of its end, begins; endAt is -1 of one without
	size, ends int32 // of these texts
	row        uint32
	lane       uint16
	kind       pieceKind
	device     bool
}

type pieceKind uint8

const (
	pieceSlice pieceKind = iota
	pieceInstant
	pieceCounter
)

// row is a track of the trace: a thread, the asynchronous slices of one id, a process, or a counter.
type row struct {
	process uint32
	name    string
	order   int
	lanes   [][]int64 // of each lane: when its open slices end
	uuids   []uint64  // of the lanes
	device  bool
}

// process is a process of the trace.
type process struct {
	pid, name string
	raw       string // pid as it is written
	order     int
	uuid      uint64
}

// wholeFile is a file that was read. Close it.
type wholeFile struct {
	path  string
	text  *os.File // unpacked
	done  func()
	base  int64
	torn  string
	flows *flows.Trace

	pieces    []piece
	of        []int32 // by slice of flows: the piece, -1 for none
	rows      []row
	processes []process
	baseless  bool // it has a base time that is no whole number
	broken    uint64
	mended    uint64
	left      map[string]uint64

	rowIDs, processIDs map[string]uint32
	marks              []mark
	members            []byte // of the trace, beside its events: as a JSON object has them, each behind a comma
	unkept             uint64 // members that are too long to be kept
}

func (f *wholeFile) close() { f.done() }

// readWhole reads all events of a file, or of one that grow begins. What is packed is unpacked into a file in dir, which is removed when it
// is closed.
func readWhole(ctx context.Context, path, dir string, grow func(context.Context, string) (*growing, error)) (*wholeFile, error) {
	var in *growing
	if grow != nil {
		var err error
		if in, err = grow(ctx, path); err != nil {
			return nil, err
		}
		defer in.Close()
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: name a trace in Chrome's JSON", err)
	}
	f := &wholeFile{path: path, text: file, done: func() { file.Close() }, flows: flows.NewUndrawn(), left: map[string]uint64{},
		rowIDs: map[string]uint32{}, processIDs: map[string]uint32{}}
	if in != nil {
		if err := f.read(ctx, path, in); err != nil {
			f.close()
			return nil, cmp.Or(in.Close(), err)
		}
		return f, nil
	}
	head := make([]byte, 2)
	if n, _ := file.ReadAt(head, 0); n == 2 && head[0] == 0x1f && head[1] == 0x8b {
		if err := f.unpack(path, dir); err != nil {
			f.close()
			return nil, err
		}
	}
	if err := f.read(ctx, path, f.text); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *wholeFile) unpack(path, dir string) error {
	packed := f.text
	defer packed.Close()
	f.done = func() {}
	plain, err := os.CreateTemp(dir, ".warpline-fix-*")
	if err != nil {
		return fmt.Errorf("unpack %s: %w", path, err)
	}
	f.text, f.done = plain, func() { plain.Close(); os.Remove(plain.Name()) }
	z, err := gzip.NewReader(bufio.NewReaderSize(packed, 1<<18))
	if err == nil {
		_, err = io.Copy(plain, z)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) { // torn: what is there is read
		f.torn, err = "the gzip data ends before it is whole", nil
	}
	if err != nil {
		return fmt.Errorf("unpack %s: %w", path, err)
	}
	_, err = plain.Seek(0, io.SeekStart)
	return err
}

func (f *wholeFile) read(ctx context.Context, path string, in io.Reader) error {
	r := chrometrace.NewReader(bufio.NewReaderSize(in, 1<<18))
	r.Member = func(key string, value []byte) {
		if key == "baseTimeNanoseconds" {
			f.base, f.baseless = baseOf(value)
		} else {
			f.member(key, value)
		}
	}
	defer func() { f.mended = r.Mended; f.pair() }()
	for n := 0; ; n++ {
		e, err := r.Next()
		var one *chrometrace.EventError
		var all *chrometrace.SyntaxError
		switch {
		case err == io.EOF:
			if !r.Listed() {
				return fmt.Errorf("%s has no list traceEvents: name a trace in Chrome's JSON", path)
			}
			return nil
		case errors.As(err, &one):
			f.broken++
		case errors.As(err, &all) && all.Err == nil && r.Listed():
			f.torn = cmp.Or(f.torn, fmt.Sprintf("it cannot be read behind byte %d: %s", all.Offset, all.Reason))
			return nil
		case err != nil:
			return fmt.Errorf("read %s: %w: name a trace in Chrome's JSON", path, err)
		default:
			f.add(e, r.Offset())
		}
		if n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// add takes an event, which ends at byte end.
func (f *wholeFile) add(e *chrometrace.Event, end int64) {
	before := len(f.flows.Slices)
	f.flows.Add(e)
	for len(f.of) < len(f.flows.Slices) {
		f.of = append(f.of, -1)
	}
	phase := string(bytes.Trim(e.Phase, `"`))
	ts, timed := kineto.Micros(e.TS)
	if phase != "M" && !timed {
		f.left[phase+" without a time"]++
		return
	}
	p := piece{ts: ts, dur: -1, at: e.Offset, endAt: -1, size: int32(end - e.Offset)}
	switch phase {
	case "M":
		f.metadata(e)
		return
	case "s", "t", "f":
		return
	case "X":
		dur, ok := kineto.Micros(e.Dur)
		if !ok || dur < 0 {
			f.left["X without a duration"]++
			return
		}
		p.dur, p.row = dur, f.thread(e)
	case "B":
		p.row = f.thread(e)
	case "b":
		p.row = f.asyncRow(e)
	case "E":
		f.marks = append(f.marks, mark{ts: ts, at: p.at, row: f.thread(e), of: p.size, end: true})
		return
	case "e":
		f.marks = append(f.marks, mark{ts: ts, at: p.at, row: f.asyncRow(e), of: p.size, end: true})
		return
	case "n":
		p.kind, p.dur, p.row = pieceInstant, 0, f.asyncRow(e)
	case "i", "I", "R":
		p.kind, p.dur = pieceInstant, 0
		switch string(e.Scope) {
		case `"g"`:
			p.row = f.row("global", f.process(nil), "global")
		case `"p"`:
			p.row = f.row("process "+string(e.PID), f.process(e.PID), "process")
		default:
			p.row = f.thread(e)
		}
	case "C":
		p.kind, p.dur, p.row = pieceCounter, 0, 0
	default:
		f.left[phase]++
		return
	}
	if len(f.flows.Slices) > before {
		i := len(f.flows.Slices) - 1
		f.of[i] = int32(len(f.pieces))
		p.device = f.flows.Slices[i].Device()
		f.rows[p.row].device = f.rows[p.row].device || p.device
	}
	if p.kind == pieceCounter {
		p.row = f.process(e.PID) // its tracks follow from its arguments
	} else if p.dur < 0 {
		f.marks = append(f.marks, mark{ts: ts, row: p.row, of: int32(len(f.pieces))})
	}
	f.pieces = append(f.pieces, p)
}

// baseOf reads baseTimeNanoseconds, which may stand as text.
func baseOf(value []byte) (ns int64, bad bool) {
	ns, err := strconv.ParseInt(plain(value), 10, 64)
	return ns, err != nil
}

// plain is a process or a thread as text: 7 and "7" are one, as in most viewers.
func plain(v []byte) string {
	if len(v) > 1 && v[0] == '"' {
		return chrometrace.Text(v)
	}
	return string(v)
}

func (f *wholeFile) process(pid []byte) uint32 {
	key := plain(pid)
	id, ok := f.processIDs[key]
	if !ok {
		id = uint32(len(f.processes))
		f.processIDs[key] = id
		f.processes = append(f.processes, process{pid: key, raw: string(pid), order: int(id)})
	}
	return id
}

func (f *wholeFile) row(key string, process uint32, name string) uint32 {
	id, ok := f.rowIDs[key]
	if !ok {
		id = uint32(len(f.rows))
		f.rowIDs[key] = id
		f.rows = append(f.rows, row{process: process, name: name, order: int(id)})
	}
	return id
}

func (f *wholeFile) thread(e *chrometrace.Event) uint32 {
	tid := plain(e.TID)
	return f.row("thread "+plain(e.PID)+"\x00"+tid, f.process(e.PID), "thread "+tid)
}

func (f *wholeFile) asyncRow(e *chrometrace.Event) uint32 {
	return f.row("async "+plain(e.PID)+"\x00"+plain(e.ID)+"\x00"+string(e.Category), f.process(e.PID), plain(e.Category)+" "+plain(e.ID))
}

// metadata takes names and the order of processes and threads.
func (f *wholeFile) metadata(e *chrometrace.Event) {
	var name string
	order, ordered := 0, false
	chrometrace.EachMember(e.Args, func(key, value []byte) {
		switch string(key) {
		case `"name"`:
			name = plain(value)
		case `"sort_index"`:
			n, err := strconv.Atoi(string(value))
			order, ordered = n, err == nil
		}
	})
	switch plain(e.Name) {
	case "process_name":
		f.processes[f.process(e.PID)].name = name
	case "process_sort_index":
		if p := f.process(e.PID); ordered {
			f.processes[p].order = order
		}
	case "thread_name":
		f.rows[f.thread(e)].name = name
	case "thread_sort_index":
		if r := f.thread(e); ordered {
			f.rows[r].order = order
		}
	}
}

// layOut puts slices that overlap in part into lanes, and returns the pieces in the order of their begins, the longest first.
func (f *wholeFile) layOut() []int32 {
	order := make([]int32, len(f.pieces))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		p, q := &f.pieces[a], &f.pieces[b]
		return cmp.Or(cmp.Compare(p.ts, q.ts), cmp.Compare(q.till(), p.till()), cmp.Compare(a, b))
	})
	for _, i := range order {
		p := &f.pieces[i]
		if p.kind != pieceSlice {
			continue
		}
		r := &f.rows[p.row]
		lane := 0
		for ; ; lane++ {
			if lane == len(r.lanes) {
				r.lanes = append(r.lanes, nil)
			}
			ends := r.lanes[lane]
			for len(ends) > 0 && ends[len(ends)-1] <= p.ts {
				ends = ends[:len(ends)-1]
			}
			r.lanes[lane] = ends
			if len(ends) == 0 || p.till() <= ends[len(ends)-1] || lane == 1<<16-1 {
				break
			}
		}
		r.lanes[lane] = append(r.lanes[lane], p.till())
		p.lane = uint16(lane)
	}
	return order
}

// till is when it ends.
func (p *piece) till() int64 {
	if p.dur < 0 {
		return 1<<63 - 1
	}
	return p.ts + p.dur
}
