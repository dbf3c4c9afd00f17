package parca

import (
	"errors"
	"fmt"
	"strings"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/aggregate/symbol"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// The statuses of a cubin.
const (
	cubinOK         = "ok"
	cubinNoLineInfo = "no_lineinfo"
	cubinCorrupt    = "corrupt"
)

// Bounds of the rows of one cubin, which all come in one chunk. What is beyond them is left out, and the cubin's detail says so.
const (
	maxCubinLines = 1 << 19
	// maxRangeBytes bounds a row's range: the views take ranges apart by instruction.
	maxRangeBytes     = 1 << 20
	maxCubinText      = 32 << 20 // bytes of inline chains and of names of functions and files
	maxChainNameBytes = 512      // of a function in an inline chain
	maxCubinFileBytes = 4 << 10
)

// cubin folds a cubin: what it is, its functions, and a row of lines for each range of instructions with one line. It is one event, and it
// is stored whatever it is: one that cannot be read is a row that says why.
func (f *folding) cubin(s *session, p *aggregate.Part, body []byte) {
	p.Received(p.Env.Events)
	p.Stored(p.Env.Events)
	s.Delta.SawEvent(p.Env.ReceivedAt)
	f.Out.Saw(p.Env.ReceivedAt)
	w := cubinWriter{
		f: f, p: p,
		cubin: table.CubinRow{
			HeadRow: s.Head(), BuildID: strings.TrimPrefix(s.Key.ID, stream.CubinSession), Status: cubinOK, SizeBytes: uint64(len(body)),
			UploadedAt: p.Env.ReceivedAt, ReceivedDay: rows.DayOf(p.Env.ReceivedAt),
			Whole: 0, SM: 0, Functions: 0, Lines: 0, Detail: "", // until it is read
		},
	}
	c, err := symbol.Read(body)
	if err != nil {
		w.cubin.Status, w.cubin.Detail = cubinCorrupt, rows.Clip(err.Error())
		var bad *symbol.CorruptError
		if errors.As(err, &bad) {
			w.cubin.Detail = rows.Clip(bad.Detail)
		}
	} else {
		w.read(c)
	}
	table.Cubins.Append(f.Facts(p, table.Cubins.Table), &w.cubin)
}

// cubinWriter makes the rows of one cubin.
type cubinWriter struct {
	f     *folding
	p     *aggregate.Part
	cubin table.CubinRow
	line  table.CubinLineRow
	names chainNames
	chain []byte
	text  int // bytes of names and chains so far
	cut   int // functions without all their lines
}

func (w *cubinWriter) read(c *symbol.Cubin) {
	w.cubin.Whole, w.cubin.SM = rows.Flag(c.Whole), c.SM
	if !c.HasLines {
		w.cubin.Status = cubinNoLineInfo
	}
	b := w.f.Facts(w.p, table.CubinFunctions.Table)
	for i := range c.Functions {
		f := &c.Functions[i]
		if w.text += len(f.Name); w.text > maxCubinText {
			w.cut += len(c.Functions) - i
			break
		}
		table.CubinFunctions.Append(b, &table.CubinFunctionRow{
			HeadRow: w.cubin.HeadRow, BuildID: w.cubin.BuildID, Whole: w.cubin.Whole, Function: valid(f.Name), SizeBytes: f.SizeBytes,
			ReceivedDay: w.cubin.ReceivedDay,
		})
		w.cubin.Functions++
		if !w.lines(f) {
			w.cut++
		}
	}
	if w.cut > 0 {
		w.cubin.Detail = fmt.Sprintf("%d of its functions are left out or do not have all their lines: it has more than %d ranges or "+
			"%d MiB of names", w.cut, maxCubinLines, maxCubinText>>20)
	}
}

// lines writes the ranges of a function, and reports whether it wrote all of them.
func (w *cubinWriter) lines(f *symbol.Function) bool {
	w.line = table.CubinLineRow{HeadRow: w.cubin.HeadRow, BuildID: w.cubin.BuildID, Whole: w.cubin.Whole, Function: valid(f.Name),
		ReceivedDay: w.cubin.ReceivedDay, PCFrom: 0, PCTo: 0, File: "", Line: 0, InlineChain: ""} // of the first range, below
	b := w.f.Facts(w.p, table.CubinLines.Table)
	for r := range f.Ranges() {
		inner := &r.Frames[0]
		w.chain = w.chain[:0]
		if len(r.Frames) > 1 {
			w.chain = w.appendChain(w.chain, r.Frames)
		}
		l := &w.line
		if l.PCTo == r.From && l.PCTo != 0 && l.Line == inner.Line && l.InlineChain == string(w.chain) && l.File == clipFile(inner.File) {
			l.PCTo = r.To // the same call, inlined once more
			continue
		}
		if !w.flush(b) {
			return false
		}
		l.PCFrom, l.PCTo, l.Line, l.File, l.InlineChain = r.From, r.To, inner.Line, clipFile(inner.File), string(w.chain)
	}
	return w.flush(b)
}

// flush writes the range that was gathered, and reports whether there was room.
func (w *cubinWriter) flush(b *table.Batch) bool {
	if w.line.PCTo == 0 {
		return true
	}
	w.text += len(w.line.InlineChain)
	if w.cubin.Lines == maxCubinLines || w.text > maxCubinText {
		return false
	}
	for end := w.line.PCTo; w.line.PCFrom < end && w.cubin.Lines < maxCubinLines; w.line.PCFrom = w.line.PCTo {
		w.line.PCTo = min(end, w.line.PCFrom+maxRangeBytes)
		table.CubinLines.Append(b, &w.line)
		w.cubin.Lines++
	}
	return true
}

// appendChain appends a line for each frame, innermost first: <file>:<line> <function>.
func (w *cubinWriter) appendChain(dst []byte, frames []symbol.Frame) []byte {
	for i := range frames {
		if i > 0 {
			dst = append(dst, '\n')
		}
		dst = fmt.Appendf(dst, "%s:%d %s", clipFile(frames[i].File), frames[i].Line, w.names.of(frames[i].Function))
	}
	return dst
}
