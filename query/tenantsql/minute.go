package tenantsql

import (
	"fmt"
	"sync"
	"time"
)

// minutes bound what each tenant asks in a minute. They are counted here, since a slot's own quota would be that of every tenant to whom
// the slot is lent: what one has used up would be missing to the next. Safe for concurrent use.
type minutes struct {
	questions int
	busy      time.Duration
	most      time.Duration // that one question counts for: a client that reads slowly is not ClickHouse's work

	mu    sync.Mutex
	of    map[string]*minute
	swept time.Time
}

// minute is what a tenant has asked since it began.
type minute struct {
	began     time.Time
	questions int
	busy      time.Duration
}

func newMinutes(b Bounds) *minutes {
	return &minutes{questions: b.Queries, busy: time.Duration(b.BusySeconds) * time.Second, most: time.Duration(b.Seconds) * time.Second,
		of: map[string]*minute{}}
}

// usedUp is that a tenant has asked what it may in a minute.
type usedUp struct {
	why string
	in  time.Duration // until it may ask again
}

// Error implements error.
func (u *usedUp) Error() string { return u.why }

// ask counts one question.
func (m *minutes) ask(who string, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.now(who, now)
	left := max(time.Second, of.began.Add(time.Minute).Sub(now)).Round(time.Second)
	switch {
	case of.questions >= m.questions:
		return &usedUp{fmt.Sprintf("%d questions of tenant %s in a minute is what one tenant may ask, and %d were asked: ask again in %v",
			m.questions, who, of.questions, left), left}
	case of.busy >= m.busy:
		return &usedUp{fmt.Sprintf("%v of work in a minute is what tenant %s may ask for, and its questions took %v: ask again in %v", m.busy,
			who, of.busy.Round(time.Second), left), left}
	}
	of.questions++
	return nil
}

// worked counts what a question took.
func (m *minutes) worked(who string, took time.Duration, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now(who, now).busy += min(took, m.most)
}

// now is the minute of a tenant. Those that are over are forgotten.
func (m *minutes) now(who string, now time.Time) *minute {
	if now.Sub(m.swept) >= time.Minute {
		m.swept = now
		for name, of := range m.of {
			if now.Sub(of.began) >= time.Minute {
				delete(m.of, name)
			}
		}
	}
	of := m.of[who]
	if of == nil || now.Sub(of.began) >= time.Minute {
		of = &minute{began: now}
		m.of[who] = of
	}
	return of
}
