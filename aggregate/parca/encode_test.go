package parca

import (
	"github.com/warpline/warpline/proto/parca"
)

// encoded is the body of a part.
func encoded(in *parca.Part) []byte {
	return parca.AppendPart(nil, in)
}

// builder makes a part.
type builder struct {
	parca.Part
	texts  map[string]uint32
	stacks map[string]uint32
}

func newBuilder(node, pid, comm string, labels ...parca.Label) *builder {
	return &builder{Part: parca.Part{Process: parca.Process{Node: node, PID: pid, Comm: comm, Labels: labels}, Strings: []string{""},
		Stacks: make([]parca.Stack, 1)}, texts: map[string]uint32{"": 0}, stacks: map[string]uint32{}}
}

func (b *builder) text(s string) uint32 {
	i, ok := b.texts[s]
	if !ok {
		i = uint32(len(b.Strings))
		b.texts[s], b.Strings = i, append(b.Strings, s)
	}
	return i
}

// stack has a number in place of a hash.
func (b *builder) stack(hash uint64, frames ...string) uint32 {
	if hash == 0 {
		return 0
	}
	key := string(rune(hash))
	i, ok := b.stacks[key]
	if !ok {
		i = uint32(len(b.Stacks))
		b.stacks[key], b.Stacks = i, append(b.Stacks, parca.Stack{Hi: hash, Lo: hash * 7, Frames: frames})
	}
	return i
}

func (b *builder) pc(at int64, function string, offset uint64, reason string, samples, period uint64, stack uint32) *builder {
	b.PC = append(b.PC, parca.PCRow{At: at, Samples: samples, PeriodNS: period, Offset: offset, Function: b.text(function),
		Cubin: b.text("cubin-00000000a11ce121"), BuildID: b.text("f997"), Reason: b.text(reason), SASS: b.text("IMAD"), Stack: stack,
		Device: -1})
	return b
}

func (b *builder) kernel(at int64, function string, ns uint64, stack uint32) *builder {
	b.Kernels = append(b.Kernels, parca.KernelRow{At: at, DurationNS: ns, StreamID: 7, Function: b.text(function), Stack: stack, Device: 0})
	return b
}

func (b *builder) refuse(reason, kind string, rows uint64) *builder {
	b.Refused = append(b.Refused, parca.Refused{Reason: reason, Detail: "why", Type: kind, Minute: noon, Rows: rows})
	return b
}
