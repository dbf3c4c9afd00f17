// Package quota counts what a tenant or key may send in a day of UTC, and keeps the counts over restarts.
package quota

import "time"

// Limit is what may come in a day. The zero value limits nothing.
type Limit struct {
	Events, Bytes float64 // 0: no limit
	// Drop says that senders shall give up what is beyond it, instead of keeping it until the next day.
	Drop bool
	// Trickle is the share of uploads, 0 to 1, that is taken beyond the limit.
	Trickle float64
}

// None reports whether nothing is limited.
func (l Limit) None() bool { return l.Events <= 0 && l.Bytes <= 0 }

// Used is what came on a day.
type Used struct {
	Day    int64 `json:"day"` // since 1970, of UTC
	Events int64 `json:"events"`
	Bytes  int64 `json:"bytes"`
}

// Counter counts a day; each begins at 0. The zero value has counted nothing. It is not safe for concurrent use.
type Counter struct {
	used, stored Used
	trickle      float64 // what the share beyond the limit has added up to
}

// DayOf is the day of a time.
func DayOf(t time.Time) int64 { return t.Unix() / 86400 }

// End is when a day ends.
func End(day int64) time.Time { return time.Unix((day+1)*86400, 0).UTC() }

func (c *Counter) on(day int64) *Used {
	if c.used.Day != day {
		c.used, c.trickle = Used{Day: day}, 0
	}
	return &c.used
}

// Add counts what came.
func (c *Counter) Add(now time.Time, events, bytes int64) {
	u := c.on(DayOf(now))
	u.Events += events
	u.Bytes += bytes
}

// Today is what came today.
func (c *Counter) Today(now time.Time) Used { return *c.on(DayOf(now)) }

// Stored takes over what is stored of a day, if it is today: no count is less than that.
func (c *Counter) Stored(now time.Time, s Used) {
	if s.Day != DayOf(now) {
		return
	}
	u := c.on(s.Day)
	u.Events, u.Bytes = max(u.Events, s.Events), max(u.Bytes, s.Bytes)
	c.stored = s
}

// ToStore returns the count of today, and whether so much of it is not stored that it should be: a thousandth of the limit.
func (c *Counter) ToStore(now time.Time, l Limit) (Used, bool) {
	u, stored := *c.on(DayOf(now)), c.stored
	if stored.Day != u.Day {
		stored = Used{}
	}
	much := func(n int64, limit float64) bool { return limit > 0 && n > 0 && float64(n) >= limit/1000 }
	return u, much(u.Events-stored.Events, l.Events) || much(u.Bytes-stored.Bytes, l.Bytes)
}

// Over is what is used up.
type Over struct {
	Bytes       bool // bytes; else events
	Used, Limit float64
	Ends        time.Time
}

// Check returns what is used up, nil if nothing is, or if this upload belongs to the share that is taken all the same.
func (c *Counter) Check(now time.Time, l Limit) *Over {
	if l.None() {
		return nil
	}
	u := c.on(DayOf(now))
	over := &Over{Ends: End(u.Day)}
	switch {
	case l.Events > 0 && float64(u.Events) >= l.Events:
		over.Used, over.Limit = float64(u.Events), l.Events
	case l.Bytes > 0 && float64(u.Bytes) >= l.Bytes:
		over.Bytes, over.Used, over.Limit = true, float64(u.Bytes), l.Bytes
	default:
		return nil
	}
	if c.trickle += l.Trickle; c.trickle >= 1 {
		c.trickle--
		return nil
	}
	return over
}
