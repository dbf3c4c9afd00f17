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

// scopeInterval is what is needed of a scope to look for a parent. end is stillOpen while the scope is open.
type scopeInterval struct {
	begin, end int64
	key        scopeKey
	half       int32 // slot of an open scope
}

const stillOpen = math.MaxInt64

func (a *scopeInterval) compare(b *scopeInterval) int {
	if a.begin != b.begin { // nearly always
		if a.begin < b.begin {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.key.instance, b.key.instance), cmp.Compare(a.key.name, b.key.name), cmp.Compare(a.end, b.end))
}

// scopeLevel holds the scopes of one depth that may be parents, by their begin: the open ones, and those that ended a short while ago. The
// ended ones are in runs that know the latest end in them, so that thousands of short scopes of one thread are passed over in few steps on
// the way to the long scope of another thread.
type scopeLevel struct {
	open []scopeInterval
	runs []*scopeRun
}

type scopeRun struct {
	intervals []scopeInterval
	last      int64 // latest end
}

const intervalsPerRun = 128

// insert puts an open scope in its place.
func (l *scopeLevel) insert(s scopeInterval) {
	at := len(l.open)
	if at > 0 && l.open[at-1].compare(&s) > 0 {
		at = sort.Search(at, func(i int) bool { return l.open[i].compare(&s) > 0 })
	}
	l.open = slices.Insert(l.open, at, s)
}

// remove takes the open scope of a slot out.
func (l *scopeLevel) remove(s scopeInterval) {
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

// run returns the index of the last run that begins at or before s, -1 if all begin later.
func (l *scopeLevel) run(s *scopeInterval) int {
	n := len(l.runs)
	if n > 0 && l.runs[n-1].intervals[0].compare(s) <= 0 {
		return n - 1
	}
	return sort.Search(n, func(i int) bool { return l.runs[i].intervals[0].compare(s) > 0 }) - 1
}

// close adds a scope that has ended.
func (l *scopeLevel) close(s scopeInterval) {
	i := max(l.run(&s), 0)
	if i == len(l.runs) {
		l.runs = append(l.runs, &scopeRun{last: math.MinInt64})
	}
	b := l.runs[i]
	at := len(b.intervals)
	if at > 0 && b.intervals[at-1].compare(&s) > 0 {
		at = sort.Search(at, func(i int) bool { return b.intervals[i].compare(&s) > 0 })
	}
	if len(b.intervals) == intervalsPerRun {
		next := &scopeRun{last: math.MinInt64}
		if at < len(b.intervals) || i < len(l.runs)-1 { // in the middle: two halves; at the very end runs stay full
			next.intervals = append(make([]scopeInterval, 0, intervalsPerRun), b.intervals[intervalsPerRun/2:]...)
			b.intervals = b.intervals[:intervalsPerRun/2]
			b.measure()
			next.measure()
		}
		l.runs = slices.Insert(l.runs, i+1, next)
		if at > len(b.intervals) || at == intervalsPerRun {
			at -= len(b.intervals)
			b = next
		}
	}
	b.intervals = slices.Insert(b.intervals, at, s)
	b.last = max(b.last, s.end)
}

// forget takes out a scope that has ended.
func (l *scopeLevel) forget(s scopeInterval) {
	i := l.run(&s)
	if i < 0 {
		return
	}
	b := l.runs[i]
	at := sort.Search(len(b.intervals), func(i int) bool { return b.intervals[i].compare(&s) >= 0 })
	if at == len(b.intervals) || b.intervals[at].compare(&s) != 0 {
		return
	}
	b.intervals = slices.Delete(b.intervals, at, at+1)
	if len(b.intervals) == 0 {
		l.runs = slices.Delete(l.runs, i, i+1)
	} else if s.end == b.last {
		b.measure()
	}
}

func (b *scopeRun) measure() {
	b.last = math.MinInt64
	for i := range b.intervals {
		b.last = max(b.last, b.intervals[i].end)
	}
}

// enclosing returns the scope that began last of those that enclose begin to end.
func (l *scopeLevel) enclosing(begin, end int64) (s scopeInterval, ok bool) {
	latest := scopeInterval{begin: begin, end: stillOpen, key: scopeKey{math.MaxUint64, math.MaxUint32}}
	if n := len(l.open); n > 0 {
		at := n
		if l.open[n-1].begin > begin {
			at = sort.Search(n, func(i int) bool { return l.open[i].begin > begin })
		}
		if at > 0 {
			s, ok = l.open[at-1], true
		}
	}
	for i := l.run(&latest); i >= 0; i-- {
		b := l.runs[i]
		if ok && b.intervals[len(b.intervals)-1].compare(&s) < 0 {
			break // all the rest began before the open one
		}
		if b.last < end {
			continue
		}
		at := len(b.intervals)
		if b.intervals[at-1].begin > begin {
			at = sort.Search(at, func(i int) bool { return b.intervals[i].begin > begin })
		}
		for at--; at >= 0; at-- {
			c := &b.intervals[at]
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
