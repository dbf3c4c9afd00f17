package aggregate

import (
	"testing"

	"github.com/zeebo/xxh3"
)

// A silent session keeps half of each hash: it knows what it knew, its state is half as large, and a successor that reads the whole or only
// the changes knows the same.
func TestSilentSessionsKeepHalfOfEachHash(t *testing.T) {
	hash := func(i int) xxh3.Uint128 { return xxh3.Hash128([]byte{byte(i), byte(i >> 8)}) }
	f := newTestFolder()
	s := newSession(SessionKey{"t", "s"}, "token")
	f.Sessions[s.Key] = s
	for i := range 1000 {
		s.parts.Add(hash(i))
	}
	f.Touch(s)
	whole := f.AppendState(nil, false)
	f.Published()
	f.ExpireIdle(1 << 62) // also forgets, but not what waits; the session here is put back
	f.Sessions[s.Key], f.removed = s, nil
	s.parts.Shorten()
	for i := range 1010 {
		if s.parts.Add(hash(i)) != (i >= 1000) {
			t.Fatalf("line %d", i)
		}
	}
	f.Touch(s)
	change, snapshot := f.AppendState(nil, false), f.AppendState(nil, true)
	if len(snapshot) > len(whole)*55/100 {
		t.Errorf("%d bytes, before %d", len(snapshot), len(whole))
	}
	for name, states := range map[string][][]byte{"changes": {whole, change}, "snapshot": {snapshot}} {
		g := newTestFolder()
		for _, state := range states {
			if err := g.ApplyState(state); err != nil {
				t.Fatal(err)
			}
		}
		heir := g.Sessions[s.Key]
		for i := range 1020 {
			if heir.parts.Add(hash(i)) != (i >= 1010) {
				t.Fatalf("%s: line %d", name, i)
			}
		}
	}
}
