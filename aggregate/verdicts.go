package aggregate

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/warpline/warpline/proto/stream"
)

// Who uploads may ask what became of it. The owner of a partition adds up the parts of each who asks, in a list that travels in the header
// of every chunk: what is told is what was published, a successor has the same list, and a chunk that was not published told nothing. The
// list is bounded; what falls out of it is unknown from then on, and is never told by halves, since a verdict says from where on it counts.

const (
	// maxVerdicts are kept of a partition, and maxTenantVerdicts of one tenant: the one with the most gives way.
	maxVerdicts       = 128
	maxTenantVerdicts = 32
	// maxVerdictReasons are counted one by one.
	maxVerdictReasons = 12
	// verdictAge is how long a verdict is kept after its last part.
	verdictAge = 15 * time.Minute
)

// verdicts are those of one partition, in the order in which they were begun. The zero value is none. Only the owner uses it.
type verdicts struct {
	list    []stream.Verdict
	header  []stream.Verdict // a copy, as it was last published or is about to be; others may hold it
	changed bool             // since header was made
}

// load goes on from what a chunk says.
func (v *verdicts) load(published []stream.Verdict) {
	v.header, v.changed = published, false
	v.list = cloneVerdicts(published)
}

func cloneVerdicts(in []stream.Verdict) []stream.Verdict {
	out := slices.Clone(in)
	for i := range out {
		out[i].Rejected = slices.Clone(out[i].Rejected)
	}
	return out
}

// add counts a folded part: its usage is what it has added to that of its tenant.
func (v *verdicts) add(p *Part, now int64) {
	if len(p.Env.Asked) != stream.AskedBytes || p.usage == nil {
		return
	}
	d := v.of(p)
	d.Touched = now
	d.Parts++
	c := p.Counted()
	d.Events += c.Events
	d.Stored += c.Stored
	d.Duplicates += c.Duplicates
	for _, r := range p.refused {
		d.Rejected = stream.AddRejected(d.Rejected, r.Reason, r.Events, maxVerdictReasons)
	}
	v.changed = true
}

// of returns the entry of who asks about the part, for now: it moves when another is made.
func (v *verdicts) of(p *Part) *stream.Verdict {
	for i := range v.list {
		if d := &v.list[i]; d.Asked == p.Env.Asked && d.Tenant == p.Env.Tenant {
			return d
		}
	}
	v.makeRoom(p.Env.Tenant)
	v.list = append(v.list, stream.Verdict{Asked: p.Env.Asked, Tenant: p.Env.Tenant, Since: p.Seq})
	return &v.list[len(v.list)-1]
}

// makeRoom makes room for one more of a tenant. Of those who have to give way the one goes that was not touched for longest.
func (v *verdicts) makeRoom(tenant string) {
	counts := map[string]int{}
	for i := range v.list {
		counts[v.list[i].Tenant]++
	}
	from := tenant
	if counts[tenant] < maxTenantVerdicts {
		if len(v.list) < maxVerdicts {
			return
		}
		for name, n := range counts {
			if n > counts[from] || n == counts[from] && name < from {
				from = name
			}
		}
	}
	oldest := -1
	for i := range v.list {
		if v.list[i].Tenant == from && (oldest < 0 || v.list[i].Touched < v.list[oldest].Touched) {
			oldest = i
		}
	}
	v.list = slices.Delete(v.list, oldest, oldest+1)
}

// publish returns the list for the header of a chunk, without what is too old. It is never changed afterwards.
func (v *verdicts) publish(now int64) []stream.Verdict {
	n := len(v.list)
	v.list = slices.DeleteFunc(v.list, func(d stream.Verdict) bool { return now-d.Touched > int64(verdictAge) })
	if v.changed || len(v.list) != n {
		v.header, v.changed = cloneVerdicts(v.list), false
	}
	return v.header
}

// told is what questions about a partition are answered from: what its last published chunk says.
type told struct {
	position uint64
	verdicts []stream.Verdict
}

// maxQuestions may wait in a process for one partition; more are not answered, and asked again.
const maxQuestions = 1024

// answer answers questions about a partition until the returned function is called.
func (w *Worker) answer(p int) (stop func(), err error) {
	sub, err := w.streams.Conn.Subscribe(stream.VerdictSubject(p), func(m *nats.Msg) {
		var q stream.VerdictQuestion
		if m.Reply == "" || json.Unmarshal(m.Data, &q) != nil {
			return
		}
		w.mu.Lock()
		t := w.told[p]
		w.mu.Unlock()
		a := stream.VerdictAnswer{Position: t.position}
		for i := range t.verdicts {
			if t.verdicts[i].Asked == q.Asked {
				a.Verdict = &t.verdicts[i]
				break
			}
		}
		if body, err := json.Marshal(a); err == nil {
			_ = m.Respond(body) // who gets no answer asks again
		}
	})
	if err != nil {
		return nil, err
	}
	_ = sub.SetPendingLimits(maxQuestions, 1<<20) // it fails only for a subscription that has ended
	return func() {
		_ = sub.Unsubscribe()
		w.mu.Lock()
		delete(w.told, p)
		w.mu.Unlock()
	}, nil
}

// tells says what questions about a partition are answered from now on.
func (w *Worker) tells(c *stream.Chunk) {
	w.mu.Lock()
	w.told[c.Partition] = told{c.Position, c.Verdicts}
	w.mu.Unlock()
}
