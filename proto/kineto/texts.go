package kineto

import "encoding/binary"

// Bounds of the texts of a trace that are told apart. Later ones travel with each event, and count as one name in sums.
const (
	maxTextBytes = 8 << 20
	// MaxNameBytes is where a longer name is cut.
	MaxNameBytes = 32 << 10
)

// texts numbers the texts of a trace, and says which the open part has already.
type texts struct {
	index   map[string]int32 // in entries
	entries []textEntry
	bytes   int
	part    uint32 // number of the open part
	known   uint32 // texts that it has, beside ''
}

type textEntry struct {
	part, local uint32 // where it was last, and under which index
	kernel      bool   // a kernel was called so
}

// find returns the entry of a text, nil when there is no room for it, and its number from 1 on.
func (t *texts) find(text []byte) (*textEntry, uint32) {
	i, ok := t.index[string(text)]
	if !ok {
		if len(t.entries) == MaxNames || t.bytes+len(text) > maxTextBytes {
			return nil, 0
		}
		i = int32(len(t.entries))
		t.bytes += len(text)
		t.index[string(text)] = i
		t.entries = append(t.entries, textEntry{})
	}
	return &t.entries[i], uint32(i) + 1
}

// refer appends a reference to a text: its index in the part, and the text itself where it is new to it.
func (t *texts) refer(dst, text []byte) (_ []byte, entry *textEntry, number uint32) {
	if len(text) == 0 {
		return append(dst, 0), nil, 0
	}
	entry, number = t.find(text)
	if entry != nil && entry.part == t.part {
		return binary.AppendUvarint(dst, uint64(entry.local)), entry, number
	}
	t.known++
	if entry != nil {
		entry.part, entry.local = t.part, t.known
	}
	dst = binary.AppendUvarint(dst, uint64(t.known))
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...), entry, number
}

// next begins a part.
func (t *texts) next() {
	t.part++
	t.known = 0
}
