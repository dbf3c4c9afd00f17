package aggregate

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/warpline/warpline/proto/stream"
)

// Clients may ask what became of their uploads. The owner of a partition adds up the parts of each upload name that is asked about, in a
// list in the header of every chunk. So answers say what was published, a successor has the same list, and a chunk that was not published
// does not count. The list is bounded. An upload name that falls out of it is unknown from then on; a verdict says from which part on it
// counts, so an incomplete one is recognised.

const (
	// maxVerdicts is how many verdicts a partition keeps, maxTenantVerdicts how many of one tenant: the tenant with the most loses one.
	maxVerdicts       = 128
	maxTenantVerdicts = 32
	// maxVerdictReasons is how many reasons are counted one by one.
	maxVerdictReasons = 12
	// verdictAge is how long a verdict is kept after its last part.
	verdictAge = 15 * time.Minute
)

// verdicts are those of one partition, in the order in which they were begun. The zero value is empty. Only the owner uses it.
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

// of returns the entry that counts the part. The pointer is valid until another entry is made.
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

// makeRoom makes room for one more entry of a tenant. Of the entries that may go, it drops the one that was not touched for longest.
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

// told is what questions about a partition are answered from: the verdicts in its last published chunk.
type told struct {
	position uint64
	verdicts []stream.Verdict
}

// maxQuestions is how many questions about one partition may wait in a process; more are not answered, and are asked again.
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
			_ = m.Respond(body) // without an answer the gateway asks again
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

// tells sets what questions about a partition are answered from now on.
func (w *Worker) tells(c *stream.Chunk) {
	w.mu.Lock()
	w.told[c.Partition] = told{c.Position, c.Verdicts}
	w.mu.Unlock()
}
