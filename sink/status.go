package sink

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
)

// Status says where the sink stands.
type Status struct {
	Lanes                   []LaneStatus // those that this process runs, in order
	RowsBytes, RowsMaxBytes int64        // what the ROWS stream holds and may hold (0: not known yet)
	// Unreachable is since when ClickHouse has not answered; zero while it does. Blocked is since when a lane stands still for a reason
	// that trying again does not solve: a refused insert, an unreadable chunk. Err is the error that goes with it, with Unreachable if both
	// are set; "" while both are zero.
	Unreachable, Blocked time.Time
	Err                  string
	// Damage is what the NATS server says it has dropped of streams and buckets because it was damaged on disk, "" when nothing. Data flows
	// all the same, but a person has to know.
	Damage string
}

// LaneStatus says where a lane stands.
type LaneStatus struct {
	Lane    int
	Mark    uint64        // ROWS sequence up to which everything is in ClickHouse
	Pending uint64        // messages known to wait
	Lag     time.Duration // age of the oldest of them, 0 when there is none
	Err     string        // what the lane is retrying, "" when all is well
	Since   time.Time     // since when
}

// String is the diagnosis in one line, "" when all is well.
func (s Status) String() string {
	waiting := "rows wait in JetStream"
	if s.RowsMaxBytes > 0 {
		waiting += fmt.Sprintf(" (%s of %s)", humanize.IBytes(uint64(s.RowsBytes)), humanize.IBytes(uint64(s.RowsMaxBytes)))
	}
	switch {
	case !s.Unreachable.IsZero():
		return fmt.Sprintf("clickhouse unreachable since %s: %s: %s", s.Unreachable.UTC().Format(time.TimeOnly), waiting, s.Err)
	case !s.Blocked.IsZero():
		return fmt.Sprintf("sink stands still since %s: %s: %s", s.Blocked.UTC().Format(time.TimeOnly), waiting, s.Err)
	}
	var parts []string
	for _, l := range s.Lanes {
		if l.Err != "" {
			parts = append(parts, fmt.Sprintf("lane %d since %s: %s", l.Lane, l.Since.UTC().Format(time.TimeOnly), l.Err))
		}
	}
	if parts == nil {
		return ""
	}
	return "sink retries: " + strings.Join(parts, "; ") + ": " + waiting
}

// Status returns the present state; it does not do I/O.
func (k *Sink) Status() Status {
	k.mu.Lock()
	lanes := make([]*lane, 0, len(k.lanes))
	for _, l := range k.lanes {
		lanes = append(lanes, l)
	}
	s := Status{RowsBytes: k.rows[0], RowsMaxBytes: k.rows[1]}
	k.mu.Unlock()
	slices.SortFunc(lanes, func(a, b *lane) int { return a.n - b.n })
	s.Damage = k.damagedLine()
	problems := k.health.snapshot(&s)
	for _, l := range lanes {
		ls := LaneStatus{Lane: l.n, Mark: l.shownMark.Load(), Pending: l.waiting(), Lag: l.lag()}
		if p, ok := problems[l.n]; ok {
			ls.Err, ls.Since = p.err, p.since
		}
		s.Lanes = append(s.Lanes, ls)
	}
	return s
}

// schemaLane takes the place of a lane while the sink makes its tables.
const schemaLane = -1

type problem struct {
	err     string
	reason  string
	since   time.Time
	lastLog time.Time
}

// health turns the errors of all lanes into one log line when ClickHouse goes away and one when it is back.
type health struct {
	log  *slog.Logger
	mu   sync.Mutex
	away time.Time
	bad  map[int]problem // by lane, or schemaLane
}

// failed notes an error and reports its reason.
func (h *health) failed(lane int, what string, err error) string {
	reason := reasonOf(err)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.bad == nil {
		h.bad = map[int]problem{}
	}
	now := time.Now()
	p, old := h.bad[lane]
	if !old {
		p.since = now
	}
	changed := p.reason != reason
	p.err, p.reason = what+": "+err.Error(), reason
	switch {
	case reason == reasonUnreachable:
		if h.away.IsZero() {
			h.away = now
			h.log.Warn("clickhouse is unreachable: rows wait in JetStream and go on by themselves when it is back", "doing", what, "err", err)
		}
	case reason == reasonRefused && (changed || now.Sub(p.lastLog) > 10*time.Minute):
		p.lastLog = now
		h.log.Error("the lane stands still until a person acts: nothing is skipped or lost, and it tries again every 30 s", "lane", lane,
			"doing", what, "err", err, "hint", hint(err))
	case reason != reasonRefused && changed:
		h.log.Warn("clickhouse: trying again", "lane", lane, "doing", what, "reason", reason, "err", err)
	}
	h.bad[lane] = p
	return reason
}

// ok notes that ClickHouse answered a lane.
func (h *health) ok(lane int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.away.IsZero() {
		h.log.Info("clickhouse answers again", "after", time.Since(h.away).Round(time.Millisecond))
		h.away = time.Time{}
	}
	if p, ok := h.bad[lane]; ok {
		if p.reason == reasonRefused {
			h.log.Info("the lane goes on", "lane", lane, "after", time.Since(p.since).Round(time.Millisecond))
		}
		delete(h.bad, lane)
	}
}

// forget drops the problems of a lane that this process no longer runs.
func (h *health) forget(lane int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.bad, lane)
}

func (h *health) snapshot(s *Status) map[int]problem {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make(map[int]problem, len(h.bad))
	s.Unreachable = h.away
	last := ""
	for _, n := range slices.Sorted(maps.Keys(h.bad)) {
		p := h.bad[n]
		out[n] = p
		last = p.err
		switch {
		case p.reason == reasonUnreachable && !h.away.IsZero():
			s.Err = p.err
		case p.reason == reasonRefused && (s.Blocked.IsZero() || p.since.Before(s.Blocked)):
			s.Blocked = p.since
			if h.away.IsZero() {
				s.Err = p.err
			}
		}
	}
	if s.Err == "" && !h.away.IsZero() { // the lane that found ClickHouse unreachable has had another error since
		s.Err = last
	}
	return out
}
