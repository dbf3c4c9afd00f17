package aggregate

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/zeebo/xxh3"
)

// Names, and what is kept to find them quickly, are in memory while their session sends, and can be loaded again from their entries in NATS
// or from ClickHouse. One budget holds for all sessions of a worker: beyond it names of the tenant that has most are dropped first, those
// of the longest silent sessions before others. A single session may have a share of the budget; a name beyond that is stored, and its id
// is resolved at read.

// DefaultNamesBytes is the default of Config.NamesBytes.
const DefaultNamesBytes = 256 << 20

// What is charged in addition to the bytes of a text: entries of maps with their slack, and allocations rounded up.
const (
	nameEntryBytes = 64
	refusedBytes   = 40
)

// nameBudget is shared by a worker's owners. It is safe for concurrent use.
type nameBudget struct {
	limit   int
	metrics *counters

	mu      sync.Mutex
	used    int
	tenants map[string]int
}

func newNameBudget(limit int, m *counters) *nameBudget {
	return &nameBudget{limit: limit, metrics: m, tenants: map[string]int{}}
}

// room is how much of it one session may have.
func (b *nameBudget) room() int { return b.limit / 16 }

// hard is where the budget is enforced although rows have to be written early for it.
func (b *nameBudget) hard() int { return b.limit + b.limit/4 }

func (b *nameBudget) add(tenant string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used += n
	b.tenants[tenant] += n
	if b.tenants[tenant] == 0 {
		delete(b.tenants, tenant)
	}
	b.metrics.namesBytes.Set(float64(b.used))
}

func (b *nameBudget) total() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// over reports whether the tenant has more than its share while the whole is over its limit.
func (b *nameBudget) over(tenant string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used > b.limit*9/10 && b.tenants[tenant]*max(len(b.tenants), 1) >= b.used
}

// refuse remembers a name for which there is no room only by its hash.
func (s *Session) refuse(ref NameRef, text string) {
	if s.refused == nil {
		s.refused = map[NameRef]uint64{}
	}
	s.refused[ref] = xxh3.HashString(text)
	s.nameCost += refusedBytes
}

// HasName reports whether the session has a name for the id, in memory or not.
func (s *Session) HasName(ref NameRef) bool {
	if _, ok := s.dicts[ref.Dict][ref.ID]; ok {
		return true
	}
	_, ok := s.refused[ref]
	return ok
}

// known is how many names the session has at hand.
func (s *Session) known() int {
	n := len(s.refused)
	for _, d := range s.dicts {
		n += len(d)
	}
	return n
}

// dropNames frees the memory of names and of what is kept to find them; they are loaded when the session sends again.
func (f *Fold) dropNames(s *Session, silent bool) {
	s.dicts, s.refused = [numDicts]map[uint32]string{}, nil
	s.dictsLoaded, s.nameBytes, s.nameCost = false, 0, 0
	for _, st := range s.states {
		if st != nil {
			st.Rest(silent)
		}
	}
	f.charge(s)
}

// charge enters what the session holds into the budgets. Call it whenever that may have changed; it costs little when it has not.
func (f *Fold) charge(s *Session) {
	f.chargePending(s)
	cost := s.nameCost + s.load().Index
	if cost == s.charged {
		return
	}
	f.budget.add(s.Key.Tenant, cost-s.charged)
	f.nameBytes += cost - s.charged
	s.charged = cost
	if cost > 0 {
		f.named[s] = struct{}{}
	} else {
		delete(f.named, s)
	}
}

// release takes a session that is dropped out of the budget.
func (f *Fold) release(s *Session) {
	delete(f.missing, s)
	f.budget.add(s.Key.Tenant, -s.charged)
	f.nameBytes -= s.charged
	s.charged = 0
	delete(f.named, s)
	f.pending -= s.pendingCharged
	s.pendingCharged = 0
	delete(f.pendings, s)
}

// releaseAll is for an owner that ends.
func (f *Fold) releaseAll() {
	for s := range f.named {
		f.release(s)
	}
}

// AwaitNames reports whether the session's names have to be loaded before its rows are written, and has them loaded.
func (f *Fold) AwaitNames(s *Session) bool {
	if !s.nameless() {
		return false
	}
	if !s.awaited {
		s.awaited = true
		f.unnamed = append(f.unnamed, s)
	}
	return true
}

