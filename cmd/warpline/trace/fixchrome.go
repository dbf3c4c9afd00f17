package trace

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/warpline/warpline/proto/chrometrace"
	"github.com/warpline/warpline/proto/kineto"
)

// chromeWriter writes files one after the other into one trace in Chrome's JSON. Arrows stand on slices (bind_id), with ids over 2^32,
// since smaller ones collide with those of other arrows. Times are us behind the first event, so that a double holds each ns.
type chromeWriter struct {
	out    *bufio.Writer
	done   *Fixed
	base   int64 // ns of time 0
	begun  bool  // an event was written
	arrow  uint64
	binds  map[int32]*chromeBind // by piece
	text   []byte
	member []byte
}

// chromeBind is what a slice says of arrows: it can have one id.
type chromeBind struct {
	id      uint64
	in, out bool
}

// writeChrome writes the files. What stands beside the events of one file is kept; of several it would be that of one rank.
func writeChrome(out io.Writer, files []*wholeFile, labels []string, done *Fixed) error {
	w := &chromeWriter{out: bufio.NewWriterSize(out, 1<<18), done: done, base: firstOf(files), arrow: 1 << 32}
	fmt.Fprintf(w.out, `{"displayTimeUnit":"ns","baseTimeNanoseconds":%d`, w.base)
	if len(files) == 1 {
		w.out.Write(files[0].members)
		done.Members = files[0].unkept
	}
	w.out.WriteString(`,"traceEvents":[`)
	for i, f := range files {
		if err := w.file(f, i, labels[i]); err != nil {
			return err
		}
	}
	w.out.WriteString("\n]}\n")
	return w.out.Flush()
}

// firstOf is the time of the first event.
func firstOf(files []*wholeFile) int64 {
	first, any := int64(0), false
	for _, f := range files {
		for i := range f.pieces {
			if at := f.base + f.pieces[i].ts; !any || at < first {
				first, any = at, true
			}
		}
	}
	return first
}

func (w *chromeWriter) file(f *wholeFile, number int, label string) error {
	w.done.add(f)
	w.bind(f)
	// Of a call and what a GPU did that begin at once, the call has to come first.
	for _, devices := range []bool{false, true} {
		if _, err := f.text.Seek(0, io.SeekStart); err != nil {
			return err
		}
		r := chrometrace.NewReader(bufio.NewReaderSize(f.text, 1<<18))
		for next := 0; ; {
			e, err := r.Next()
			if _, broken := err.(*chrometrace.EventError); broken {
				continue
			}
			if err != nil && err != io.EOF && f.torn == "" {
				return fmt.Errorf("read %s again: %w", f.path, err)
			}
			if err != nil { // the end, or where it is torn
				break
			}
			for next < len(f.pieces) && f.pieces[next].at < e.Offset {
				next++
			}
			i := int32(-1)
			device := false
			if next < len(f.pieces) && f.pieces[next].at == e.Offset {
				i = int32(next)
				p := &f.pieces[i]
				device = p.kind != pieceCounter && f.rows[p.row].device
			}
			if device != devices {
				continue
			}
			w.event(f, e, r.Offset(), i, number, label)
		}
	}
	w.nameProcesses(f, number, label)
	return nil
}

// bind gives the slices of arrows their ids: one for all arrows of a call.
func (w *chromeWriter) bind(f *wholeFile) {
	all, unknown, ambiguous := f.flows.Arrows()
	w.done.Unknown += unknown
	w.done.Ambiguous += ambiguous
	w.binds = map[int32]*chromeBind{}
	for _, a := range all {
		from, to := f.of[a.From], f.of[a.To]
		if from < 0 || to < 0 {
			continue
		}
		p, q := &f.pieces[from], &f.pieces[to]
		source, target := w.binds[from], w.binds[to]
		name := arrowText(f.flows, a.From, a.To)
		switch {
		case p.kind != pieceSlice || q.kind != pieceSlice || target != nil || source != nil && !source.out:
			w.done.unsaid(name)
			continue
		case q.ts < p.ts || q.ts == p.ts && (q.till() > p.till() || q.till() == p.till() && !f.behind(from, to)):
			w.done.unsaid(name)
			continue
		}
		if source == nil {
			w.arrow++
			source = &chromeBind{id: w.arrow, out: true}
			w.binds[from] = source
		}
		w.binds[to] = &chromeBind{id: source.id, in: true}
		w.done.Arrows++
	}
}

