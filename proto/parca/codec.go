package parca

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync"
)

// partVersion is the first byte of a part's body.
const partVersion = 1

// frameTable gives the texts of frames their numbers while a part is written, or read.
type frameTable struct {
	all   []string
	index map[string]uint32
}

var frameTables = sync.Pool{New: func() any { return &frameTable{index: map[string]uint32{}} }}

func (t *frameTable) release() {
	if len(t.all) > 1<<14 {
		return
	}
	clear(t.all)
	clear(t.index)
	t.all = t.all[:0]
	frameTables.Put(t)
}

// AppendPart appends the body of a part to dst. Labels are written sorted. It does not change p beyond that order.
func AppendPart(dst []byte, p *Part) []byte {
	dst = append(dst, partVersion)
	dst = appendText(dst, p.Process.Node)
	dst = appendText(dst, p.Process.PID)
	dst = appendText(dst, p.Process.Comm)
	slices.SortFunc(p.Process.Labels, func(a, b Label) int {
		if n := strings.Compare(a.Name, b.Name); n != 0 {
			return n
		}
		return strings.Compare(a.Value, b.Value)
	})
	dst = binary.AppendUvarint(dst, uint64(len(p.Process.Labels)))
	for _, l := range p.Process.Labels {
		dst = appendText(appendText(dst, l.Name), l.Value)
	}
	texts := p.Strings[min(1, len(p.Strings)):]
	dst = binary.AppendUvarint(dst, uint64(len(texts)))
	for _, s := range texts {
		dst = appendText(dst, s)
	}
	dst = appendStacks(dst, p.Stacks[min(1, len(p.Stacks)):])
	dst = binary.AppendUvarint(dst, uint64(len(p.PC)))
	at := int64(0)
	for i := range p.PC {
		r := &p.PC[i]
		dst = binary.AppendVarint(dst, r.At-at)
		at = r.At
		dst = binary.AppendUvarint(dst, r.Samples)
		dst = binary.AppendUvarint(dst, r.PeriodNS)
		dst = binary.AppendUvarint(dst, r.Offset)
		dst = binary.AppendUvarint(dst, uint64(r.Function))
		dst = binary.AppendUvarint(dst, uint64(r.Cubin))
		dst = binary.AppendUvarint(dst, uint64(r.BuildID))
		dst = binary.AppendUvarint(dst, uint64(r.Reason))
		dst = binary.AppendUvarint(dst, uint64(r.SASS))
		dst = binary.AppendUvarint(dst, uint64(r.Stack))
		dst = binary.AppendVarint(dst, int64(r.Device))
	}
	dst = binary.AppendUvarint(dst, uint64(len(p.Kernels)))
	at = 0
	for i := range p.Kernels {
		r := &p.Kernels[i]
		dst = binary.AppendVarint(dst, r.At-at)
		at = r.At
		dst = binary.AppendUvarint(dst, r.DurationNS)
		dst = binary.AppendUvarint(dst, r.StreamID)
		dst = binary.AppendUvarint(dst, r.GraphID)
		dst = binary.AppendUvarint(dst, uint64(r.CorrID))
		dst = binary.AppendUvarint(dst, uint64(r.Function))
		dst = binary.AppendUvarint(dst, uint64(r.Stack))
		dst = binary.AppendVarint(dst, int64(r.Device))
	}
	dst = binary.AppendUvarint(dst, uint64(len(p.Refused)))
	for i := range p.Refused {
		r := &p.Refused[i]
		dst = appendText(appendText(appendText(dst, r.Reason), r.Detail), r.Type)
		dst = binary.AppendVarint(dst, r.Minute)
		dst = binary.AppendUvarint(dst, r.Rows)
	}
	return dst
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// appendStacks writes the distinct texts of frames once, then the stacks as their numbers.
func appendStacks(dst []byte, stacks []Stack) []byte {
	t := frameTables.Get().(*frameTable)
	defer t.release()
	for i := range stacks {
		for _, f := range stacks[i].Frames {
			if _, ok := t.index[f]; !ok {
				t.index[f] = uint32(len(t.all))
				t.all = append(t.all, f)
			}
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(t.all)))
	for _, f := range t.all {
		dst = appendText(dst, f)
	}
	dst = binary.AppendUvarint(dst, uint64(len(stacks)))
	for i := range stacks {
		dst = binary.LittleEndian.AppendUint64(dst, stacks[i].Hi)
		dst = binary.LittleEndian.AppendUint64(dst, stacks[i].Lo)
		dst = binary.AppendUvarint(dst, uint64(len(stacks[i].Frames)))
		for _, f := range stacks[i].Frames {
			dst = binary.AppendUvarint(dst, uint64(t.index[f]))
		}
	}
	return dst
}

// empty makes p a part without rows.
func (p *Part) empty() {
	labels := p.Process.Labels
	clear(labels)
	p.Process = Process{Labels: labels[:0]}
	clear(p.Strings)
	p.Strings = append(p.Strings[:0], "")
	p.Stacks = p.Stacks[:0]
	p.nextStack()
	p.PC, p.Kernels = p.PC[:0], p.Kernels[:0]
	clear(p.Refused)
	p.Refused = p.Refused[:0]
}

// nextStack adds an empty stack, whose frames may have room from before.
func (p *Part) nextStack() *Stack {
	if len(p.Stacks) < cap(p.Stacks) {
		p.Stacks = p.Stacks[:len(p.Stacks)+1]
	} else {
		p.Stacks = append(p.Stacks, Stack{})
	}
	s := &p.Stacks[len(p.Stacks)-1]
	clear(s.Frames)
	s.Hi, s.Lo, s.Frames = 0, 0, s.Frames[:0]
	return s
}

// partReader reads the body of a part.
type partReader struct {
	s   string
	at  int
	bad bool
}

func (r *partReader) uint() uint64 {
	if r.at < len(r.s) && r.s[r.at] < 0x80 {
		r.at++
		return uint64(r.s[r.at-1])
	}
	v, shift := uint64(0), 0
	for ; r.at < len(r.s) && shift < 70; shift += 7 {
		c := r.s[r.at]
		r.at++
		if shift == 63 && c > 1 {
			break
		}
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v
		}
	}
	r.bad = true
	return 0
}

