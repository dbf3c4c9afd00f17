package gpuflight

import (
	"strings"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
)

// activityTime returns when an activity began in Unix time. AMD's profiler counts in a clock of its own; of such a session the first
// activity that is folded is taken to have begun when its part was received, and all others as far from it as their clock says. So they are
// in real buckets, with the right distances. Times of other sessions, and of sessions whose vendor is not known yet, are left as they are.
func (f *folding) activityTime(s *session, p *aggregate.Part, ns int64) int64 {
	if ns >= rows.PlausibleEpoch || !strings.EqualFold(s.Vendor, "AMD") || p.Env.ReceivedAt < rows.PlausibleEpoch {
		return ns
	}
	if ns == 0 {
		return p.Env.ReceivedAt // no time at all: it must not decide what the others mean
	}
	if s.Clock.Offset == 0 {
		s.Clock.Offset = p.Env.ReceivedAt - ns
	}
	return ns + s.Clock.Offset
}
