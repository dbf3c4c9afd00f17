package gpuflight

import (
	"strconv"

	"github.com/warpline/warpline/proto/jsonscan"
)

// Bounds of artifacts. A line beyond one is refused whole, as artifact_too_large.
const (
	// MaxInstructions of one function, runs counted out. The largest known kernels have some 200 thousand.
	MaxInstructions = 1 << 20
	// MaxSourceLines of one file. An amalgamated database in one file has 250 thousand.
	MaxSourceLines = 1 << 20
)

// defaultStride is the size of an instruction since Volta, used where a function does not tell its own.
const defaultStride = 16

// Source is a source_file_content line: a file as it was when the session ran.
type Source struct {
	FileID uint32 // in SourceFileDict
	Lines  int
}

// DecodeSource calls f, if it is not nil, with every line of a source_file_content line, counted from 1. text is valid UTF-8, aliases
// the line or a buffer, and is gone when f returns.
//
// Errors are *LineError: bad_json, missing_field, bad_value, out_of_range or artifact_too_large. f has been called for what stood
// before the fault then, so callers that must not see half a file pass nil first.
func DecodeSource(line *Line, f func(n int, text []byte)) (Source, error) {
	var s Source
	var fail *LineError
	var id, lines bool
	buf := make([]byte, 0, 512)
	m := walkObject(line.Raw, 0)
	for m.next() {
		ok := false
		switch key := string(m.key); {
		case key == "source_file_id" && !id:
			id = true
			var v int64
			v, _, ok = m.integer(KindU32, key, &fail)
			s.FileID = uint32(v)
		case key == "lines" && !lines:
			lines = true
			if m.b[m.i] != '[' {
				note(&fail, ReasonBadValue, "lines is not an array")
				ok = m.skip()
				break
			}
			e := elements{b: m.b, i: m.i}
			for e.next() {
				m.i = e.i
				text, isString, good := m.text(buf)
				e.i = m.i
				if !good {
					return Source{}, badJSON(line.Raw, m.i)
				}
				if !isString {
					note(&fail, ReasonBadValue, "a line is not a string")
				}
				s.Lines++
				if s.Lines > MaxSourceLines {
					return Source{}, &LineError{ReasonArtifactTooLarge, "a source file of more than " + strconv.Itoa(MaxSourceLines) + " lines"}
				}
				if f != nil {
					f(s.Lines, text)
				}
			}
			m.i, ok = e.i, e.ok
		default:
			ok = m.skip()
		}
		if !ok {
			return Source{}, badJSON(line.Raw, m.i)
		}
	}
	switch {
	case !m.ok || jsonscan.Space(line.Raw, m.i) != len(line.Raw):
		return Source{}, badJSON(line.Raw, m.i)
	case !id:
		note(&fail, ReasonMissingField, "source_file_id")
	case !lines:
		note(&fail, ReasonMissingField, "lines")
	}
	return s, orNil(fail)
}

// Disassembly is a cubin_disassembly line: the instructions of one function.
type Disassembly struct {
	CubinCRC     uint64
	Function     string // mangled, whole, valid UTF-8
	Instructions int    // runs counted out
	TextBytes    int    // of all instructions, runs counted out
}

// Run is instructions of one text: Count of them, the first at PC and each Stride bytes behind the one before. SASS is valid UTF-8,
// aliases the line or a buffer, and is gone when the function that was called with it returns.
type Run struct {
	PC, Stride uint64
	Count      int
	SASS       []byte
}

// DecodeDisassembly calls f, if it is not nil, with every entry of a cubin_disassembly line, in order. A run's stride is what lies
// between it and the next entry, shared evenly; behind the last entry nothing lies, so it has the function's smallest stride, or 16.
//
// Errors are those of DecodeSource; entries must be in the order of pc. f has been called for what stood before the fault then.
func DecodeDisassembly(line *Line, f func(Run)) (Disassembly, error) {
	var d Disassembly
	var fail *LineError
	var crc, function, entries bool
	m := walkObject(line.Raw, 0)
	for m.next() {
		ok := false
		switch key := string(m.key); {
		case key == "cubin_crc" && !crc:
			crc = true
			var v int64
			v, _, ok = m.integer(KindU64, key, &fail)
			d.CubinCRC = uint64(v)
		case key == "function_name" && !function:
			function = true
			text, isString, good := m.text(nil)
			ok = good
			if !isString {
				note(&fail, ReasonBadValue, "function_name is not a string")
			}
			d.Function = string(text)
		case key == "entries" && !entries:
			entries = true
			if m.b[m.i] != '[' {
				note(&fail, ReasonBadValue, "entries is not an array")
				ok = m.skip()
				break
			}
			ok = d.entries(&m, f, &fail)
			if ok && fail != nil {
				return Disassembly{}, fail // the rest would be measured by what is wrong
			}
		default:
			ok = m.skip()
		}
		if !ok {
			return Disassembly{}, badJSON(line.Raw, m.i)
		}
	}
	switch {
	case !m.ok || jsonscan.Space(line.Raw, m.i) != len(line.Raw):
		return Disassembly{}, badJSON(line.Raw, m.i)
	case !function:
		note(&fail, ReasonMissingField, "function_name")
	case !entries:
		note(&fail, ReasonMissingField, "entries")
	}
	return d, orNil(fail)
}

