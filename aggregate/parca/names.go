package parca

import (
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/activity"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
)

// Names of kernels come with every part. The partition does not keep them as the names of a session that ends: what is kept is a hash, the
// id, and the day on which the rows of `dictionaries` and `launches` were written. An id is handed out once in the life of a session, by
// Session.NextConfig, which outlives silence; a name that was forgotten gets another.

// kernelID returns the id of the kernel that a text of the part names.
func (f *folding) kernelID(s *session, p *aggregate.Part, emit *activity.KernelEmitter, texts []string,
	text uint32) uint32 {
	if id := f.now.kernels[text]; id != 0 {
		return id
	}
	name := p.CutName(texts[text])
	key := xxh3.HashString128(name)
	t := s.names.get(key)
	if t == nil {
		if s.NextConfig == 0 {
			s.NextConfig = activity.FirstID(p.Env.ReceivedAt)
		}
		s.NextConfig++
		s.lastID = s.NextConfig
		t = s.names.add(key, s.NextConfig)
	}
	if s.names.on(t, rows.DayOf(p.Env.ReceivedAt)) {
		f.WriteName(p, aggregate.NameRef{Dict: gpuflight.KernelDict, ID: t.id}, name)
		emit.WriteLaunch(t.id, t.id)
	} else {
		emit.Launched(t.id, t.id)
	}
	if _, ok := s.held[t.id]; !ok {
		if s.held == nil {
			s.held = map[uint32]string{}
		}
		s.held[t.id] = strings.Clone(name)
		s.fresh = append(s.fresh, t.id)
	}
	f.now.kernels[text] = t.id
	return t.id
}

// heldName returns a name for a row of kernel_stats.
func (s *session) heldName(id uint32) string { return s.held[id] }
