package quota_test

import (
	"testing"
	"time"

	"github.com/warpline/warpline/ingest/quota"
)

// noon is a time of a day; midnight is 12 hours later.
var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func TestADayEndsAtMidnightUTC(t *testing.T) {
	var c quota.Counter
	l := quota.Limit{Events: 100}
	c.Add(noon, 99, 1<<40)
	if c.Check(noon, l) != nil {
		t.Error("refused before it is used up")
	}
	c.Add(noon, 51, 0)
	over := c.Check(noon.Add(12*time.Hour-time.Nanosecond), l)
	if over == nil || over.Bytes || over.Used != 150 || over.Limit != 100 || !over.Ends.Equal(noon.Add(12*time.Hour)) {
		t.Fatalf("%+v", over)
	}
	if c.Check(noon.Add(12*time.Hour), l) != nil {
		t.Error("refused on the next day")
	}
	if c.Check(noon, quota.Limit{Bytes: 1}) != nil {
		t.Error("the count of the old day came back")
	}
}

func TestBytesAndNone(t *testing.T) {
	var c quota.Counter
	c.Add(noon, 1, 1000)
	if c.Check(noon, quota.Limit{}) != nil || c.Check(noon, quota.Limit{Bytes: 1001}) != nil {
		t.Error("refused")
	}
	if over := c.Check(noon, quota.Limit{Bytes: 1000}); over == nil || !over.Bytes {
		t.Errorf("%+v", over)
	}
}

// Beyond the limit a share passes, so that nobody goes blind.
func TestTrickle(t *testing.T) {
	for share, want := range map[float64]int{0: 0, 0.01: 10, 0.25: 250, 1: 1000} {
		var c quota.Counter
		c.Add(noon, 5, 0)
		passed := 0
		for range 1000 {
			if c.Check(noon, quota.Limit{Events: 5, Trickle: share}) == nil {
				passed++
			}
		}
		if passed < want-1 || passed > want {
			t.Errorf("of 1000 %d passed at a share of %g, want %d", passed, share, want)
		}
	}
}

// What is stored is known after a restart, and a count is stored when a thousandth of the limit is new.
func TestStored(t *testing.T) {
	l := quota.Limit{Events: 10_000}
	var c quota.Counter
	c.Add(noon, 9, 0)
	if _, much := c.ToStore(noon, l); much {
		t.Error("9 of 10 000 are stored")
	}
	c.Add(noon, 10_000, 0)
	u, much := c.ToStore(noon, l)
	if !much || u.Events != 10_009 {
		t.Fatalf("%+v %t", u, much)
	}
	var next quota.Counter
	next.Add(noon, 3, 7)
	next.Stored(noon, u)
	if over := next.Check(noon, l); over == nil || over.Used != 10_009 {
		t.Errorf("after a restart: %+v", over)
	}
	if u, much := next.ToStore(noon, l); much || u.Bytes != 7 {
		t.Errorf("it would be stored again: %+v", u)
	}
	next.Stored(noon.Add(24*time.Hour), u)
	if next.Check(noon.Add(24*time.Hour), l) != nil {
		t.Error("yesterday's count holds today")
	}
}