// entries walks the array m stands on. It stops at the first fault, which is in fail then; false means bad syntax.
func (d *Disassembly) entries(m *members, f func(Run), fail **LineError) bool {
	var last Run // waits for the pc behind it
	least := uint64(0)
	out := func() {
		d.Instructions += last.Count
		d.TextBytes += last.Count * len(last.SASS)
		if d.Instructions > MaxInstructions {
			note(fail, ReasonArtifactTooLarge, "a function of more than "+strconv.Itoa(MaxInstructions)+" instructions")
		} else if f != nil {
			f(last)
		}
	}
	e := elements{b: m.b, i: m.i}
	n := 0
	for e.next() {
		m.i = e.i
		if m.b[m.i] != '{' {
			note(fail, ReasonBadValue, "an entry is not an object")
			return m.skip()
		}
		run, ok := readRun(m, fail)
		e.i = m.i
		if !ok || *fail != nil {
			return ok
		}
		if n > 0 {
			switch {
			case run.PC <= last.PC:
				note(fail, ReasonBadValue, "entries are not in the order of pc")
			case (run.PC-last.PC)/uint64(last.Count) == 0:
				note(fail, ReasonBadValue, "a run has more instructions than bytes")
			}
			if *fail != nil {
				return true
			}
			last.Stride = (run.PC - last.PC) / uint64(last.Count)
			if least == 0 || last.Stride < least {
				least = last.Stride
			}
			if out(); *fail != nil {
				return true
			}
		}
		last = run
		n++
	}
	m.i = e.i
	if !e.ok {
		return false
	}
	if n > 0 {
		last.Stride = least
		if least == 0 {
			last.Stride = defaultStride
		}
		if uint64(last.Count-1) > (1<<64-1-last.PC)/last.Stride {
			note(fail, ReasonOutOfRange, "pc")
			return true
		}
		out()
	}
	return true
}

// readRun reads the entry m stands on, except its stride.
func readRun(m *members, fail **LineError) (r Run, ok bool) {
	r.Count = 1
	var pc, sass, count bool
	entry := walkObject(m.b, m.i)
	for entry.next() {
		ok := false
		switch key := string(entry.key); {
		case key == "pc" && !pc:
			pc = true
			var v int64
			v, _, ok = entry.integer(KindU64, key, fail)
			r.PC = uint64(v)
		case key == "sass" && !sass:
			sass = true
			text, isString, good := entry.text(nil) // escapes are rare in it
			ok = good
			if !isString {
				note(fail, ReasonBadValue, "sass is not a string")
			}
			r.SASS = text
		case key == "count" && !count:
			count = true
			var v int64
			v, _, ok = entry.integer(KindI64, key, fail)
			switch {
			case v > MaxInstructions:
				note(fail, ReasonArtifactTooLarge, "a function of more than "+strconv.Itoa(MaxInstructions)+" instructions")
			case v < 1:
				note(fail, ReasonBadValue, "count is below 1")
			}
			r.Count = int(v)
		default:
			ok = entry.skip()
		}
		if !ok {
			m.i = entry.i
			return r, false
		}
	}
	m.i = entry.i
	switch {
	case !entry.ok:
		return r, false
	case !pc:
		note(fail, ReasonMissingField, "pc")
	case !sass:
		note(fail, ReasonMissingField, "sass")
	}
	return r, true
}

// PTXText is a ptx_disassembly line.
type PTXText struct {
	Function string // mangled; "" when the line has none
	Arch     string
	Text     []byte // valid UTF-8, may alias the line
}

// DecodePTX decodes a ptx_disassembly line, with the errors of DecodeSource.
func DecodePTX(line *Line) (PTXText, error) {
	var p PTXText
	var fail *LineError
	var function, arch, ptx bool
	m := walkObject(line.Raw, 0)
	for m.next() {
		ok, isString := false, true
		var text []byte
		switch key := string(m.key); {
		case key == "function_name" && !function:
			function = true
			text, isString, ok = m.text(nil)
			p.Function = string(text)
		case key == "arch" && !arch:
			arch = true
			text, isString, ok = m.text(nil)
			p.Arch = string(text)
		case key == "ptx" && !ptx:
			ptx = true
			p.Text, isString, ok = m.text(nil)
		default:
			ok = m.skip()
		}
		if !ok {
			return PTXText{}, badJSON(line.Raw, m.i)
		}
		if !isString {
			note(&fail, ReasonBadValue, "a text is not a string")
		}
	}
	switch {
	case !m.ok || jsonscan.Space(line.Raw, m.i) != len(line.Raw):
		return PTXText{}, badJSON(line.Raw, m.i)
	case !ptx:
		note(&fail, ReasonMissingField, "ptx")
	}
	return p, orNil(fail)
}
