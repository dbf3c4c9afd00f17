package parca

import (
	"encoding/binary"
	"strconv"

	"github.com/zeebo/xxh3"
)

// maxFrameText bounds the text of one frame of a launch stack, maxStackText those of a whole stack.
const (
	maxFrameText = 1 << 10
	maxStackText = 128 << 10
)

// launch is a launch stack: the frames behind the kernel's. The first of a batch is empty.
type launch struct {
	hash     xxh3.Uint128
	from, to uint32 // Batch.frames
}

// launchOf returns the launch stack of a stack.
func (b *Batch) launchOf(st *stack) (uint32, error) {
	if st.known {
		return st.launch, nil
	}
	st.known = true
	if st.to-st.from < 2 {
		return 0, nil
	}
	locs := b.held2[st.from+1 : st.to]
	keys := b.scratch[:0]
	for _, at := range locs {
		l := &b.locs[at]
		if !l.rendered {
			if err := b.render(l); err != nil {
				return 0, err
			}
		}
		keys = binary.LittleEndian.AppendUint64(keys, l.hash.Hi)
		keys = binary.LittleEndian.AppendUint64(keys, l.hash.Lo)
	}
	b.scratch = keys
	h := xxh3.Hash128(keys)
	if n, ok := b.launchN[h]; ok {
		st.launch = n
		return n, nil
	}
	var err error
	if b.launches, err = grown(&b.m, b.launches, 1, 24+64); err != nil {
		return 0, err
	}
	la := launch{hash: h, from: uint32(len(b.frames))}
	size := 0
frames:
	for _, at := range locs {
		l := &b.locs[at]
		n := max(1, l.to-l.from)
		if b.frames, err = grown(&b.m, b.frames, int(n), 4); err != nil {
			return 0, err
		}
		for _, t := range b.rendered[l.texts : l.texts+n] {
			if size += len(b.texts.all[t]); size > maxStackText || len(b.frames)-int(la.from) >= maxFrames {
				break frames
			}
			b.frames = append(b.frames, t)
		}
	}
	la.to = uint32(len(b.frames))
	st.launch = uint32(len(b.launches))
	b.launches = append(b.launches, la)
	b.launchN[h] = st.launch
	return st.launch, nil
}

// render writes the frames of a location as readable texts and hashes them.
func (b *Batch) render(l *location) error {
	var err error
	if b.rendered, err = grown(&b.m, b.rendered, int(max(1, l.to-l.from)), 4); err != nil {
		return err
	}
	l.texts = uint32(len(b.rendered))
	if l.from == l.to {
		if err := b.renderText(b.appendAddress(nil, l)); err != nil {
			return err
		}
	}
	for i := l.from; i < l.to; i++ {
		if err := b.renderText(b.appendLine(nil, l, &b.lines[i])); err != nil {
			return err
		}
	}
	var h xxh3.Hasher
	for _, t := range b.rendered[l.texts:] {
		s := b.texts.all[t]
		h.WriteString(s)
		h.Write([]byte{0, byte(len(s)), byte(len(s) >> 8)})
	}
	l.hash, l.rendered = h.Sum128(), true
	return nil
}

func (b *Batch) renderText(s []byte) error {
	if err := b.m.take(len(s)); err != nil {
		return err
	}
	id, err := b.texts.id(cut(string(s), maxFrameText))
	b.rendered = append(b.rendered, id)
	return err
}

// appendLine writes `file:line function`, as the inline chains of cubins have it, or what is known of it.
func (b *Batch) appendLine(dst []byte, l *location, ln *line) []byte {
	if ln.function == 0 {
		return b.appendAddress(dst, l)
	}
	function, file := b.texts.all[ln.function], b.texts.all[ln.file]
	switch {
	case file == "" || file == "UNKNOWN":
		return append(dst, function...)
	case ln.line == 0:
		return append(append(append(append(dst, function...), " ("...), file...), ')')
	}
	dst = strconv.AppendUint(append(append(dst, file...), ':'), ln.line, 10)
	return append(append(dst, ' '), function...)
}

// appendAddress writes `file+0xaddress [build id]`, without what is not known.
func (b *Batch) appendAddress(dst []byte, l *location) []byte {
	if file := b.texts.all[l.mapping]; file != "" && file != "UNKNOWN" {
		dst = append(append(dst, file...), '+')
	}
	dst = strconv.AppendUint(append(dst, "0x"...), l.address, 16)
	if build := b.texts.all[l.build]; build != "" {
		dst = append(append(append(dst, " ["...), build...), ']')
	}
	return dst
}