func (r *partReader) int() int64 {
	v := r.uint()
	return int64(v>>1) ^ -int64(v&1)
}

func (r *partReader) text() string {
	n := r.uint()
	if n > uint64(len(r.s)-r.at) {
		r.bad = true
		return ""
	}
	r.at += int(n)
	return r.s[r.at-int(n) : r.at]
}

// count reads how many of something of at least size bytes follow.
func (r *partReader) count(size int) int {
	n := r.uint()
	if n > uint64((len(r.s)-r.at)/size) {
		r.bad = true
		return 0
	}
	return int(n)
}

// index reads a number below n.
func (r *partReader) index(n int) uint32 {
	v := r.uint()
	if v >= uint64(n) {
		r.bad = true
		return 0
	}
	return uint32(v)
}

func (r *partReader) device() int32 {
	v := r.int()
	r.bad = r.bad || v != int64(int32(v))
	return int32(v)
}

func (r *partReader) fixed() uint64 {
	if len(r.s)-r.at < 8 {
		r.bad = true
		return 0
	}
	v := uint64(0)
	for i := range 8 {
		v |= uint64(r.s[r.at+i]) << (8 * i)
	}
	r.at += 8
	return v
}

// Decode reads the body of a part into p, which is used again. Texts of p stay valid when body changes. A body that
// AppendPart did not write gives an *[Error], and p is empty then.
func (p *Part) Decode(body []byte) error {
	p.empty()
	if len(body) == 0 || body[0] != partVersion {
		return corrupt("it is no part of PC samples")
	}
	r := partReader{s: string(body), at: 1}
	p.decode(&r)
	if r.bad || r.at != len(r.s) {
		p.empty()
		return corrupt("a part of PC samples is torn at byte %d of %d", r.at, len(r.s))
	}
	return nil
}

func (p *Part) decode(r *partReader) {
	p.Process.Node, p.Process.PID, p.Process.Comm = r.text(), r.text(), r.text()
	n := r.count(2)
	p.Process.Labels = slices.Grow(p.Process.Labels, n)
	for range n {
		p.Process.Labels = append(p.Process.Labels, Label{r.text(), r.text()})
	}
	n = r.count(1)
	p.Strings = slices.Grow(p.Strings, n)
	for range n {
		p.Strings = append(p.Strings, r.text())
	}
	p.decodeStacks(r)
	texts, stacks := len(p.Strings), len(p.Stacks)
	n = r.count(11)
	p.PC = slices.Grow(p.PC, n)
	at := int64(0)
	for range n {
		at += r.int()
		p.PC = append(p.PC, PCRow{
			At: at, Samples: r.uint(), PeriodNS: r.uint(), Offset: r.uint(),
			Function: r.index(texts), Cubin: r.index(texts), BuildID: r.index(texts), Reason: r.index(texts), SASS: r.index(texts),
			Stack: r.index(stacks), Device: r.device(),
		})
	}
	n = r.count(8)
	p.Kernels = slices.Grow(p.Kernels, n)
	at = 0
	for range n {
		at += r.int()
		k := KernelRow{At: at, DurationNS: r.uint(), StreamID: r.uint(), GraphID: r.uint()}
		corr := r.uint()
		r.bad = r.bad || corr > 1<<32-1
		k.CorrID, k.Function, k.Stack, k.Device = uint32(corr), r.index(texts), r.index(stacks), r.device()
		p.Kernels = append(p.Kernels, k)
	}
	n = r.count(5)
	p.Refused = slices.Grow(p.Refused, n)
	for range n {
		p.Refused = append(p.Refused, Refused{Reason: r.text(), Detail: r.text(), Type: r.text(), Minute: r.int(), Rows: r.uint()})
	}
}

func (p *Part) decodeStacks(r *partReader) {
	t := frameTables.Get().(*frameTable)
	defer t.release()
	n := r.count(1)
	t.all = slices.Grow(t.all, n)
	for range n {
		t.all = append(t.all, r.text())
	}
	n = r.count(17)
	p.Stacks = slices.Grow(p.Stacks, n)
	for range n {
		if r.bad {
			return
		}
		s := p.nextStack()
		s.Hi, s.Lo = r.fixed(), r.fixed()
		frames := r.count(1)
		s.Frames = slices.Grow(s.Frames, frames)
		for range frames {
			if i := r.index(len(t.all)); !r.bad {
				s.Frames = append(s.Frames, t.all[i])
			}
		}
	}
}
