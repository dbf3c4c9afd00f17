package active

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warpline/warpline/ingest/peers"
)

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

func TestALimitHoldsForNewSessionsAlone(t *testing.T) {
	s := New()
	begin := func(at time.Duration, tenant string, id ID, most int, want bool, active int) {
		t.Helper()
		if n, ok := s.May(tenant, id, most); ok != want {
			t.Errorf("after %v session %d of %s may begin: %v with %d, want %v", at, id, tenant, ok, n, want)
		}
		if n, ok := s.Begin(noon.Add(at), tenant, id, most); ok != want || n != active {
			t.Errorf("after %v session %d of %s begins: %v with %d, want %v with %d", at, id, tenant, ok, n, want, active)
		}
	}
	begin(0, "red", 1, 2, true, 1)
	begin(0, "red", 2, 2, true, 2)
	begin(0, "red", 3, 2, false, 2)
	begin(0, "blue", 3, 2, true, 1)          // another tenant's
	begin(time.Second, "red", 1, 1, true, 2) // it goes on, also where the limit is less now
	begin(time.Second, "red", 3, 1, false, 2)
	s.End(noon, "red", 2)
	s.End(noon, "red", 7) // was never there
	begin(2*time.Second, "red", 3, 2, true, 2)
	s.Sweep(noon.Add(Silence + 2*time.Second)) // 1 was silent since the first second
	begin(Silence, "red", 4, 2, true, 2)
	begin(Silence, "red", 5, 2, false, 2)
	s.Sweep(noon.Add(3 * Silence))
	s.Tell(noon.Add(3 * Silence))
	s.Sweep(noon.Add(3 * Silence))
	if len(s.by) != 0 || s.own != 0 {
		t.Errorf("%d tenants and %d sessions are kept for ever", len(s.by), s.own)
	}
}

// gateways tell each other, as the bucket does it: each set in its last form.
type gateways struct {
	t      *testing.T
	all    map[string]*Sessions
	stored map[[2]string][]byte
}

func (g *gateways) tell(now time.Time, name string) {
	for _, set := range g.all[name].Tell(now) {
		g.stored[[2]string{set.Tenant, name}] = set.Value
		for other, s := range g.all {
			if other != name {
				set.Gateway = name
				if err := s.Heard(now, set); err != nil {
					g.t.Fatal(err)
				}
			}
		}
	}
}

// begin starts a gateway, which reads what is stored.
func (g *gateways) begin(now time.Time, name string) *Sessions {
	s := New()
	there := map[[2]string]bool{}
	for key, value := range g.stored {
		there[key] = true
		if err := s.Heard(now, peers.Set{Tenant: key[0], Gateway: key[1], Value: value}); err != nil {
			g.t.Fatal(err)
		}
	}
	s.Are(there, name)
	g.all[name] = s
	return s
}

// A limit is for all gateways together. One that ends leaves what it knew, and one that begins knows it; a session ends at all of them,
// whichever is told.
func TestGatewaysKnowTheSameSessions(t *testing.T) {
	g := &gateways{t: t, all: map[string]*Sessions{}, stored: map[[2]string][]byte{}}
	a, b := g.begin(noon, "a"), g.begin(noon, "b")
	now := noon
	for id := range ID(10) {
		to := []*Sessions{a, b}[id%2]
		if _, ok := to.Begin(now, "red", id, 10); !ok {
			t.Fatal(id)
		}
	}
	a.Begin(now, "red", 1, 10) // both have it
	now = now.Add(time.Second)
	g.tell(now, "a")
	g.tell(now, "b")
	for name, s := range g.all {
		if n, ok := s.May("red", 11, 10); ok || n != 10 {
			t.Errorf("%s knows %d", name, n)
		}
		if n, ok := s.May("red", 8, 10); !ok {
			t.Errorf("%s does not know a session that goes on among %d", name, n)
		}
	}
	b.End(now, "red", 1)
	b.End(now, "red", 2) // only a had it
	now = now.Add(time.Second)
	g.tell(now, "b")
	g.tell(now, "a")
	for name, s := range g.all {
		if n, _ := s.May("red", 11, 10); n != 8 {
			t.Errorf("%s knows %d after two have ended", name, n)
		}
	}
	b.Begin(now.Add(time.Second), "red", 2, 10) // comes back
	now = now.Add(2 * time.Second)
	g.tell(now, "a")
	g.tell(now, "b")
	if n, _ := a.May("red", 11, 10); n != 9 {
		t.Errorf("a knows %d after one came back", n)
	}

	// Both are killed.
	g.all = map[string]*Sessions{}
	c := g.begin(now, "c")
	if n, ok := c.May("red", 11, 9); ok || n != 9 {
		t.Errorf("after a restart %d are known", n)
	}
	c.End(now, "red", 4)
	if n, _ := c.May("red", 11, 9); n != 8 {
		t.Errorf("after one has ended %d are known", n)
	}
	g.tell(now, "c")
	g.all = map[string]*Sessions{}
	d := g.begin(now, "d")
	if n, _ := d.May("red", 11, 9); n != 8 {
		t.Errorf("after another restart %d are known: what has ended came back", n)
	}
	// What the dead have left is silent in the end.
	if empty := d.Sweep(now.Add(Silence + time.Minute)); len(empty) != 3 {
		t.Errorf("%v are to be removed, want what a, b and c have left", empty)
	}
	if n, ok := d.May("red", 11, 1); !ok || n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}

