package parca

import (
	"slices"
	"strings"
	"time"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/aggregate/state"
	"github.com/warpline/warpline/proto/parca"
)

// The stock agent sends profiles of the CPU in every batch. Refused rows are counted at once, and have a row of rejects a minute: the first
// of a session, reason and type at once, what follows in that minute together in the next one.

// refusals is what a session has been refused. The zero value is empty.
type refusals struct {
	all   []refusal
	since int64 // owner's clock when the first of what waits came, 0: nothing waits
	dirty bool
}

// refusal is rows of one reason and type.
type refusal struct {
	reason, kind, detail string
	minute               int64  // in which the last row of it was written, since the epoch
	rows                 uint64 // since then
}

const (
	// maxRefusals is how many reasons and types of a session have rows of their own; the type other of each reason stands for the rest.
	maxRefusals = 16
	// refusalWait is how long rows wait for their minute, by the owner's clock, when nothing more comes.
	refusalWait = int64(61 * time.Second)
)

// refuse counts refused rows and returns how many there are.
func (f *folding) refuse(s *session, p *aggregate.Part, refused []parca.Refused) (total uint64) {
	minute := p.Env.ReceivedAt / rows.BucketNS
	for i := range refused {
		in := &refused[i]
		total += in.Rows
		p.Received(in.Rows)
		f.CountReject(p, in.Reason, in.Rows)
		s.refused.of(in).rows += in.Rows
	}
	if len(refused) == 0 {
		return 0
	}
	s.refused.dirty = true
	for i := range s.refused.all {
		if r := &s.refused.all[i]; r.rows > 0 && r.minute < minute {
			s.refusedRow(r, minute, p.Env.ReceivedAt)
		}
	}
	if !s.refused.waiting() {
		s.refused.since = 0
		delete(f.refusing, s)
	} else if s.refused.since == 0 {
		s.refused.since = p.Now
		f.refusing[s] = struct{}{}
	}
	return total
}

// of returns the refusal that rows count in.
func (r *refusals) of(in *parca.Refused) *refusal {
	if have := r.find(in.Reason, rows.Clip(in.Type)); have != nil {
		return have
	}
	kind := strings.Clone(rows.Clip(in.Type)) // texts of a part hold all of its body
	if len(r.all) >= maxRefusals {
		if have := r.find(in.Reason, other); have != nil {
			return have
		}
		if kind = other; len(r.all) >= 2*maxRefusals {
			return &r.all[len(r.all)-1] // a gateway with more reasons than there are
		}
	}
	r.all = append(r.all, refusal{reason: strings.Clone(in.Reason), kind: kind, detail: strings.Clone(rows.Clip(in.Detail))})
	return &r.all[len(r.all)-1]
}

func (r *refusals) find(reason, kind string) *refusal {
	for i := range r.all {
		if have := &r.all[i]; have.reason == reason && have.kind == kind {
			return have
		}
	}
	return nil
}

// waiting reports whether there are rows without a row of rejects.
func (r *refusals) waiting() bool {
	return slices.ContainsFunc(r.all, func(one refusal) bool { return one.rows > 0 })
}

func (s *session) refusedRow(r *refusal, minute, at int64) {
	s.f.WriteRefused(s.Session, &aggregate.Reject{Reason: r.reason, Detail: r.detail, Type: r.kind, Events: r.rows}, at)
	r.minute, r.rows = minute, 0
	s.refused.dirty = true
}

// tellRefused writes what has waited for long enough.
func (f *folding) tellRefused(now int64) {
	var due map[*session]struct{}
	for s := range f.refusing {
		if now-s.refused.since >= refusalWait {
			if due == nil {
				due = map[*session]struct{}{}
			}
			due[s] = struct{}{}
		}
	}
	for _, s := range aggregate.SortedSessions(due) {
		s.writeRefused()
	}
}

// writeRefused writes what waits, with the time at which its minute begins.
func (s *session) writeRefused() {
	for i := range s.refused.all {
		if r := &s.refused.all[i]; r.rows > 0 {
			s.refusedRow(r, r.minute+1, (r.minute+1)*rows.BucketNS)
		}
	}
	s.refused.since = 0
	delete(s.f.refusing, s)
}

func (r *refusals) append(w *state.Writer, full bool) {
	w.Bool(full || r.dirty)
	if !full && !r.dirty {
		return
	}
	w.N(len(r.all))
	for i := range r.all {
		one := &r.all[i]
		w.Str(one.reason)
		w.Str(one.kind)
		w.Str(one.detail)
		w.I64(one.minute)
		w.U64(one.rows)
	}
}

func (r *refusals) read(from *state.Reader) {
	if !from.Bool() {
		return
	}
	r.all = r.all[:0]
	for range from.N(5) {
		r.all = append(r.all, refusal{from.Str(), from.Str(), from.Str(), from.I64(), from.U64()})
	}
}

func (r *refusals) size(full bool) int {
	if full || r.dirty {
		return 120 * len(r.all)
	}
	return 1
}
