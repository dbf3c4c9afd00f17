package gpuflight

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// The wire says how deep a scope is, not in which scope or thread it is. Its parent is found by time: of the scopes one level up that
// enclose it, the one that began last (of several that began at once, the one with the higher instance id, then name id).

// maxPathDepth bounds how deep parents are looked for; a scope below it has none.
const maxPathDepth = 64

// scopeSpan is a scope as a parent is looked for. end is stillOpen while it is open.
type scopeSpan struct {
	begin, end int64
	key        scopeKey
	half       int32 // slot of an open scope
}

const stillOpen = math.MaxInt64

func (a *scopeSpan) compare(b *scopeSpan) int {
	if a.begin != b.begin { // nearly always
		if a.begin < b.begin {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.key.instance, b.key.instance), cmp.Compare(a.key.name, b.key.name), cmp.Compare(a.end, b.end))
}

// scopeLevel holds the scopes of one depth that may be parents, by their begin: the open ones, and those that ended a short while ago.
// The ended ones lie in blocks that know the latest end in them, so that thousands of short scopes of one thread are passed over in few
// steps on the way to the long one of another.
type scopeLevel struct {
	open   []scopeSpan
	blocks []*scopeBlock
}

type scopeBlock struct {
	spans []scopeSpan
	last  int64 // latest end
}

const spansPerBlock = 128

// insert puts an open span in its place.
func (l *scopeLevel) insert(s scopeSpan) {
	at := len(l.open)
	if at > 0 && l.open[at-1].compare(&s) > 0 {
		at = sort.Search(at, func(i int) bool { return l.open[i].compare(&s) > 0 })
	}
	l.open = slices.Insert(l.open, at, s)
}

// remove takes the open span of a slot out.
func (l *scopeLevel) remove(s scopeSpan) {
	at := len(l.open) - 1
	if at < 0 {
		return
	}
	if l.open[at].half != s.half { // the innermost ends first, nearly always
		at = sort.Search(len(l.open), func(i int) bool { return l.open[i].compare(&s) >= 0 })
		for at < len(l.open) && l.open[at].half != s.half {
			at++
		}
		if at == len(l.open) {
			return
		}
	}
	l.open = slices.Delete(l.open, at, at+1)
}

// block returns the index of the last block that begins at or before s, -1 if all begin later.
func (l *scopeLevel) block(s *scopeSpan) int {
	n := len(l.blocks)
	if n > 0 && l.blocks[n-1].spans[0].compare(s) <= 0 {
		return n - 1
	}
	return sort.Search(n, func(i int) bool { return l.blocks[i].spans[0].compare(s) > 0 }) - 1
}

// close adds a span that has ended.
func (l *scopeLevel) close(s scopeSpan) {
	i := max(l.block(&s), 0)
	if i == len(l.blocks) {
		l.blocks = append(l.blocks, &scopeBlock{last: math.MinInt64})
	}
	b := l.blocks[i]
	at := len(b.spans)
	if at > 0 && b.spans[at-1].compare(&s) > 0 {
		at = sort.Search(at, func(i int) bool { return b.spans[i].compare(&s) > 0 })
	}
	if len(b.spans) == spansPerBlock {
		next := &scopeBlock{last: math.MinInt64}
		if at < len(b.spans) || i < len(l.blocks)-1 { // in the middle: two halves; at the very end blocks stay full
			next.spans = append(make([]scopeSpan, 0, spansPerBlock), b.spans[spansPerBlock/2:]...)
			b.spans = b.spans[:spansPerBlock/2]
			b.measure()
			next.measure()
		}
		l.blocks = slices.Insert(l.blocks, i+1, next)
		if at > len(b.spans) || at == spansPerBlock {
			at -= len(b.spans)
			b = next
		}
	}
	b.spans = slices.Insert(b.spans, at, s)
	b.last = max(b.last, s.end)
}

// forget takes a span that has ended out.
func (l *scopeLevel) forget(s scopeSpan) {
	i := l.block(&s)
	if i < 0 {
		return
	}
	b := l.blocks[i]
	at := sort.Search(len(b.spans), func(i int) bool { return b.spans[i].compare(&s) >= 0 })
	if at == len(b.spans) || b.spans[at].compare(&s) != 0 {
		return
	}
	b.spans = slices.Delete(b.spans, at, at+1)
	if len(b.spans) == 0 {
		l.blocks = slices.Delete(l.blocks, i, i+1)
	} else if s.end == b.last {
		b.measure()
	}
}

func (b *scopeBlock) measure() {
	b.last = math.MinInt64
	for i := range b.spans {
		b.last = max(b.last, b.spans[i].end)
	}
}

// enclosing returns the span that began last of those that hold begin to end.
func (l *scopeLevel) enclosing(begin, end int64) (s scopeSpan, ok bool) {
	latest := scopeSpan{begin: begin, end: stillOpen, key: scopeKey{math.MaxUint64, math.MaxUint32}}
	if n := len(l.open); n > 0 {
		at := n
		if l.open[n-1].begin > begin {
			at = sort.Search(n, func(i int) bool { return l.open[i].begin > begin })
		}
		if at > 0 {
			s, ok = l.open[at-1], true
		}
	}
	for i := l.block(&latest); i >= 0; i-- {
		b := l.blocks[i]
		if ok && b.spans[len(b.spans)-1].compare(&s) < 0 {
			break // all the rest began before the open one
		}
		if b.last < end {
			continue
		}
		at := len(b.spans)
		if b.spans[at-1].begin > begin {
			at = sort.Search(at, func(i int) bool { return b.spans[i].begin > begin })
		}
		for at--; at >= 0; at-- {
			c := &b.spans[at]
			if ok && c.compare(&s) < 0 {
				return s, true
			}
			if c.end >= end {
				return *c, true
			}
		}
	}
	return s, ok
}
