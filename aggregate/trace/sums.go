package trace

import (
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/hist"
	"github.com/warpline/warpline/proto/kineto"
	"github.com/warpline/warpline/sink/table"
	tracetable "github.com/warpline/warpline/sink/table/trace"
)

// sums adds up the slices of the open chunk by category, name and minute.
type sums struct {
	texts map[string]uint32 // numbers of names and categories, from 1 on
	names []string          // the text of number i+1
	accs  map[statKey]*statAcc
	order []*statAcc
}

type statKey struct {
	category, name uint32
	bucket         int64
}

// statAcc adds up one row of trace_stats.
type statAcc struct {
	statKey
	calls, total, low, high uint64
	hist                    hist.Dense
}

func (s *sums) number(text []byte) uint32 {
	n, ok := s.texts[string(text)]
	if !ok {
		if s.texts == nil {
			s.texts, s.accs = map[string]uint32{}, map[statKey]*statAcc{}
		}
		name := string(text)
		s.names = append(s.names, name)
		n = uint32(len(s.names))
		s.texts[name] = n
	}
	return n
}

// moreNames is the name of slices whose names are beyond the bounds of a trace.
var moreNames = []byte(table.MoreNames)

// stats adds up the slices of a part that have a length.
func (f *folding) stats(s *session, in *kineto.Part) {
	for i := range f.texts {
		f.texts[i] = textAt{}
	}
	for i := range in.Events {
		e := &in.Events[i]
		if e.Phase > kineto.AsyncPaired {
			continue
		}
		category, name := &f.texts[e.Category], &f.texts[e.Name]
		if category.sum == 0 {
			category.sum = s.sums.number(in.Texts[e.Category])
		}
		if name.sum == 0 {
			text := in.Texts[e.Name]
			if e.NameID == 0 && len(text) > 0 {
				text = moreNames
			}
			name.sum = s.sums.number(text)
		}
		key := statKey{category.sum, name.sum, bucketOf(e.Start)}
		acc := name.acc
		if acc == nil || acc.statKey != key {
			acc = f.acc(s, key)
			name.acc = acc
		}
		took := uint64(e.Duration)
		acc.calls++
		acc.total += min(took, tracetable.MostAdded)
		acc.low, acc.high = min(acc.low, took), max(acc.high, took)
		acc.hist.Add(took)
	}
}

// bucketOf is the minute of a time; what was before 1970 is in its first.
func bucketOf(ns int64) int64 { return rows.BucketOf(max(ns, 0)) }

// maxFreeAccs is how many accumulators are kept for the next chunk.
const maxFreeAccs = 4096

func (f *folding) acc(s *session, key statKey) *statAcc {
	if a := s.sums.accs[key]; a != nil {
		return a
	}
	var a *statAcc
	if n := len(f.free); n > 0 {
		a, f.free = f.free[n-1], f.free[:n-1]
	} else {
		a = &statAcc{}
	}
	a.statKey, a.calls, a.total, a.low, a.high = key, 0, 0, ^uint64(0), 0
	a.hist.Reset()
	s.sums.accs[key] = a
	s.sums.order = append(s.sums.order, a)
	f.HeldAccs++
	return a
}

// flushStats writes the sums.
func (s *session) flushStats() {
	if len(s.sums.order) == 0 {
		return
	}
	t := &tracetable.Stats
	b := s.f.Out.Batch(t.Table, s.FactPartition())
	tenant, id := t.Tenant.Index(b, s.Key.Tenant), t.SessionID.Index(b, s.Key.ID)
	for _, a := range s.sums.order {
		t.Tenant.Append(b, tenant)
		t.SessionID.Append(b, id)
		t.Bucket.Append(b, a.bucket)
		t.BucketS.Append(b, 60)
		t.Category.AppendString(b, s.sums.names[a.category-1])
		t.Name.AppendString(b, s.sums.names[a.name-1])
		t.Calls.Append(b, a.calls)
		t.TotalNS.Append(b, a.total)
		t.MinNS.Append(b, a.low)
		t.MaxNS.Append(b, a.high)
		t.DurationHist.Append(b, &a.hist)
		t.ReceivedDay.Append(b, s.ReceivedDay())
	}
	s.dropStats()
}

// dropStats forgets the sums: their rows are written, or never will be.
func (s *session) dropStats() {
	for _, a := range s.sums.order {
		if len(s.f.free) < maxFreeAccs {
			s.f.free = append(s.f.free, a)
		}
	}
	s.f.HeldAccs -= len(s.sums.order)
	s.sums = sums{}
}
