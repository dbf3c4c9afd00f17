package gpuflight

import (
	"bytes"

	"github.com/warpline/warpline/proto/jsonscan"
)

// maxColumns bounds the columns of a batch; the widest the client writes has 18.
const maxColumns = 256

// maxPlanText is the longest column list that is remembered. The client's longest has 220 bytes.
const maxPlanText = 4 << 10

// plan says where the cells of a wire row go. It is kept per type, because a client repeats the same column list in every batch.
type plan struct {
	raw       []byte // the JSON text of the column list; nil: no plan yet
	cells     []cell // one a wire column
	absent    []int  // places of known columns the wire lacks
	stride    int
	unknown   int
	present   uint32
	timeCol   int
	batchType Type
	fast      bool // integers only: the fast path may try
}

// cell is one wire column. A cell of an unknown column is written behind its row, where the next row overwrites it.
type cell struct {
	lo, span uint64
	pos      int
	kind     ColumnKind
	known    bool
}

// matches reports whether the column list at b[i:] is the one the plan was made for.
func (p *plan) matches(b []byte, i int) bool {
	return p.raw != nil && bytes.HasPrefix(b[i:], p.raw)
}

// build makes the plan for the column list at b[i:], and returns where the list ends. ok is false for bad syntax, a non-nil error
// means that rows of this list cannot be read.
func (p *plan) build(t Type, b []byte, i int) (end int, ok bool, lineErr *LineError) {
	start := i
	p.raw = nil
	if end, ok = skipValue(b, i); !ok {
		return end, false, nil
	}
	if b[i] != '[' {
		return end, true, &LineError{ReasonBadValue, "columns is not an array"}
	}
	schema := schemas[t]
	*p = plan{cells: p.cells[:0], absent: p.absent[:0], batchType: t, stride: len(schema), fast: true}
	var buf [64]byte
	for i = jsonscan.Space(b, i+1); b[i] != ']'; {
		if b[i] != '"' {
			return end, true, &LineError{ReasonBadValue, "a column name is not a string"}
		}
		if len(p.cells) == maxColumns {
			return end, true, &LineError{ReasonBadValue, "more than 256 columns"}
		}
		e, escaped, _ := jsonscan.String(b, i)
		name := b[i+1 : e-1]
		if escaped {
			name = appendUnquoted(buf[:0], name)
		}
		c := cell{pos: len(schema), span: 1<<64 - 1, lo: 1 << 63}
		for j := range schema {
			if schema[j].name != string(name) {
				continue
			}
			if p.present&(1<<j) != 0 {
				return end, true, &LineError{ReasonBadValue, "column " + schema[j].name + " stands twice"}
			}
			p.present |= 1 << j
			c.pos, c.kind, c.known = j, schema[j].kind, true
			c.lo, c.span = c.kind.limits()
			p.fast = p.fast && c.kind != KindF64
		}
		if !c.known {
			p.unknown++
		}
		p.cells = append(p.cells, c)
		i = jsonscan.Space(b, e)
		if b[i] == ',' {
			i = jsonscan.Space(b, i+1)
		}
	}
	for j := range schema {
		if schema[j].name == "dt_ns" {
			p.timeCol = j
		}
		if p.present&(1<<j) != 0 {
			continue
		}
		if !schema[j].optional {
			return end, true, &LineError{ReasonMissingColumn, schema[j].name}
		}
		p.absent = append(p.absent, j)
	}
	if end-start <= maxPlanText {
		p.raw = append([]byte(nil), b[start:end]...)
	}
	return end, true, nil
}
