package aggregate

import (
	"fmt"
	"testing"
	"time"
)

// A tenant with more sessions than a partition keeps loses its own, and no other's.
func TestFloodOfSessions(t *testing.T) {
	f := newTestFolder()
	now := time.Now().UnixNano()
	add := func(tenant string, i int, at int64) {
		s := newSession(SessionKey{tenant, fmt.Sprint(i)}, "")
		s.LastReceivedAt = at
		f.Sessions[s.Key] = s
	}
	for i := range maxSessions + 500 {
		add("loud", i, now-int64(i))
	}
	for i := range 20 {
		add("modest", i, now-int64(time.Hour))
	}
	f.forgetSilent(now)
	left := map[string]int{}
	for k := range f.Sessions {
		left[k.Tenant]++
	}
	if left["modest"] != 20 || left["loud"] != maxSessions-20 || f.Sessions[SessionKey{"loud", "0"}] == nil {
		t.Errorf("left are %v", left)
	}
}
func TestFairShare(t *testing.T) {
	for _, c := range []struct {
		has        map[string]int
		room, want int
	}{
		{nil, 10, 0},
		{map[string]int{"a": 50}, 10, 10},
		{map[string]int{"a": 50, "b": 2}, 10, 8},
		{map[string]int{"a": 50, "b": 60, "c": 1, "d": 0}, 11, 5},
		{map[string]int{"a": 5, "b": 5}, 4, 2},
	} {
		if got := FairShare(c.has, c.room); got != c.want {
			t.Errorf("%v in %d: %d, want %d", c.has, c.room, got, c.want)
		}
	}
}
