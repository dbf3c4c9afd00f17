// Package trace works on files of traces in Chrome's JSON without a service: Lint says what viewers draw wrongly of them, Fix writes
// them anew, Open serves one to Perfetto's viewer.
package trace

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"

	"github.com/klauspost/compress/gzip"

	"github.com/warpline/warpline/proto/chrometrace"
	"github.com/warpline/warpline/proto/chrometrace/flows"
)

// Lint reads a trace and says which of its arrows Perfetto and chrome://tracing draw otherwise than they were meant.
type Lint struct {
	Path  string // a file, packed with gzip or not; - is stdin
	Flows bool   // write only the rows that Perfetto makes, as CSV
	JSON  bool
}

// Viewer is what a viewer makes of the arrows of a trace.
type Viewer struct {
	Right    uint64    `json:"right"`
	Wrong    uint64    `json:"wrong"`  // an end is on another slice
	Turned   uint64    `json:"turned"` // on its slices, but drawn backwards
	Lost     uint64    `json:"lost"`
	Examples []Example `json:"examples"`
}

// Example is an arrow that is not drawn as it was meant.
type Example struct {
	Fault string `json:"fault"` // wrong, turned or lost
	Meant string `json:"meant"`
	Drawn string `json:"drawn,omitempty"`
	AtNS  int64  `json:"at_ns"` // begin of the slice where it starts, as Perfetto has it
}

// Found is what Lint found.
type Found struct {
	File    string `json:"file"`
	Events  uint64 `json:"events"`
	Slices  uint64 `json:"slices"`
	Arrows  uint64 `json:"arrows"`  // that have a start and an end, and stand for slices
	Unknown uint64 `json:"unknown"` // whose ends stand for no slice
	Lone    uint64 `json:"lone"`    // ends that no start belongs to: normal

	Perfetto Viewer            `json:"perfetto"`
	Chrome   Viewer            `json:"chrome"`
	Counts   map[string]uint64 `json:"counts"` // what Perfetto counts of ends that it does not draw, by its names

	Spilled uint64 `json:"overlapping"`  // slices that overlap the one before them in part
	Inexact uint64 `json:"inexact"`      // times that Perfetto's doubles move
	Skipped uint64 `json:"skipped"`      // events without a time, phase or duration
	Broken  uint64 `json:"broken"`       // elements that are no event
	Mended  uint64 `json:"mended"`       // events that are no JSON, and can be read all the same
	TornAt  *int64 `json:"torn_at"`      // byte behind which nothing could be read; null if all was
	Torn    string `json:"torn"`         // why
	Refused *int64 `json:"refused_at"`   // byte at which strict JSON ends, and Perfetto with it; null if there is none
	Why     string `json:"refused_text"` // what is there
}

// Bad reports whether a viewer shows something else than what was meant.
func (f *Found) Bad() bool {
	return f.Perfetto.Wrong+f.Perfetto.Turned+f.Perfetto.Lost+f.Chrome.Wrong+f.Chrome.Lost+f.Spilled+f.Broken > 0 || f.Refused != nil ||
		f.TornAt != nil
}

// Run reads the trace and writes what it found, or with Flows the rows, to out.
func (l *Lint) Run(ctx context.Context, stdin io.Reader, out io.Writer) (*Found, error) {
	in, done, err := open(l.Path, stdin)
	if err != nil {
		return nil, err
	}
	defer done()
	f := &Found{File: l.Path, Counts: map[string]uint64{}}
	trace, err := f.read(ctx, in)
	if err != nil {
		return nil, err
	}
	d := trace.Perfetto()
	if l.Flows {
		return f, writeRows(out, trace, d)
	}
	f.judge(trace, d)
	if l.JSON {
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		return f, enc.Encode(f)
	}
	return f, f.print(out)
}

// open opens a file, and unpacks it.
func open(path string, stdin io.Reader) (in io.Reader, done func(), err error) {
	file, done := stdin, func() {}
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: name a trace in Chrome's JSON", err)
		}
		file, done = f, func() { f.Close() }
	}
	b := bufio.NewReaderSize(file, 1<<18)
	if head, _ := b.Peek(2); len(head) == 2 && head[0] == 0x1f && head[1] == 0x8b {
		z, err := gzip.NewReader(b)
		if err != nil {
			done()
			return nil, nil, fmt.Errorf("%s: the gzip data is damaged: %w", path, err)
		}
		return z, done, nil
	}
	return b, done, nil
}

// read reads all events, and beside it looks whether the text is JSON.
func (f *Found) read(ctx context.Context, in io.Reader) (*flows.Trace, error) {
	pr, pw := io.Pipe()
	strict := make(chan struct{})
	go func() {
		defer close(strict)
		f.strict(pr)
		io.Copy(io.Discard, pr)
	}()
	trace, r := flows.New(), chrometrace.NewReader(io.TeeReader(in, pw))
	var failed error
	for failed == nil {
		e, err := r.Next()
		var one *chrometrace.EventError
		var all *chrometrace.SyntaxError
		switch {
		case err == io.EOF:
			failed = io.EOF
		case errors.As(err, &one):
			f.Broken++
		case errors.As(err, &all) && all.Err == nil:
			f.TornAt, f.Torn = &all.Offset, all.Reason
			failed = io.EOF
		case err != nil:
			failed = err
		default:
			f.Events++
			if !exact(e.TS) || !exact(e.Dur) {
				f.Inexact++
			}
			trace.Add(e)
		}
		if f.Events%4096 == 0 && ctx.Err() != nil {
			failed = ctx.Err()
		}
	}
	if failed == io.EOF {
		io.Copy(pw, in) // what stands behind it is strict JSON or not, too
	}
	pw.Close()
	<-strict
	if failed != io.EOF {
		return nil, fmt.Errorf("read %s: %w", f.File, failed)
	}
	if !r.Listed() && f.TornAt == nil {
		return nil, fmt.Errorf("%s has no list traceEvents: name a trace in Chrome's JSON", f.File)
	}
	f.Skipped, f.Mended = trace.Skipped, r.Mended
	return trace, nil
}

