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
	s := newSession(sessionKey{"t", "s"}, "token")
	f.stateOf(s, 0)
	f.sessions[s.key] = s
	for i := range 1000 {
		flightOf(s).lines.add(hash(i))
	}
	f.touch(s)
	whole := f.appendState(nil, false)
	f.published()
	f.expireIdle(1 << 62) // also forgets, but not what waits; the session here is put back
	f.sessions[s.key], f.removed = s, nil
	s.parts.shorten()
	flightOf(s).lines.shorten()
	for i := range 1010 {
		if flightOf(s).lines.add(hash(i)) != (i >= 1000) {
			t.Fatalf("line %d", i)
		}
	}
	f.touch(s)
	change, snapshot := f.appendState(nil, false), f.appendState(nil, true)
	if len(snapshot) > len(whole)*55/100 {
		t.Errorf("%d bytes, before %d", len(snapshot), len(whole))
	}
	for name, states := range map[string][][]byte{"changes": {whole, change}, "snapshot": {snapshot}} {
		g := newTestFolder()
		for _, state := range states {
			if err := g.applyState(state); err != nil {
				t.Fatal(err)
			}
		}
		heir := g.sessions[s.key]
		for i := range 1020 {
			if flightOf(heir).lines.add(hash(i)) != (i >= 1010) {
				t.Fatalf("%s: line %d", name, i)
			}
		}
	}
}
