package aggregate

import "strings"

// activityTime returns when an activity began in Unix time. AMD's profiler counts in a clock of its own; of such a session the first
// activity that is folded is taken to have begun when its part was received, and all others as far from it as their clock says: they
// land in real buckets, with the right distances. Other sessions' times, and those of a vendor not known yet, are left as they are.
func (f *flight) activityTime(s *flightSession, p *part, ns int64) int64 {
	if ns >= plausibleEpoch || !strings.EqualFold(s.vendor, "AMD") || p.env.ReceivedAt < plausibleEpoch {
		return ns
	}
	if ns == 0 {
		return p.env.ReceivedAt // no time at all: it must not decide what the others mean
	}
	if s.clock.offset == 0 {
		s.clock.offset = p.env.ReceivedAt - ns
	}
	return ns + s.clock.offset
}
