package trace

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/warpline/warpline/aggregate"
)

var update = flag.Bool("update", false, "write testdata/state_v1.bin anew: only while no release has written that version")

const olderState = "testdata/state_v1.bin"

// olderParts are those of two traces.
func olderParts(t testing.TB) map[string][][]byte {
	t.Helper()
	all := map[string][][]byte{}
	for _, name := range []string{"whole", "with gaps"} {
		var trace strings.Builder
		for i := range 12 {
			fmt.Fprintf(&trace, `,{"ph":"X","cat":"kernel","name":"%s %d","ts":%d,"dur":2.5,"args":{"device":0,"correlation":%d}}`, name, i%3,
				1_795_176_000_000_000+i, i+1)
		}
		all[name] = bodies(t, []byte("["+trace.String()[1:]+"]"), 1)
		if len(all[name]) != 12 {
			t.Fatalf("%d parts", len(all[name]))
		}
	}
	return all
}

// The state that version 1 of the section has written is read, and written again as it is: whoever takes over counts each part once, also
// those before a gap that was left.
func TestStateOfVersion1(t *testing.T) {
	all := olderParts(t)
	take := func(f *aggregate.Fold, name string, part int) (stored bool) {
		p := &aggregate.Part{Seq: uint64(part + 1), Env: envelope(name, part, 1)}
		f.Take(p, f.Session(p), all[name][part])
		c := p.Counted()
		if c.Events != 1 || c.Stored+c.Duplicates != 1 {
			t.Fatalf("%s, part %d: %+v", name, part, c)
		}
		return c.Stored == 1
	}
	had := map[string]map[int]bool{"whole": {}, "with gaps": {0: true, 1: true, 4: true, 7: true, 8: true}}
	for i := range all["whole"] {
		had["whole"][i] = true
	}
	if *update {
		f := newFold()
		for name, parts := range had {
			for part := range all[name] {
				if parts[part] {
					take(f, name, part)
				}
			}
		}
		f.Flush(1)
		if err := os.WriteFile(olderState, f.AppendState(nil, true), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	state, err := os.ReadFile(olderState)
	if err != nil {
		t.Fatal(err)
	}
	f := newFold()
	if err := f.ApplyState(state); err != nil {
		t.Fatal(err)
	}
	if again := f.AppendState(nil, true); len(again) != len(state) {
		t.Errorf("%d bytes are written again as %d others: the layout needs a new number (Source)", len(state), len(again))
	}
	f.Resume(1795176001e9, 1795176001e9, false)
	for name, parts := range had {
		for part := range all[name] {
			if stored := take(f, name, part); stored == parts[part] {
				t.Errorf("%s, part %d: stored %v, and was it before: %v", name, part, stored, parts[part])
			}
			if take(f, name, part) {
				t.Errorf("%s, part %d counts twice", name, part)
			}
		}
	}
}

// Damage of any kind is an error or another state, and never a panic.
func FuzzState(f *testing.F) {
	state, err := os.ReadFile(olderState)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(state)
	f.Fuzz(func(t *testing.T, state []byte) {
		fold := newFold()
		if fold.ApplyState(state) != nil {
			return
		}
		fold.Resume(1795176001e9, 1795176001e9, false)
		next := newFold()
		if err := next.ApplyState(fold.AppendState(nil, true)); err != nil {
			t.Fatalf("a state is read and not read again: %v", err)
		}
	})
}
