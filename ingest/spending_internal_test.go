package ingest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/tenant"
)

// door is a gateway's part in the limits, with a clock of its own.
type door struct {
	spending *spending
	of       *guest
	meters   []*meter
	dead     bool
	inbox    [][]byte
}

func newDoor(limits tenant.Limits, keys int) *door {
	d := &door{spending: newSpending()}
	d.of = (&guests{defaults: limits, spending: d.spending}).of("red")
	for i := range keys {
		d.meters = append(d.meters, newMeter(tenant.Hash(fmt.Sprint(i)), tenant.Key{Tenant: "red"}, limits, limits, d.of))
	}
	return d
}

// A minute of one tenant that sends more than it may, in virtual time: gateways tell each other each tenth of a second, and hear it 20 ms
// later. What it gets is its rate and one burst, whichever gateways it meets.
func TestAMinuteOfATenantOverItsLimit(t *testing.T) {
	const perSecond, burst = 10_000, 2
	only := func(gateway int) func(int, time.Duration) int { return func(int, time.Duration) int { return gateway } }
	even := func(i int, _ time.Duration) int { return i % 4 }
	moving := func(_ int, at time.Duration) int { return int(at/time.Second) % 4 }
	for name, c := range map[string]struct {
		gateways, keys int
		to             func(i int, at time.Duration) int // which gateway request i meets
		over           float64                           // how many times its limit it sends
		killed         time.Duration
		joins          time.Duration
	}{
		"1 gateway":                      {gateways: 1, keys: 1, to: only(0), over: 3},
		"4 even":                         {gateways: 4, keys: 1, to: even, over: 3},
		"4, all through one":             {gateways: 4, keys: 1, to: only(2), over: 3},
		"4 even, 20 keys":                {gateways: 4, keys: 20, to: even, over: 3},
		"4 even, 10 times the limit":     {gateways: 4, keys: 1, to: even, over: 10},
		"4, moves each second":           {gateways: 4, keys: 1, to: moving, over: 3},
		"4 even, one killed half-way":    {gateways: 4, keys: 1, to: even, over: 3, killed: 30 * time.Second},
		"1, and 3 more begin half-way":   {gateways: 4, keys: 1, to: even, over: 3, joins: 30 * time.Second},
		"4 even, just below the limit":   {gateways: 4, keys: 1, to: even, over: 0.97},
		"4, all through one, just below": {gateways: 4, keys: 1, to: only(1), over: 0.97},
	} {
		t.Run(name, func(t *testing.T) {
			limits := tenant.Limits{EventsPerSecond: perSecond, BurstSeconds: burst}.Or(tenant.DefaultLimits())
			var all []*door
			for range c.gateways {
				all = append(all, newDoor(limits, c.keys))
			}
			begin := time.Now() // rates begins full at any time
			const events, lag = 40, 20 * time.Millisecond
			random := rand.New(rand.NewPCG(1, 2))
			taken, sent, i := 0, 0, 0
			for at := time.Duration(0); at < time.Minute; at += time.Millisecond {
				now := begin.Add(at)
				if c.killed > 0 && at == c.killed {
					all[3].dead = true // with what it had not told yet
				}
				if c.joins > 0 && at == c.joins {
					for j := range all[1:] {
						all[j+1] = newDoor(limits, c.keys)
					}
				}
				for j, d := range all {
					if d.dead || (c.joins > at && j > 0) {
						continue
					}
					if at%tellEvery == time.Duration(j)*7*time.Millisecond { // each at its own time
						for _, m := range d.spending.messages(now) {
							for k, to := range all {
								if k != j && (c.joins <= at || k == 0) {
									to.inbox = append(to.inbox, m)
								}
							}
						}
					}
					if (at-lag)%tellEvery == 30*time.Millisecond {
						for _, m := range d.inbox {
							told, err := d.spending.read(m)
							if err != nil {
								t.Fatal(err)
							}
							for _, entry := range told {
								d.of.heard(now, entry)
							}
						}
						d.inbox = nil
					}
				}
				for want := int(at.Seconds() * perSecond * c.over); sent < want; sent += events {
					d := all[c.to(i, at)]
					i++
					if d.dead || (c.joins > at && d != all[0]) {
						d = all[0]
					}
					m := d.meters[random.IntN(len(d.meters))]
					if m.admitRequest(now) == nil && m.admit(now, 100) == nil {
						m.charge(now, cost{events: events})
						taken += events
					}
				}
			}
			want := min(60*perSecond*c.over, float64((60+burst)*perSecond))
			if off := float64(taken)/want - 1; off > 0.05 || off < -0.05 {
				t.Errorf("took %d events in a minute, want %.0f: %.1f %% off", taken, want, off*100)
			} else {
				t.Logf("took %d events in a minute, %.2f %% off", taken, off*100)
			}
		})
	}
}

