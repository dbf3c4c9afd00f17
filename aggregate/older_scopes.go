package aggregate

import (
	"cmp"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/proto/gpuflight"
)

// Older scope lines have no instance id. What they have is the whole path, which tells nested scopes of one name apart, so its hash takes
// the instance's place. Scopes of one path that ran at the same time in several threads cannot be told apart: the first begin gets the
// first end that is not before it.

// wire returns the instance id as the client wrote it: 0 for scopes that are known by their path, whose names have ids of our own.
func (k scopeKey) wire() uint64 {
	if k.name >= ownNames {
		return 0
	}
	return k.instance
}

// scopeEvent folds a scope_begin or scope_end line.
func (f *folder) scopeEvent(s *session, p *part, l *gpuflight.Line, o *gpuflight.Older) {
	path, name := o.UserScope, o.Name
	if len(name) == 0 {
		name = leaf(path)
	}
	if len(path) == 0 {
		path = name
	}
	if len(name) == 0 {
		f.reject(s, p, rejectRow{reason: gpuflight.ReasonMissingField, detail: "name", typ: l.Type, events: 1, payload: l.Raw})
		return
	}
	id, ok := f.intern(s, p, gpuflight.ScopeNameDict, name)
	if !ok {
		f.noName(s, p, l)
		return
	}
	s.delta.sawEvent(o.AtNS)
	key := scopeKey{xxh3.Hash(path), id}
	half := scopeEvent{at: o.AtNS, depth: clampU32(o.ScopeDepth), path: clip(string(path))}
	if f.pairPath(s, p, key, half, l.Type == gpuflight.ScopeEnd) {
		f.systemSample(s, p, l, o)
		f.stored(s, p, 1)
		return
	}
	f.reject(s, p, rejectRow{reason: gpuflight.ReasonScopeOverflow, detail: scopeOverflow, typ: l.Type, events: 1, payload: l.Raw})
}

// pairPath writes the pair that a half completes, or lets the half wait; false means that too many wait. Waiting halves of a path are
// kept in order of time.
func (f *folder) pairPath(s *session, p *part, key scopeKey, half scopeEvent, isEnd bool) bool {
	o := &s.scopes
	if isEnd {
		if begins := o.begins[key]; len(begins) > 0 && begins[0].at <= half.at {
			begin := begins[0]
			o.pop(o.begins, key)
			f.writeScope(s, p.env.ReceivedAt, p.env.RetentionDays, key, &begin, &half)
			return true
		}
	} else if ends := o.ends[key]; len(ends) > 0 {
		if i, _ := slices.BinarySearchFunc(ends, half.at, byTime); i < len(ends) {
			end := ends[i]
			copy(ends[1:i+1], ends[:i]) // pop takes the first
			o.pop(o.ends, key)
			f.writeScope(s, p.env.ReceivedAt, p.env.RetentionDays, key, &half, &end)
			return true
		}
	}
	if o.count >= maxOpenScopes {
		return false
	}
	m := &o.begins
	if isEnd {
		m = &o.ends
	}
	if *m == nil {
		*m = map[scopeKey][]scopeEvent{}
	}
	o.push(*m, key, half)
	list := (*m)[key]
	i, _ := slices.BinarySearchFunc(list[:len(list)-1], half.at, afterTime)
	copy(list[i+1:], list[i:])
	list[i] = half
	return true
}

func byTime(e scopeEvent, at int64) int { return cmp.Compare(e.at, at) }

// afterTime finds the place behind all halves of a time.
func afterTime(e scopeEvent, at int64) int {
	if e.at <= at {
		return -1
	}
	return 1
}