// strict finds where the text stops being JSON.
func (f *Found) strict(in io.Reader) {
	d := json.NewDecoder(in)
	d.UseNumber()
	for {
		if _, err := d.Token(); err != nil {
			if err != io.EOF || f.Events == 0 && d.InputOffset() == 0 {
				at := d.InputOffset()
				var of *json.SyntaxError
				if errors.As(err, &of) {
					at = max(of.Offset-1, 0)
				}
				f.Refused, f.Why = &at, err.Error()
			}
			return
		}
	}
}

// exact reports whether a time is in ns what the decimal text says.
func exact(value []byte) bool {
	if len(value) == 0 || value[0] == '"' || value[0] == 'n' {
		return true
	}
	ns, ok := flows.Nanoseconds(value)
	if !ok {
		return true // it is skipped
	}
	said, ok := decimalNS(value)
	return !ok || said == ns
}

// decimalNS reads us with at most three decimals as ns.
func decimalNS(value []byte) (ns int64, ok bool) {
	negative, decimals := false, -1
	for i, c := range value {
		switch {
		case c == '-' && i == 0:
			negative = true
		case c == '.' && decimals < 0:
			decimals = 0
		case c >= '0' && c <= '9' && ns <= (math.MaxInt64-9)/10:
			if decimals >= 0 {
				if decimals++; decimals > 3 {
					if c != '0' {
						return 0, false
					}
					continue
				}
			}
			ns = ns*10 + int64(c-'0')
		default:
			return 0, false
		}
	}
	for d := max(min(decimals, 3), 0); d < 3; d++ {
		if ns > math.MaxInt64/10 {
			return 0, false
		}
		ns *= 10
	}
	if negative {
		ns = -ns
	}
	return ns, true
}

// writeRows writes the arrows that Perfetto draws, in the order in which it makes them.
func writeRows(out io.Writer, t *flows.Trace, d *flows.Drawing) error {
	w := bufio.NewWriter(out)
	fmt.Fprintln(w, `"from_name","from_ts","from_dur","to_name","to_ts","to_dur"`)
	for _, r := range d.Rows {
		from, to := &t.Slices[r.From], &t.Slices[r.To]
		fmt.Fprintf(w, "%s,%d,%d,%s,%d,%d\n", quoted(t.Name(from)), from.TS, from.Dur, quoted(t.Name(to)), to.TS, to.Dur)
	}
	return w.Flush()
}

// quoted is a text as Perfetto's CSV has it.
func quoted(s string) string {
	b := make([]byte, 0, len(s)+2)
	b = append(b, '"')
	for i := range len(s) {
		if s[i] == '"' {
			b = append(b, '"')
		}
		b = append(b, s[i])
	}
	return string(append(b, '"'))
}

const maxExamples = 5

func (f *Found) judge(t *flows.Trace, d *flows.Drawing) {
	for i := range t.Slices {
		if t.Slices[i].Real() {
			f.Slices++
		}
	}
	meant, unknown, lone := t.Meant()
	f.Arrows, f.Unknown, f.Lone, f.Spilled = uint64(len(meant)), unknown, lone, d.Spilled
	for stat, fault := range map[string]flows.Fault{"flow_no_enclosing_slice": flows.NoSlice, "flow_end_without_start": flows.NoStart,
		"flow_duplicate_id": flows.SecondStart, "flow_invalid_id": flows.BadID, "flow_without_a_next_slice": flows.Never} {
		if n := d.Faults[fault]; n > 0 {
			f.Counts[stat] = n
		}
	}
	verdicts := t.Judge(d, meant)
	f.Perfetto.count(t, meant, verdicts, func(i int) (flows.Row, bool) { return d.Of(meant[i]) })
	drawn, there := t.Catapult()
	rows := func(i int) (flows.Row, bool) { return drawn[meant[i].Flow()], there[meant[i].Flow()] }
	f.Chrome.count(t, meant, flows.Compare(meant, rows), rows)
}

func (v *Viewer) count(t *flows.Trace, meant []flows.Arrow, verdicts []flows.Verdict, drawn func(i int) (flows.Row, bool)) {
	v.Examples = []Example{}
	of := map[flows.Verdict]int{}
	for i, verdict := range verdicts {
		name := ""
		switch verdict {
		case flows.Right:
			v.Right++
			continue
		case flows.Wrong:
			v.Wrong++
			name = "wrong"
		case flows.Turned:
			v.Turned++
			name = "turned"
		case flows.Lost:
			v.Lost++
			name = "lost"
		}
		if of[verdict]++; of[verdict] > maxExamples {
			continue
		}
		e := Example{Fault: name, Meant: arrowText(t, meant[i].From, meant[i].To), AtNS: t.Slices[meant[i].From].TS}
		if r, ok := drawn(i); ok {
			e.Drawn = arrowText(t, r.From, r.To)
		}
		v.Examples = append(v.Examples, e)
	}
}

func arrowText(t *flows.Trace, from, to uint32) string {
	return short(t.Name(&t.Slices[from])) + " → " + short(t.Name(&t.Slices[to]))
}

// short cuts a name, and shows what cannot be printed as Go does.
func short(name string) string {
	const most = 40
	r := []rune(name)
	if len(r) > most {
		name = string(r[:most-1]) + "…"
	}
	q := strconv.Quote(name)
	return q[1 : len(q)-1]
}
