package telemetry

import (
	"bytes"
	"slices"
	"sync"

	"github.com/warpline/warpline/proto/jsonscan"
)

// AppendCanonical appends the canonical spelling of a JSON text: no space, keys in the order of their code points, of a repeated key
// the last value, strings as AppendString spells them, numbers as they are. Texts that the peer reads as equal, numbers spelled alike,
// become the same bytes. The refusal is of code BadJSON, BadUTF8, TooDeep or IntegerTooLong. Safe for concurrent use.
func AppendCanonical(dst, text []byte) ([]byte, *Refusal) {
	t, ok := scanValue(text, jsonscan.Space(text, 0))
	if !ok || jsonscan.Space(text, int(t.end)) != len(text) || firstBad(text) != len(text) {
		return dst, new(Validator).diagnose(text)
	}
	return appendSpelled(dst, text, t), nil
}

// appendScanned is AppendCanonical of an object that has been scanned and is UTF-8.
func appendScanned(dst, text []byte) []byte {
	return appendSpelled(dst, text, token{start: int32(jsonscan.Space(text, 0)), end: int32(len(text)), kind: kObject})
}

func appendSpelled(dst, text []byte, t token) []byte {
	c := canons.Get().(*canon)
	c.open(text)
	dst = c.value(dst, t, 0)
	c.text = nil
	canons.Put(c)
	return dst
}

var canons = sync.Pool{New: func() any { return new(canon) }}

// canon takes the objects of a scanned text apart and writes them in order, in time linear in the text except for the sorting.
type canon struct {
	text    []byte
	extents []extent
	entries []entry
	keys    []byte // decoded keys
	stack   []int32
}

// extent is where an object or array ends. They are numbered by where they begin; next is the number of the first that begins after it.
type extent struct{ end, next int32 }

// entry is a member of an object. A key that was decoded stands in keys.
type entry struct {
	key     [2]int32
	decoded bool
	number  int32 // of the first extent at or after the value
	value   token
}

// open readies c for text, which has been scanned.
func (c *canon) open(text []byte) {
	if cap(c.entries) > 4096 || cap(c.keys) > 1<<16 || cap(c.extents) > 4096 {
		*c = canon{} // one hostile record must not be remembered in memory
	}
	c.text, c.extents, c.stack, c.entries, c.keys = text, c.extents[:0], c.stack[:0], c.entries[:0], c.keys[:0]
	for i := 0; i < len(text); {
		switch text[i] {
		case '"':
			i, _, _ = jsonscan.String(text, i)
			continue
		case '{', '[':
			c.stack = append(c.stack, int32(len(c.extents)))
			c.extents = append(c.extents, extent{})
		case '}', ']':
			top := len(c.stack) - 1
			c.extents[c.stack[top]] = extent{int32(i + 1), int32(len(c.extents))}
			c.stack = c.stack[:top]
		}
		i++
	}
}

func (c *canon) clear() { c.entries, c.keys = c.entries[:0], c.keys[:0] }

// numberAt finds the number of the extent of t, a value of the outermost object, by passing what begins before it.
func (c *canon) numberAt(t token) int32 {
	number := int32(1)
	for i := 1; i < int(t.start); i++ {
		switch c.text[i] {
		case '"':
			end, _, _ := jsonscan.String(c.text, i)
			i = end - 1
		case '{', '[':
			i = int(c.extents[number].end) - 1
			number = c.extents[number].next
		}
	}
	return number
}

// scan passes the value at i, number being that of the first extent from there on, and returns the number after it.
func (c *canon) scan(i int, number int32) (token, int32) {
	switch c.text[i] {
	case '{':
		return token{start: int32(i), end: c.extents[number].end, kind: kObject}, c.extents[number].next
	case '[':
		return token{start: int32(i), end: c.extents[number].end, kind: kArray}, c.extents[number].next
	}
	t, _ := scanValue(c.text, i)
	return t, number
}

