package gpuflight

import (
	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
)

// openScopes is what is known of a session's scopes: the halves that wait, since windows of a session are folded in any order, and the
// scopes that ended a short while ago, which may be parents of others or look for their own parents.
//
// Self time is a scope's time less that of its children, so the rollup needs the parent of each. An ended scope waits DetailWait for its
// parent to arrive, as kernels wait for their details, and is then counted once in the parent's row. It is remembered for as long again, so
// that its own children find it. So children and parents that arrive within DetailWait of each other are joined by the same rule on the
// same facts, in whatever order the windows come. After that, or when more than maxKept scopes have ended meanwhile, a child whose parent
// is not there is not counted in any row: then the parent's self time includes the child's.
type openScopes struct {
	halves scopeHalves
	levels []scopeLevel // by depth
	kept   keptScopes
	paths  *scopePaths // nil until a row is written
	listed bool        // in fold.scoped
	dirty  bool        // halves changed since the last published state
}

// keptScope is an ended scope.
type keptScope struct {
	begin, end int64
	heldAt     int64 // owner's clock
	key        scopeKey
	depth      uint32
}

func (k *keptScope) interval() scopeInterval {
	return scopeInterval{begin: k.begin, end: k.end, key: k.key, half: -1}
}

// keptScopes is a queue in the order in which the scopes' second halves came. Places in it are numbered and never used again, so that the
// state can say what left and what came. Scopes before counted have been added to their parents.
type keptScopes struct {
	queue                  []keptScope // queue[0] has the place base
	base                   uint64
	head, counted, written uint64 // written: the published state has those before it
}

// maxKept is how many ended scopes are remembered, 56 B each and as much again as parents; half of them may wait for theirs. Beyond either
// bound the oldest are dropped first.
const maxKept = 32768

// countSlack lets scopes gather before they are counted in their parents: each time makes rows of the rollup.
const countSlack = 4

func (k *keptScopes) tail() uint64               { return k.base + uint64(len(k.queue)) }
func (k *keptScopes) at(place uint64) *keptScope { return &k.queue[place-k.base] }

func (k *keptScopes) add(e keptScope) {
	if gone := int(k.head - k.base); gone > 1024 && gone > len(k.queue)/2 {
		k.queue = k.queue[:copy(k.queue, k.queue[gone:])]
		k.base = k.head
	}
	k.queue = append(k.queue, e)
}

// clear forgets all.
func (k *keptScopes) clear() {
	k.base = k.tail()
	k.queue, k.head, k.counted = nil, k.base, k.base
}

// pending reports whether anything is left to write when the session ends.
func (o *openScopes) pending() bool { return o.halves.count > 0 || o.kept.counted < o.kept.tail() }

func (o *openScopes) level(depth uint32) *scopeLevel {
	for len(o.levels) <= int(depth) {
		o.levels = append(o.levels, scopeLevel{})
	}
	return &o.levels[depth]
}

// wait lets a half wait for its other half.
func (o *openScopes) wait(h scopeHalf) {
	i := o.halves.add(h)
	if h.begin && h.depth < maxPathDepth {
		o.level(h.depth).insert(scopeInterval{begin: h.at, end: stillOpen, key: h.key, half: i})
	}
	o.dirty = true
}

// take removes a half that need not wait any longer.
func (o *openScopes) take(i int32) scopeHalf {
	h := o.halves.take(i)
	if h.begin && h.depth < maxPathDepth {
		o.level(h.depth).remove(scopeInterval{begin: h.at, end: stillOpen, key: h.key, half: i})
	}
	o.dirty = true
	return h
}

// keep remembers an ended scope.
func (o *openScopes) keep(e keptScope) {
	o.kept.add(e)
	o.level(e.depth).close(e.interval())
}

// drop forgets the oldest ended scope.
func (o *openScopes) drop() {
	k := &o.kept
	e := k.at(k.head)
	o.levels[e.depth].forget(e.interval())
	k.head++
	k.counted = max(k.counted, k.head)
}

// parent returns the scope that holds a scope of this depth.
func (o *openScopes) parent(depth uint32, begin, end int64) (scopeInterval, bool) {
	if depth == 0 || int(depth) > len(o.levels) {
		return scopeInterval{}, false
	}
	return o.levels[depth-1].enclosing(begin, end)
}

// keepScope remembers a scope that has ended, and makes room for it.
func (f *folding) keepScope(s *session, now int64, key scopeKey, depth uint32, begin, end int64) {
	if depth >= maxPathDepth {
		return
	}
	o := &s.scopes
	o.keep(keptScope{begin: begin, end: end, heldAt: now, key: key, depth: depth})
	for o.kept.tail()-o.kept.counted > maxKept/2 {
		f.countChild(s)
	}
	for o.kept.tail()-o.kept.head > maxKept {
		o.drop()
	}
	if !o.listed {
		o.listed = true
		f.scoped[s] = struct{}{}
	}
}

// countChild adds the oldest scope that was not counted yet to its parent's children. What the children of an open scope took is added to
// the rollup once the scope ends, so that a row never has the children's time without the time that contains it.
func (f *folding) countChild(s *session) {
	o := &s.scopes
	c := o.kept.at(o.kept.counted)
	o.kept.counted++
	p, ok := o.parent(c.depth, c.begin, c.end)
	if !ok {
		return
	}
	f.Touch(s.Session)
	ns := uint64(c.end - c.begin)
	if p.end == stillOpen {
		o.halves.all[p.half].childNS += ns
		o.dirty = true
		return
	}
	f.scopeAccOf(s, p.key.name, rows.BucketOf(p.begin)).child += ns
}

// countChildren counts all that waited since before limit.
func (f *folding) countChildren(s *session, limit int64) {
	k := &s.scopes.kept
	for k.counted < k.tail() && k.at(k.counted).heldAt <= limit {
		f.countChild(s)
	}
}

// expireScopes counts and forgets ended scopes that have waited long enough.
func (f *folding) expireScopes(now int64) {
	wait := int64(f.Config.DetailWait)
	slack := wait / countSlack
	var due map[*session]struct{}
	for s := range f.scoped {
		k := &s.scopes.kept
		count := k.counted < k.tail() && k.at(k.counted).heldAt <= now-wait-slack
		drop := k.head < k.tail() && k.at(k.head).heldAt <= now-2*(wait+slack)
		if count || drop || k.head == k.tail() {
			if due == nil {
				due = map[*session]struct{}{}
			}
			due[s] = struct{}{}
		}
	}
	for _, s := range aggregate.SortedSessions(due) {
		if f.AwaitNames(s.Session) {
			continue
		}
		f.countChildren(s, now-wait)
		o := &s.scopes
		for k := &o.kept; k.head < k.counted && k.at(k.head).heldAt <= now-2*wait-slack; {
			o.drop()
		}
		if o.kept.head == o.kept.tail() {
			o.listed = false
			delete(f.scoped, s)
			o.kept.clear() // frees the memory of a burst
		}
	}
}
