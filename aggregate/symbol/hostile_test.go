package symbol_test

import (
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warpline/warpline/aggregate/symbol"
)

// made is a cubin put together by a test.
type made struct {
	sections []madeSection
	strtab   []byte
	symtab   []byte
}

type madeSection struct {
	name      string
	kind      uint32
	off, size uint64
	body      []byte
	placed    bool // off and size as they are
}

func newMade() *made { return &made{strtab: []byte{0}, symtab: make([]byte, 24)} }

// function adds a kernel in a section of its own and returns its symbol's index.
func (m *made) function(name string, section uint16, value, size uint64) uint64 {
	at := uint32(len(m.strtab))
	m.strtab = append(append(m.strtab, name...), 0)
	return m.symbol(at, section, value, size)
}

func (m *made) symbol(name uint32, section uint16, value, size uint64) uint64 {
	b := binary.LittleEndian.AppendUint32(nil, name)
	b = append(b, 0x12, 0x10)
	b = binary.LittleEndian.AppendUint16(b, section)
	b = binary.LittleEndian.AppendUint64(b, value)
	m.symtab = append(m.symtab, binary.LittleEndian.AppendUint64(b, size)...)
	return uint64(len(m.symtab)/24) - 1
}

func (m *made) section(name string, body []byte) {
	m.sections = append(m.sections, madeSection{name: name, kind: 1, body: body})
}

// line adds a line table with one unit: a program that begins at a kernel.
func (m *made) line(symbol uint64, program ...byte) {
	header := []byte{1, 1, 0xfb, 14, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 'a', '.', 'c', 'u', 0, 0, 0, 0, 0}
	b := binary.LittleEndian.AppendUint32(nil, uint32(6+len(header)+11+len(program)))
	b = binary.LittleEndian.AppendUint16(b, 2)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(header)))
	b = append(append(b, header...), 0, 9, 2)
	at := uint64(len(b))
	b = append(append(b, 0, 0, 0, 0, 0, 0, 0, 0), program...)
	m.section(".debug_line", b)
	rel := binary.LittleEndian.AppendUint64(nil, at)
	m.section(".rel.debug_line", binary.LittleEndian.AppendUint64(rel, symbol<<32|2))
}

// bytes puts the file together.
func (m *made) bytes() []byte {
	all := append([]madeSection{{}, {name: ".symtab", kind: 2, body: m.symtab}, {name: ".strtab", kind: 3, body: m.strtab}}, m.sections...)
	names := []byte{0}
	var at []int
	for _, s := range append(all, madeSection{name: ".shstrtab"}) {
		at = append(at, len(names))
		names = append(append(names, s.name...), 0)
	}
	all = append(all, madeSection{name: ".shstrtab", kind: 3, body: names})
	b := make([]byte, 64)
	copy(b, "\x7fELF\x02\x01\x01\x41\x08")
	for i := range all {
		if !all[i].placed {
			all[i].off, all[i].size = uint64(len(b)), uint64(len(all[i].body))
		}
		b = append(b, all[i].body...)
	}
	le := binary.LittleEndian
	le.PutUint16(b[16:], 2)
	le.PutUint16(b[18:], 190)
	le.PutUint64(b[40:], uint64(len(b)))
	le.PutUint32(b[48:], 90<<8)
	le.PutUint16(b[58:], 64)
	le.PutUint16(b[60:], uint16(len(all)))
	le.PutUint16(b[62:], uint16(len(all)-1))
	for i, s := range all {
		h := make([]byte, 64)
		le.PutUint32(h, uint32(at[i]))
		le.PutUint32(h[4:], s.kind)
		le.PutUint64(h[24:], s.off)
		le.PutUint64(h[32:], s.size)
		b = append(b, h...)
	}
	return b
}

func uleb(v uint64) []byte { return binary.AppendUvarint(nil, v) }

// inlined is op 0x90: what follows is inlined into a row.
func inlined(context uint64) []byte {
	body := append(append([]byte{0x90}, uleb(context)...), 0)
	return append([]byte{0, byte(len(body))}, body...)
}

func join(parts ...[]byte) (out []byte) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

var end = []byte{2, 16, 0, 1, 1} // 16 bytes on, end_sequence

// A cubin put together by hand is read, so that what follows tests what it says.
func TestMadeCubin(t *testing.T) {
	m := newMade()
	m.line(m.function("k", 5, 0, 64), join([]byte{3, 6, 1, 2, 16, 3, 1, 1}, inlined(1), []byte{2, 16, 1}, end)...)
	m.section(".debug_str", []byte("callee\x00"))
	c, err := symbol.Read(m.bytes())
	if err != nil || c.SM != 90 || !c.HasLines {
		t.Fatal(c, err)
	}
	got, status := c.Lookup("k", 0x24)
	if status != symbol.OK || len(got) != 2 || got[0] != (symbol.Frame{Function: "callee", File: "a.cu", Line: 8}) ||
		got[1] != (symbol.Frame{Function: "k", File: "a.cu", Line: 7}) {
		t.Errorf("%v, %v", got, status)
	}
	if _, status := c.Lookup("k", 0x30); status != symbol.NoLineInfo {
		t.Error("behind the end of the sequence:", status)
	}
}

