package parca

import (
	"strings"
	"unicode/utf8"

	"github.com/zeebo/xxh3"
)

// texts gives every distinct text of an upload a number. 0 is "". The bytes are those of the upload where they can be.
type texts struct {
	m     *uploadMemory
	all   []string
	slots []uint32 // open addressing, 0 is free
}

func (t *texts) reset(m *uploadMemory) {
	t.m = m
	clear(t.all)
	t.all = append(t.all[:0], "")
	if len(t.slots) > 1<<16 || len(t.slots) == 0 {
		t.slots = make([]uint32, 1<<10)
	}
	clear(t.slots)
}

// id returns the number of a text. What is too long is cut, and what is no UTF-8 replaced.
func (t *texts) id(b string) (uint32, error) {
	if b == "" {
		return 0, nil
	}
	if len(b) > maxText {
		b = cut(b, maxText)
	}
	if !utf8.ValidString(b) {
		b = strings.ToValidUTF8(b, "\uFFFD")
		if err := t.m.take(len(b)); err != nil {
			return 0, err
		}
	}
	if 2*len(t.all) >= len(t.slots) {
		if err := t.rehash(); err != nil {
			return 0, err
		}
	}
	mask := uint64(len(t.slots) - 1)
	for at := xxh3.HashString(b) & mask; ; at = (at + 1) & mask {
		id := t.slots[at]
		if id == 0 {
			var err error
			if t.all, err = grown(t.m, t.all, 1, 16); err != nil {
				return 0, err
			}
			t.slots[at] = uint32(len(t.all))
			t.all = append(t.all, b)
			return t.slots[at], nil
		}
		if t.all[id] == b {
			return id, nil
		}
	}
}

func (t *texts) rehash() error {
	if err := t.m.take(8 * len(t.slots)); err != nil {
		return err
	}
	t.slots = make([]uint32, 2*len(t.slots))
	mask := uint64(len(t.slots) - 1)
	for id := 1; id < len(t.all); id++ {
		at := xxh3.HashString(t.all[id]) & mask
		for t.slots[at] != 0 {
			at = (at + 1) & mask
		}
		t.slots[at] = uint32(id)
	}
	return nil
}

// cut shortens a text to at most n bytes, at a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := 0; i < utf8.UTFMax && n > 0 && !utf8.RuneStart(s[n]); i++ {
		n--
	}
	return s[:n]
}
