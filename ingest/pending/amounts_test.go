package pending

import (
	"maps"
	"testing"
	"time"

	"github.com/warpline/warpline/ingest/peers"
)

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// one is a gateway with what it has on its way.
type one struct {
	*Amounts
	own map[string]Amount
}

func gateway() *one {
	g := &one{own: map[string]Amount{}}
	g.Amounts = New(func() map[string]Amount { return maps.Clone(g.own) })
	return g
}

// What a gateway says is known to others until it is in SQL, also when the gateway has ended meanwhile.
func TestWhatOthersHaveOnTheirWay(t *testing.T) {
	a, b := gateway(), gateway()
	now := noon
	tell := func() (sets int) {
		t.Helper()
		now = now.Add(time.Second)
		for _, set := range a.Tell(now) {
			set.Gateway = "a"
			sets++
			if err := b.Heard(now, set); err != nil {
				t.Fatal(err)
			}
		}
		return sets
	}
	is := func(what, tenant string, want int64) {
		t.Helper()
		if got := b.Of(tenant); got != want {
			t.Errorf("%s: %d bytes of %s, want %d", what, got, tenant, want)
		}
	}
	a.own["red"] = Amount{Bytes: 100, Ends: map[int]uint64{0: 10, 3: 5}}
	a.own["blue"] = Amount{Bytes: 7, Ends: map[int]uint64{0: 11}}
	if n := tell(); n != 2 {
		t.Errorf("%d sets", n)
	}
	if n := tell(); n != 0 {
		t.Errorf("%d sets of what did not change", n)
	}
	is("told", "red", 100)
	is("told", "blue", 7)
	is("told", "green", 0)
	a.Untold("red")
	if n := tell(); n != 1 {
		t.Errorf("%d sets after one could not be stored", n)
	}
	a.own["red"] = Amount{Bytes: 60, Ends: map[int]uint64{0: 12, 3: 5}}
	delete(a.own, "blue")
	tell()
	is("less", "red", 60)
	is("nothing", "blue", 0)
	// From here on a is dead.
	b.Reached(0, 11)
	is("not all of a partition", "red", 60)
	b.Reached(0, 12)
	is("one of two partitions", "red", 60)
	if empty := b.Sweep(now.Add(time.Hour)); len(empty) != 0 {
		t.Errorf("%v would be removed", empty)
	}
	b.Reached(3, 9)
	is("all", "red", 0)
	if empty := b.Sweep(now.Add(silent)); len(empty) != 1 || empty[0].Tenant != "red" || empty[0].Gateway != "a" {
		t.Errorf("%v is to be removed", empty)
	}
	a.own["red"] = Amount{Bytes: 50, Ends: map[int]uint64{0: 40}}
	tell()
	b.Reached(0, 1) // the stream was made anew
	is("a new stream", "red", 0)
	a.own["red"] = Amount{Bytes: 50, Ends: map[int]uint64{0: 40}}
	a.Untold("red")
	tell()
	b.Are(map[[2]string]bool{}, "b")
	is("whose bucket lost it", "red", 0)
	if len(b.heard) != 0 {
		t.Errorf("%v is kept", b.heard)
	}
}

func TestAmountsThatCannotBeRead(t *testing.T) {
	a := gateway()
	for _, value := range []string{"", "x", `{"bytes":-1}`, `{"bytes":"1"}`, `{"bytes":99999999999999999999}`, `{"ends":[1]}`} {
		if err := a.Heard(noon, peers.Set{Tenant: "red", Gateway: "x", Value: []byte(value)}); err == nil {
			t.Errorf("%q was taken over", value)
		}
	}
	if a.Of("red") != 0 || len(a.heard) != 0 {
		t.Error("something was kept")
	}
}
