package aggregate

import (
	"cmp"
	"slices"
)

// What waits for another half (kernels for their details, details for their kernels, scopes for their ends and parents) is bounded for each
// session where it is kept, and here for all sessions of a partition. Beyond that the sessions of the tenant that has most stop waiting,
// those that have most first: the rows are written without their other halves, as at a session's end.

// maxHeldAccs is how many accumulators of rollups a partition holds back; beyond it all are written with the next chunk. Otherwise their
// state change alone would make chunks due all the time.
const maxHeldAccs = maxChunkState / 16

// maxPending is what may wait in a partition.
func (f *Fold) maxPending() int { return f.budget.limit / 8 }

// chargePending notes what waits of a session; call it whenever that may have changed.
func (f *Fold) chargePending(s *Session) {
	cost := s.load().Waiting
	f.pending += cost - s.pendingCharged
	s.pendingCharged = cost
	if cost > 0 {
		f.pendings[s] = struct{}{}
	} else {
		delete(f.pendings, s)
	}
}

// boundPending gives up what waits beyond the bound.
func (f *Fold) boundPending() {
	if f.pending <= f.maxPending() {
		return
	}
	tenants := map[string]int{}
	for s := range f.pendings {
		f.chargePending(s) // some may have expired meanwhile
		tenants[s.Key.Tenant] += s.pendingCharged
	}
	var all []*Session
	for s := range f.pendings {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *Session) int {
		return cmp.Or(cmp.Compare(tenants[b.Key.Tenant], tenants[a.Key.Tenant]), cmp.Compare(a.Key.Tenant, b.Key.Tenant),
			cmp.Compare(b.pendingCharged, a.pendingCharged))
	})
	for _, s := range all {
		if f.pending <= f.maxPending()*3/4 {
			return
		}
		if s.load().Unsaid && f.AwaitNames(s) {
			continue
		}
		f.Close(s)
		f.chargePending(s)
		f.metrics.gaveUp.Inc()
	}
}