// nobodyAwaits empties the list of sessions whose names are to be loaded.
func (f *Fold) nobodyAwaits() {
	for _, s := range f.unnamed {
		s.awaited = false
	}
	f.unnamed = nil
}

// makeRoom drops names of this partition while the worker is over its budget, but not those of the session that is being folded. With all
// it takes from every tenant, not only from those over their share.
func (f *Fold) makeRoom(speaks *Session, all bool) {
	var idle []*Session
	for s := range f.named {
		if s != speaks && !s.touched && s.heldSince == 0 && s.load().Rollups == 0 {
			idle = append(idle, s)
		}
	}
	waits := func(s *Session) int {
		if load := s.load(); load.Waits || load.Unsaid {
			return 1 // it will need them
		}
		return 0
	}
	slices.SortFunc(idle, func(a, b *Session) int {
		return cmp.Or(cmp.Compare(waits(a), waits(b)), cmp.Compare(a.LastReceivedAt, b.LastReceivedAt))
	})
	for _, s := range idle {
		if f.budget.total() <= f.budget.limit*9/10 {
			return
		}
		if all || f.budget.over(s.Key.Tenant) {
			f.dropNames(s, false)
			f.metrics.namesDropped.Inc()
		}
	}
}

// boundNames keeps the worker's names within their budget after speaks has got some, nil for none.
func (o *owner) boundNames(ctx context.Context, speaks *Session) error {
	f := o.fold
	if speaks != nil {
		f.charge(speaks)
	}
	b := f.budget
	total := b.total()
	if total <= b.limit || total < b.hard() && time.Since(o.lastRoom) < 50*time.Millisecond {
		return nil
	}
	o.lastRoom = time.Now()
	f.makeRoom(speaks, false)
	if b.total() <= b.hard() || f.nameBytes < b.room() {
		return nil // or the other partitions have to make room
	}
	// What is in the open chunk or held back needs its names until its rows are written: so write them now.
	f.rush = true
	defer func() { f.rush = false }()
	if err := o.publishOut(ctx); err != nil {
		return err
	}
	f.makeRoom(speaks, true)
	return nil
}

// nameScopes loads the names of a few sessions that were taken over with rows to come: those may be written before the session speaks
// again. It takes a part of a tick at most, since folding waits meanwhile.
func (o *owner) nameScopes(ctx context.Context) {
	f := o.fold
	before := len(f.touched)
	for until := time.Now().Add(20 * time.Millisecond); len(f.unnamed) > 0 && time.Now().Before(until); {
		s := f.unnamed[0]
		if f.Sessions[s.Key] != s { // it was dropped meanwhile
			f.unnamed = f.unnamed[1:]
			continue
		}
		s.nameRoom = f.budget.room()
		if err := o.loadNames(ctx, s); err != nil {
			if ctx.Err() == nil {
				o.retry("dictionary", err)
			}
			return
		}
		f.charge(s)
		s.awaited = false
		f.unnamed = f.unnamed[1:]
		if len(f.touched) > before && o.opened.IsZero() {
			o.opened = o.clock() // a name came late
		}
	}
}

// texts are names that came lately, so that the sessions of a program share the memory of its names: a thousand short sessions
// would hold each a thousand times, and the collector would look at each. A place holds the newest name of its hash. What is charged for
// names does not count on it. The zero value is ready to use, by one goroutine.
type texts struct {
	seed   maphash.Seed
	places []string
}

const (
	textPlaces = 2048 // more than a program has names; a power of two
	// mostShared is the longest name that is shared, in bytes: what is here stays when its sessions have gone.
	mostShared = 512
)

// of returns the text of b, which it does not keep.
func (t *texts) of(b []byte) string {
	if len(b) > mostShared {
		return string(b)
	}
	if t.places == nil {
		t.seed, t.places = maphash.MakeSeed(), make([]string, textPlaces)
	}
	place := &t.places[maphash.Bytes(t.seed, b)%textPlaces]
	if *place != string(b) {
		*place = string(b)
	}
	return *place
}
