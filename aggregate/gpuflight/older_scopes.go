package gpuflight

import (
	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
)

// Older scope lines do not have an instance id. They have the whole path, which distinguishes nested scopes of one name, so the path's own
// id takes the place of the instance id. Scopes of one path that ran at the same time in several threads cannot be distinguished.

// wire returns the instance id as the client wrote it: 0 for scopes that are known by their path; those have ids of our own.
func (k scopeKey) wire() uint64 {
	if k.name >= aggregate.OwnNames {
		return 0
	}
	return k.instance
}

// olderPath returns the path of a scope that is known by its path.
func (s *session) olderPath(k scopeKey) (path string, ok bool) {
	if k.name < aggregate.OwnNames {
		return "", false
	}
	return s.Name(gpuflight.ScopeNameDict, uint32(k.instance)), true
}

// scopeEvent folds a scope_begin or scope_end line.
func (f *folding) scopeEvent(s *session, p *aggregate.Part, l *gpuflight.Line, o *gpuflight.Older) {
	path, name := o.UserScope, o.Name
	if len(name) == 0 {
		name = leaf(path)
	}
	if len(path) == 0 {
		path = name
	}
	if len(name) == 0 {
		f.Reject(p, aggregate.Reject{Reason: gpuflight.ReasonMissingField, Detail: "name", Type: typeName(l.Type), Events: 1, Payload: l.Raw})
		return
	}
	id, ok := f.Intern(p, gpuflight.ScopeNameDict, name)
	if !ok {
		f.noName(s, p, l)
		return
	}
	pathID, ok := f.Intern(p, gpuflight.ScopeNameDict, path)
	if !ok {
		f.noName(s, p, l)
		return
	}
	s.Delta.SawEvent(o.AtNS)
	half := scopeHalf{key: scopeKey{uint64(pathID), id}, at: o.AtNS, depth: rows.ClampU32(o.ScopeDepth), begin: l.Type == gpuflight.ScopeBegin}
	before := s.Delta.Rejects
	f.scopeHalf(s, p, l, half)
	f.systemSample(s, p, l, o)
	if s.Delta.Rejects == before {
		p.Stored(1)
	}
}
