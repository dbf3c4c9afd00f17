// Package symbol reads cubins, whole or stripped by Parca's agent, and says from which source line an instruction comes and into what it
// was inlined.
//
// Start with [Read]. Its input is from the network: what it reads is bounded by the size of the input, it does not panic, and what it
// returns does not alias the input. A [Cubin] may be used from several goroutines.
package symbol

import (
	"fmt"
	"iter"
	"sort"
	"strings"
)

// Cubin is what is known of a cubin.
type Cubin struct {
	Whole    bool   // as the driver loads it, not stripped
	SM       uint32 // 121 is sm_121; 0 unknown
	HasLines bool   // it was compiled with line information
	// Functions are the kernels and the functions inside their sections, by name.
	Functions []Function

	sections []section
	rows     []row
	states   []state
	files    []string
	names    []string // of inlined functions
}

// Function is a kernel, or a function that was not inlined and lies in a kernel's section.
type Function struct {
	Name      string // mangled, whole
	SizeBytes uint64

	cubin   *Cubin
	section uint32
	value   uint32 // offset in the section
	owner   bool   // the kernel of the section
}

// Frame is a source line and the function that it is in.
type Frame struct {
	Function string // mangled, or as the line table has it
	File     string
	Line     uint32
}

// Range is instructions of one line: offsets in the function, bytes, To is the first behind it.
type Range struct {
	From, To uint64
	Frames   []Frame // innermost first, the kernel last; valid until the next range
}

// Status says whether the line of an instruction is known.
type Status uint8

// The statuses of a lookup.
const (
	OK Status = iota
	NoLineInfo
	AmbiguousName
	NoFunction
)

// String is the status as SQL has it.
func (s Status) String() string {
	return [...]string{"ok", "no_lineinfo", "ambiguous_name", "no_function"}[s]
}

// CorruptError says what is wrong with bytes that are not a cubin which can be read.
type CorruptError struct{ Detail string }

func (e *CorruptError) Error() string { return "not a cubin that can be read: " + e.Detail }

func corrupt(format string, args ...any) error { return &CorruptError{fmt.Sprintf(format, args...)} }

// WireNameBytes is where CUPTI's samples cut names of functions.
const WireNameBytes = 127

// maxDepth bounds an inline chain; a longer one is taken for a circle, and the innermost frame is all that is said.
const maxDepth = 64

// find returns the function with a name as samples have it.
func (c *Cubin) find(name string) (*Function, Status) {
	i := sort.Search(len(c.Functions), func(i int) bool { return c.Functions[i].Name >= name })
	if i == len(c.Functions) || !strings.HasPrefix(c.Functions[i].Name, name) {
		return nil, NoFunction
	}
	if len(c.Functions[i].Name) == len(name) {
		return &c.Functions[i], OK
	}
	if len(name) < WireNameBytes {
		return nil, NoFunction
	}
	if i+1 < len(c.Functions) && strings.HasPrefix(c.Functions[i+1].Name, name) {
		return nil, AmbiguousName
	}
	return &c.Functions[i], OK
}

// Lookup returns the frames of an instruction, innermost first: function as samples have it (cut at WireNameBytes), pc its offset in the
// function. An offset behind the function is looked for in the other functions of its section. Without status OK there are no frames.
func (c *Cubin) Lookup(function string, pc uint64) ([]Frame, Status) {
	return c.AppendFrames(nil, function, pc)
}

// AppendFrames is Lookup that appends to dst, for callers that look up many.
func (c *Cubin) AppendFrames(dst []Frame, function string, pc uint64) ([]Frame, Status) {
	f, status := c.find(function)
	if status != OK {
		return dst, status
	}
	if pc > maxAddress-uint64(f.value) {
		return dst, NoFunction
	}
	at := f.value + uint32(pc)
	name := f.Name
	if pc >= f.SizeBytes {
		g := c.sections[f.section].covering(at)
		if g < 0 {
			return dst, NoFunction
		}
		name = c.Functions[g].Name
	}
	if !c.HasLines {
		return dst, NoLineInfo
	}
	s := &c.sections[f.section]
	i := s.at(at)
	if i < 0 || s.points[i].row == noRow {
		return dst, NoLineInfo
	}
	return c.appendFrames(dst, s.points[i].row, name), OK
}

// appendFrames walks from a row to the rows into which it was inlined. kernel is the name of what is not inlined.
func (c *Cubin) appendFrames(dst []Frame, r uint32, kernel string) []Frame {
	from := len(dst)
	for range maxDepth {
		w := &c.rows[r]
		st := &c.states[w.state]
		f := Frame{Function: kernel, File: c.files[st.file], Line: w.line}
		if st.name != 0 {
			f.Function = c.names[st.name]
		}
		dst = append(dst, f)
		if st.context == 0 {
			return dst
		}
		if st.context > st.rows {
			return dst[:from+1] // there is no such row in the function's sequence
		}
		r = st.first + st.context - 1
	}
	return dst[:from+1]
}

// Ranges returns the ranges of the function that have a line, in order. Those of a kernel go on over the functions behind it in its
// section. Frames are valid until the next range.
func (f *Function) Ranges() iter.Seq[Range] {
	return func(yield func(Range) bool) {
		c := f.cubin
		s := &c.sections[f.section]
		end := uint64(f.value) + f.SizeBytes
		if f.owner {
			end = max(end, s.end)
		}
		var frames []Frame
		for i := max(s.at(f.value), 0); i < len(s.points) && uint64(s.points[i].addr) < end; i++ {
			if s.points[i].row == noRow {
				continue
			}
			from, to := uint64(max(s.points[i].addr, f.value)), end
			if i+1 < len(s.points) {
				to = min(to, uint64(s.points[i+1].addr))
			}
			for from < to {
				name, until, ok := f.piece(s, uint32(from))
				until = min(until, to)
				if ok {
					frames = c.appendFrames(frames[:0], s.points[i].row, name)
					if !yield(Range{From: from - uint64(f.value), To: until - uint64(f.value), Frames: frames}) {
						return
					}
				}
				from = until
			}
		}
	}
}

// piece returns the function that an address of the section counts to when it is reached from f, and where that changes.
func (f *Function) piece(s *section, at uint32) (name string, until uint64, ok bool) {
	if end := uint64(f.value) + f.SizeBytes; uint64(at) < end {
		return f.Name, end, true
	}
	until = s.next(at)
	g := s.covering(at)
	if g < 0 {
		return "", until, false
	}
	of := &f.cubin.Functions[g]
	return of.Name, min(until, uint64(of.value)+of.SizeBytes), true
}