// Contexts in a circle, or that name rows which are not there, leave the innermost frame.
func TestContextsInACircle(t *testing.T) {
	for _, context := range []uint64{1, 2, 3, 1 << 31, 1<<32 + 1, 1 << 62} {
		m := newMade()
		m.line(m.function("k", 5, 0, 64), join(inlined(2), []byte{1, 2, 16}, inlined(context), []byte{3, 4, 1}, end)...)
		m.section(".debug_str", []byte("callee\x00"))
		c, err := symbol.Read(m.bytes())
		if err != nil {
			t.Fatal(err)
		}
		got, status := c.Lookup("k", 16)
		if status != symbol.OK || len(got) != 1 || got[0].Line != 5 {
			t.Errorf("context %d: %v, %v", context, got, status)
		}
	}
}

// Each of these is corrupt, is said to be, and takes neither long nor much memory.
func TestHostileCubins(t *testing.T) {
	kernel := func(program ...byte) []byte {
		m := newMade()
		m.line(m.function("k", 5, 0, 64), program...)
		return m.bytes()
	}
	whole := load(t, "inline.sm_80.cubin")
	changed := func(at int, to ...byte) []byte {
		b := append([]byte(nil), whole...)
		copy(b[at:], to)
		return b
	}
	overlapping := newMade()
	overlapping.strtab = []byte(strings.Repeat("n", 30<<10) + "\x00")
	for i := range 20_000 {
		overlapping.symbol(uint32(i), 5, 0, 16)
	}
	endless := newMade()
	endless.strtab = []byte(strings.Repeat("n", 200<<10))
	endless.symbol(1, 5, 0, 16)
	beyond := newMade()
	beyond.sections = []madeSection{{name: ".debug_line", kind: 1, off: 10, size: 1 << 60, placed: true}}
	wrap := newMade()
	wrap.sections = []madeSection{{name: ".debug_str", kind: 1, off: 1<<64 - 8, size: 16, placed: true}}
	sym := newMade()
	sym.function("k", 5, 1<<63, 1<<63)
	for name, b := range map[string][]byte{
		"empty":                       nil,
		"cut in its header":           whole[:40],
		"cut before its sections":     whole[:len(whole)/2],
		"sections at 2^60":            changed(40, 0, 0, 0, 0, 0, 0, 0, 16),
		"65535 sections":              changed(60, 0xff, 0xff),
		"names in no section":         changed(62, 0xf0, 0xf0),
		"another machine":             changed(18, 62, 0),
		"a section beyond the file":   beyond.bytes(),
		"a section that wraps":        wrap.bytes(),
		"a function at 2^63":          sym.bytes(),
		"names that overlap":          overlapping.bytes(),
		"a name without an end":       endless.bytes(),
		"a program that runs to 2^60": kernel(join([]byte{1, 2}, uleb(1<<60), []byte{1}, end)...),
		"a program of small steps":    kernel(join(bytesOf(1<<12, []byte{2}, uleb(1<<28), []byte{1}), end)...),
		"an operand without an end":   kernel(2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1),
		"an instruction cut short":    kernel(1, 3),
		"an instruction too long":     kernel(0, 0xff, 0xff, 3, 0x90),
		"an address of 3 bytes":       kernel(0, 4, 2, 1, 2, 3),
		"an inlined call without end": kernel(0, 2, 0x90, 0x80),
	} {
		within(t, name, 64<<20, func() {
			c, err := symbol.Read(b)
			var bad *symbol.CorruptError
			if !errors.As(err, &bad) || c != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

func bytesOf(n int, parts ...[]byte) (out []byte) {
	one := join(parts...)
	for range n {
		out = append(out, one...)
	}
	return out
}

// A megabyte of whatever needs the most memory that a megabyte can: a row a byte, a state every five, a function every 24, sequences of
// one row. Reading it and going through all ranges that are asked for stays below 64 MiB and a second.
func TestMemoryOfAMegabyte(t *testing.T) {
	kernel := func(program []byte) []byte {
		m := newMade()
		m.line(m.function("k", 5, 0, 1<<30), append(program[:min(len(program), 1<<20-2048)], 0, 1, 1)...)
		m.section(".debug_str", []byte("callee\x00"))
		return m.bytes()
	}
	many := newMade()
	for i := range 40_000 {
		many.symbol(uint32(i%1000), 5, uint64(i), 1<<20)
	}
	many.strtab = append([]byte(strings.Repeat("ab", 500)), 0)
	for name, b := range map[string][]byte{
		"rows":      kernel(bytesOf(1<<20, []byte{255})),
		"states":    kernel(bytesOf(1<<18, inlined(1), []byte{253})),
		"sequences": kernel(bytesOf(1<<18, []byte{255, 0, 1, 1})),
		"functions": many.bytes()[:],
	} {
		within(t, name, 64<<20, func() {
			c, err := symbol.Read(b)
			if err != nil {
				t.Log(name, err)
				return
			}
			n := 0
			for i := range c.Functions {
				for range c.Functions[i].Ranges() {
					if n++; n == 1<<20 {
						return
					}
				}
			}
		})
	}
}

// within fails when f allocates more than that, or takes over two seconds of CPU.
func within(t *testing.T, name string, most uint64, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := used(t)
	f()
	took := used(t) - began
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > most || took > slower*2*time.Second {
		t.Errorf("%s: %d MiB were allocated in %v", name, got>>20, took)
	} else {
		t.Logf("%s: %d KiB in %v", name, got>>10, took)
	}
}

// used is the CPU time that the process has had: what else the machine does is not in it.
func used(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// FuzzCubin reads anything.
func FuzzCubin(f *testing.F) {
	for _, name := range []string{"inline.sm_80.cubin", "inline.sm_90.cubin", "toy.sm_75.cubin"} {
		for _, form := range forms(name) {
			f.Add(load(f, form))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		symbol.IsCubin(b)
		symbol.BuildID(b)
		c, err := symbol.Read(b)
		var bad *symbol.CorruptError
		if err != nil {
			if !errors.As(err, &bad) || c != nil {
				t.Fatal(err)
			}
			return
		}
		use(t, c)
	})
}

// FuzzLineProgram runs any line program of two kernels.
func FuzzLineProgram(f *testing.F) {
	f.Add(join([]byte{3, 6, 1, 2, 16, 3, 1, 1}, inlined(1), []byte{2, 16, 1}, end), uint32(64))
	f.Add(join(inlined(2), []byte{1, 2, 16}, inlined(1), []byte{3, 4, 1}, end, end), uint32(0))
	f.Fuzz(func(t *testing.T, program []byte, size uint32) {
		m := newMade()
		m.function("other", 5, 32, 16)
		m.line(m.function("k", 5, 0, uint64(size)), program...)
		m.section(".debug_str", []byte("callee\x00another\x00"))
		if c, err := symbol.Read(m.bytes()); err == nil {
			use(t, c)
		}
	})
}

// use asks a cubin for all that it has and checks what must be so, whatever it was read from.
func use(t *testing.T, c *symbol.Cubin) {
	n := 0
	for i := range c.Functions {
		f := &c.Functions[i]
		last := uint64(0)
		for r := range f.Ranges() {
			if r.From < last || r.To <= r.From || len(r.Frames) == 0 || len(r.Frames) > 64 {
				t.Fatalf("%q: range %d to %d after %d, %d frames", f.Name, r.From, r.To, last, len(r.Frames))
			}
			last = r.To
			if frames, status := c.Lookup(f.Name, r.From); status != symbol.OK || len(frames) != len(r.Frames) || frames[0] != r.Frames[0] {
				t.Fatalf("%q+%d: %v, %v; the range has %v", f.Name, r.From, frames, status, r.Frames)
			}
			if n++; n > 10_000 {
				return
			}
		}
		c.Lookup(f.Name, f.SizeBytes)
	}
}

func BenchmarkLookup(b *testing.B) {
	c := read(b, "pc_sample_toy.sm_121.cubin")
	var frames []symbol.Frame
	pc := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		frames, _ = c.AppendFrames(frames[:0], "_Z10hash_churnPjiy", pc)
		pc = (pc + 16) & 0x3ff
	}
}

func BenchmarkLookupInlined(b *testing.B) {
	c := read(b, "inline.sm_90.cubin")
	var frames []symbol.Frame
	pc := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		frames, _ = c.AppendFrames(frames[:0], "long_loop", pc)
		pc = (pc + 16) & 0xfff
	}
}

func BenchmarkRead40kB(b *testing.B) {
	elf := load(b, "pc_sample_toy.sm_121.cubin")
	b.SetBytes(int64(len(elf)))
	b.ReportAllocs()
	for b.Loop() {
		c, err := symbol.Read(elf)
		if err != nil {
			b.Fatal(err)
		}
		for i := range c.Functions {
			for range c.Functions[i].Ranges() {
			}
		}
	}
}