// behind reports whether the second piece is written behind the first: host before devices, else in the order of the file.
func (f *wholeFile) behind(first, second int32) bool {
	a, b := f.rows[f.pieces[first].row].device, f.rows[f.pieces[second].row].device
	if a != b {
		return b
	}
	return second > first
}

// event writes one event: its members as they are, save times, arrows, and of several files the process.
func (w *chromeWriter) event(f *wholeFile, e *chrometrace.Event, end int64, i int32, number int, label string) {
	switch string(e.Phase) {
	case `"s"`, `"t"`, `"f"`:
		return
	}
	size := int(end - e.Offset)
	w.text = slices.Grow(w.text[:0], size)[:size]
	n, _ := f.text.ReadAt(w.text, e.Offset)
	text := w.text[:n]
	if !chrometrace.EachMember(text, func(_, _ []byte) {}) {
		text = chrometrace.Mend(nil, text)
	}
	w.between()
	separator := byte('{')
	put := func(key, value []byte) {
		w.out.WriteByte(separator)
		separator = ','
		w.out.Write(key)
		w.out.WriteByte(':')
		w.out.Write(value)
	}
	naming := string(e.Phase) == `"M"` && string(e.Name) == `"process_name"`
	chrometrace.EachMember(text, func(key, value []byte) {
		switch string(key) {
		case `"bind_id"`, `"flow_in"`, `"flow_out"`:
			return
		case `"ts"`:
			if ns, ok := kineto.Micros(value); ok && string(e.Phase) != `"M"` {
				value = appendMicros(w.member[:0], ns+f.base-w.base)
				w.done.Far = w.done.Far || ns+f.base-w.base >= 1000<<42
			}
		case `"dur"`:
			if ns, ok := kineto.Micros(value); ok {
				value = appendMicros(w.member[:0], ns)
			}
		case `"pid"`:
			if number > 0 {
				value = ofFile(number, value)
			}
		case `"id"`: // of asynchronous slices it holds for all processes
			if number > 0 && strings.Contains(`"b" "n" "e"`, string(e.Phase)) {
				value = ofFile(number, value)
			}
		case `"args"`:
			if naming && label != "" {
				value = labelled(value, label)
			}
		}
		put(key, quoteNaN(value))
	})
	if b := w.binds[i]; b != nil && i >= 0 {
		put([]byte(`"bind_id"`), strconv.AppendQuote(nil, "0x"+strconv.FormatUint(b.id, 16)))
		if b.out {
			put([]byte(`"flow_out"`), []byte("true"))
		}
		if b.in {
			put([]byte(`"flow_in"`), []byte("true"))
		}
	}
	if separator == '{' {
		w.out.WriteByte('{')
	}
	w.out.WriteByte('}')
	switch {
	case i < 0:
	case f.pieces[i].kind == pieceCounter:
		w.done.Counters++
	default:
		w.done.Slices++
	}
}

// between separates events.
func (w *chromeWriter) between() {
	if w.begun {
		w.out.WriteByte(',')
	}
	w.out.WriteByte('\n')
	w.begun = true
}

// appendMicros writes ns as us with three decimals.
func appendMicros(b []byte, ns int64) []byte {
	if ns < 0 {
		b, ns = append(b, '-'), -ns
	}
	b = strconv.AppendInt(b, ns/1000, 10)
	return append(b, '.', byte('0'+ns/100%10), byte('0'+ns/10%10), byte('0'+ns%10))
}

// quoteNaN makes texts of the numbers that JSON does not have.
func quoteNaN(v []byte) []byte {
	if !bytes.Contains(v, []byte("NaN")) && !bytes.Contains(v, []byte("Infinity")) {
		return v
	}
	out, inString := make([]byte, 0, len(v)+8), false
	for i := 0; i < len(v); i++ {
		word := ""
		if !inString {
			for _, w := range []string{"NaN", "-Infinity", "Infinity"} {
				if bytes.HasPrefix(v[i:], []byte(w)) {
					word = w
					break
				}
			}
		}
		switch {
		case word != "":
			out = append(append(append(out, '"'), word...), '"')
			i += len(word) - 1
			continue
		case inString && v[i] == '\\' && i+1 < len(v):
			out = append(out, v[i])
			i++
		case v[i] == '"':
			inString = !inString
		}
		out = append(out, v[i])
	}
	return out
}