// object adds the members of the object at i whose extent is number. With a prefix it adds only those whose key begins so, and takes the
// prefix off.
func (c *canon) object(i int, number int32, prefix []byte) {
	number++
	for i = jsonscan.Space(c.text, i+1); c.text[i] == '"'; {
		end, escaped, _ := jsonscan.String(c.text, i)
		e := entry{key: [2]int32{int32(i + 1), int32(end - 1)}, decoded: escaped, number: number}
		if escaped {
			start := len(c.keys)
			c.keys = appendDecoded(c.keys, c.text[i+1:end-1])
			e.key = [2]int32{int32(start), int32(len(c.keys))}
		}
		e.value, number = c.scan(jsonscan.Space(c.text, jsonscan.Space(c.text, end)+1), number)
		if prefix == nil {
			c.entries = append(c.entries, e)
		} else if bytes.HasPrefix(c.key(e), prefix) {
			e.key[0] += int32(len(prefix))
			c.entries = append(c.entries, e)
		}
		i = jsonscan.Space(c.text, int(e.value.end))
		if c.text[i] == ',' {
			i = jsonscan.Space(c.text, i+1)
		}
	}
}

func (c *canon) key(e entry) []byte {
	if e.decoded {
		return c.keys[e.key[0]:e.key[1]]
	}
	return c.text[e.key[0]:e.key[1]]
}

// settle puts the entries from base on in order and leaves the last of each key.
func (c *canon) settle(base int) {
	e := c.entries[base:]
	order := func(a, b entry) int { return bytes.Compare(c.key(a), c.key(b)) }
	if !slices.IsSortedFunc(e, order) {
		slices.SortStableFunc(e, order)
	}
	n := 0
	for i := range e {
		if i+1 < len(e) && bytes.Equal(c.key(e[i]), c.key(e[i+1])) {
			continue
		}
		e[n] = e[i]
		n++
	}
	c.entries = c.entries[:base+n]
}

// find returns the value of a settled key, kAbsent if there is none.
func (c *canon) find(key string) token {
	i, ok := slices.BinarySearchFunc(c.entries, key, func(e entry, key string) int {
		switch k := c.key(e); {
		case string(k) < key:
			return -1
		case string(k) > key:
			return 1
		}
		return 0
	})
	if !ok {
		return token{}
	}
	return c.entries[i].value
}

// write writes the settled entries from base on as one object, except those whose key drop wants dropped.
func (c *canon) write(dst []byte, base int, drop func(key []byte) bool) []byte {
	dst = append(dst, '{')
	first := true
	for i, n := base, len(c.entries); i < n; i++ {
		e := c.entries[i] // a copy: what is below may move the entries
		if drop != nil && drop(c.key(e)) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(AppendString(dst, c.key(e)), ':')
		dst = c.value(dst, e.value, e.number)
	}
	return append(dst, '}')
}

// value writes t, number being that of the first extent at or behind it.
func (c *canon) value(dst []byte, t token, number int32) []byte {
	switch {
	case t.kind == kString && t.escaped:
		start := len(c.keys)
		c.keys = appendDecoded(c.keys, c.text[t.start+1:t.end-1])
		dst = AppendString(dst, c.keys[start:])
		c.keys = c.keys[:start]
		return dst
	case t.kind == kObject:
		base, keys := len(c.entries), len(c.keys)
		c.object(int(t.start), number, nil)
		c.settle(base)
		dst = c.write(dst, base, nil)
		c.entries, c.keys = c.entries[:base], c.keys[:keys]
		return dst
	case t.kind == kArray:
		dst = append(dst, '[')
		number++
		for i := jsonscan.Space(c.text, int(t.start)+1); c.text[i] != ']'; {
			e, next := c.scan(i, number)
			dst = c.value(dst, e, number)
			number = next
			i = jsonscan.Space(c.text, int(e.end))
			if c.text[i] == ',' {
				dst = append(dst, ',')
				i = jsonscan.Space(c.text, i+1)
			}
		}
		return append(dst, ']')
	}
	return append(dst, c.text[t.start:t.end]...) // a string without a backslash is spelled as it must be
}