// Messages come back as they were, none is too large, and a gateway does not read its own.
func TestSpendingMessages(t *testing.T) {
	limits := tenant.DefaultLimits()
	from, to := newSpending(), newSpending()
	all := guests{defaults: limits, spending: from}
	now, want := time.Now(), map[string]int64{}
	for i := range 5000 {
		name := fmt.Sprintf("tenant-%d", i)
		m := newMeter(tenant.Hash(name), tenant.Key{Tenant: name, Limits: tenant.Limits{BurstSeconds: 1}}, limits, limits, all.of(name))
		m.charge(now, cost{events: uint64(i + 1), bytes: 7})
		m.charge(now, cost{events: 1})
		want[name], want[keyName(tenant.Hash(name))] = int64(i+2), int64(i+2)
	}
	messages := from.messages(now)
	for _, m := range messages {
		if len(m) > tellMost {
			t.Errorf("a message of %d bytes", len(m))
		}
		if own, err := from.read(m); len(own) != 0 || err != nil {
			t.Errorf("it read its own: %v %v", own, err)
		}
		entries, err := to.read(m)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.took[0] != want[e.name] || e.took[1] != 7 || e.took[3] != 0 {
				t.Fatalf("%q: %v, want %d events", e.name, e.took, want[e.name])
			}
			delete(want, e.name)
		}
	}
	if len(want) != 0 || len(from.messages(now)) != 0 {
		t.Errorf("%d were not told, or some twice", len(want))
	}
}

func FuzzSpending(f *testing.F) {
	s := newSpending()
	of := (&guests{defaults: tenant.DefaultLimits(), spending: s}).of("red")
	of.take(time.Now(), 0, 5)
	for _, m := range s.messages(time.Now()) {
		f.Add(m)
		f.Add(m[:len(m)-1])
		f.Add(append(bytes.Clone(m), 0))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := newSpending().read(b)
		if err != nil && len(entries) > 0 {
			t.Fatal("entries of a bad message")
		}
		for _, e := range entries {
			if e.name == "" {
				t.Fatal("an entry without a name")
			}
			of.heard(time.Now(), e)
		}
	})
}

// BenchmarkLimits is what authentication and limits cost a request: 10 000 tenants with 10 keys each, and all of it told to others.
func BenchmarkLimits(b *testing.B) {
	limits, all := tenant.DefaultLimits(), guests{defaults: tenant.DefaultLimits(), spending: newSpending()}
	k := &keyring{guests: &all, defaults: limits, meters: map[string]*meter{}, retention: newRetention(tenant.Classes{{Raw: 7, Rollup: 395}}),
		scoped: map[string]tenant.Key{}, households: map[string]*household{}}
	k.loaded.Store(true)
	var headers []string
	for i := range 100_000 {
		secret := fmt.Sprintf("gpfl_%d", i)
		k.put(tenant.Hash(secret), tenant.Key{ID: tenant.ID(secret), Tenant: fmt.Sprintf("tenant-%d", i%10_000),
			Limits: tenant.Limits{BurstSeconds: 3, EventsPerDay: 1e12}})
		headers = append(headers, "Bearer "+secret)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		m, no := k.authenticate(&http.Request{Header: http.Header{"Authorization": {headers[i*7919%len(headers)]}}})
		if no != nil {
			b.Fatal(no)
		}
		now := time.Now()
		m.admitRequest(now)
		m.admit(now, 100)
		m.charge(now, cost{events: 10, raw: 1000})
		if i%10_000 == 0 {
			all.spending.messages(now)
		}
	}
}