// A session that goes on is told again before others take it for silent.
func TestSessionsThatGoOnAreTold(t *testing.T) {
	g := &gateways{t: t, all: map[string]*Sessions{}, stored: map[[2]string][]byte{}}
	a, b := g.begin(noon, "a"), g.begin(noon, "b")
	for at := time.Duration(0); at < 5*Silence; at += 10 * time.Second {
		now := noon.Add(at)
		a.Begin(now, "red", 1, 1)
		g.tell(now, "a")
		b.Sweep(now)
		if _, ok := b.Begin(now, "red", 2, 1); ok {
			t.Fatalf("after %v b let another begin", at)
		}
		g.tell(now, "b")
	}
}

// A key that makes sessions up costs no more memory than its limit; all tenants together have a bound, and beyond it the heaviest forgets.
func TestSessionsAreBounded(t *testing.T) {
	s := New()
	s.most = 1000
	for id := range ID(1e6) {
		s.Begin(noon, "hostile", id, 500)
	}
	if n, _ := s.May("hostile", 0, 500); n != 500 || s.own != 500 {
		t.Errorf("%d sessions of a million are kept", n)
	}
	for i := range 400 {
		if _, ok := s.Begin(noon.Add(time.Minute), "quiet", ID(i), 1e9); !ok {
			t.Fatal("the quiet one was refused")
		}
	}
	for i := range 300 {
		s.Begin(noon.Add(time.Minute), fmt.Sprint("tenant", i), 1, 1)
	}
	if s.own > 1000 {
		t.Errorf("%d sessions are kept", s.own)
	}
	if n, _ := s.May("quiet", 0, 1e9); n != 400 {
		t.Errorf("%d sessions of the quiet tenant are known, want all 400", n)
	}
	if n, _ := s.May("hostile", 0, 1e9); n == 0 || n > 300 {
		t.Errorf("%d sessions of the heaviest are known", n)
	}
	for id := range ID(2 * Most) {
		s.Begin(noon, "most", id, 1e9)
	}
	if n, _ := s.May("most", 0, 1e9); n > Most {
		t.Errorf("%d sessions of one tenant", n)
	}
}

// Counts are right whatever happens in whatever order.
func TestCountsAreRight(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		g := &gateways{t: t, all: map[string]*Sessions{}, stored: map[[2]string][]byte{}}
		names := []string{"a", "b", "c"}
		for _, name := range names {
			g.begin(noon, name)
		}
		now := noon
		for range 3000 {
			now = now.Add(time.Duration(r.IntN(2000)) * time.Millisecond)
			name := names[r.IntN(3)]
			s, id := g.all[name], ID(r.IntN(40))
			switch r.IntN(8) {
			case 0:
				s.End(now, "red", id)
			case 1:
				s.Sweep(now)
			case 2, 3:
				g.tell(now, name)
			case 4:
				if r.IntN(50) == 0 {
					g.begin(now, name)
				}
			default:
				s.Begin(now, "red", id, 20)
			}
			for name, s := range g.all {
				of := s.by["red"]
				if of == nil {
					continue
				}
				different := map[ID]bool{}
				for id := range of.own {
					different[id] = true
				}
				for _, told := range of.told {
					for id := range told.times {
						different[id] = true
					}
				}
				if len(different) != of.n || s.own != len(of.own) {
					t.Fatalf("seed %d: %s counts %d of %d, and %d of %d own", seed, name, of.n, len(different), s.own, len(of.own))
				}
			}
		}
	}
}

func FuzzSets(f *testing.F) {
	s := New()
	for id := range ID(5) {
		s.Begin(noon.Add(time.Duration(id)*time.Minute), "red", id*1e18, 9)
	}
	for _, set := range s.Tell(noon) {
		f.Add(set.Value)
		f.Add(set.Value[:len(set.Value)-1])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s := New()
		if err := s.Heard(noon, peers.Set{Tenant: "red", Gateway: "x", Value: b}); err != nil && len(s.by) > 0 {
			t.Fatal("a bad set was taken over")
		}
		s.Sweep(noon.Add(Silence + 2*time.Second))
		if n, _ := s.May("red", 1, 1); n != 0 {
			t.Fatalf("%d sessions never end", n)
		}
	})
}

// BenchmarkBegin is what a limit costs an upload.
func BenchmarkBegin(b *testing.B) {
	s := New()
	b.ReportAllocs()
	for i := range b.N {
		s.Begin(noon, "red", ID(i%50_000), 1e6)
	}
}
