package parca

import (
	"strings"

	"github.com/warpline/warpline/sink/table"
)

// partTexts is what the texts of one part have become so far, by their indexes in it: so that a row costs neither a look-up by text nor an
// allocation.
type partTexts struct {
	kernels []uint32 // ids, 0: none yet
	stalls  []uint8  // stallUnknown, stallYes or stallNo
	written []bool   // stacks of the part whose frames were looked at
}

const (
	stallUnknown uint8 = iota
	stallYes
	stallNo
)

func (t *partTexts) begin(texts, stacks int) {
	t.kernels = zeroed(t.kernels, texts)
	t.stalls = zeroed(t.stalls, texts)
	t.written = zeroed(t.written, stacks)
}

// zeroed returns n zero values, in the memory of s when there is room.
func zeroed[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}

// Prefix and suffix of stall reasons on the wire.
const (
	stallPrefix = "smsp__pcsamp_warps_issue_stalled_"
	notIssued   = "_not_issued"
)

// isStall reports whether samples of a reason count in totals.
func isStall(reason string) bool {
	return strings.HasPrefix(reason, stallPrefix) && !strings.HasSuffix(reason, notIssued)
}

// stall is isStall of a text of the part.
func (t *partTexts) stall(texts []string, i uint32) bool {
	if t.stalls[i] == stallUnknown {
		t.stalls[i] = stallNo
		if isStall(texts[i]) {
			t.stalls[i] = stallYes
		}
	}
	return t.stalls[i] == stallYes
}

// columnTexts is the indexes that texts of one part have in a column of a batch.
type columnTexts struct{ of []int32 }

func (c *columnTexts) begin(n int) {
	c.of = zeroed(c.of, n)
}

// index returns the index of a text of the part.
func (c *columnTexts) index(col table.DictCol, b *table.Batch, texts []string, i uint32) int32 {
	if at := c.of[i]; at != 0 {
		return at - 1
	}
	at := col.Index(b, texts[i])
	c.of[i] = at + 1
	return at
}
