package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/warpline/warpline/testdata"
)

// A round is the real traces as they are but for times and ids: encoding/json counts what the mould says, rounds follow each other, and no
// two rounds or traces share an id.
func TestTraceMould(t *testing.T) {
	m, err := newTraceMould(testdata.Traces, "traces/real")
	if err != nil {
		t.Fatal(err)
	}
	type element struct {
		Ph, Cat, Name string
		TS            json.Number
		Args          map[string]any
	}
	read := func(round int64) (all []element) {
		text := append([]byte("["), bytes.TrimRight(m.append(nil, m.body, round), ", \n")...)
		d := json.NewDecoder(bytes.NewReader(append(text, ']')))
		d.UseNumber()
		if err := d.Decode(&all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	rounds := [][]element{read(0), read(1), read(1000)}
	pairs, last := map[string][2]int{}, math.Inf(-1) // by correlation: how many calls and how much GPU work have it
	for i, round := range rounds {
		var counts TraceCounts
		end := last
		for n := range round {
			e, first := &round[n], &rounds[0][n]
			counts.count(e.Ph, e.Cat)
			if at, err := e.TS.Float64(); err != nil || at <= last {
				t.Fatalf("round %d, event %d: %v is not behind the round before", i, n, e.TS)
			} else {
				end = max(end, at)
			}
			if e.Name != first.Name || fmt.Sprint(e.Args["Ev Idx"]) != fmt.Sprint(first.Args["Ev Idx"]) {
				t.Fatalf("round %d, event %d: %q was %q", i, n, e.Name, first.Name)
			}
			if id := fmt.Sprint(e.Args["correlation"]); e.Ph == "X" && id != "0" && id != "<nil>" {
				both := pairs[id]
				both[map[bool]int{true: 1}[e.Cat == "kernel"]]++
				pairs[id] = both
			}
		}
		if last = end; counts != m.each {
			t.Errorf("round %d holds %+v, want %+v", i, counts, m.each)
		}
	}
	launched := 0
	for id, n := range pairs {
		if n[1] > 1 {
			t.Errorf("correlation %s is of %d kernels", id, n[1])
		}
		if n[0] > 0 && n[1] > 0 {
			launched++
		}
	}
	if m.each.Events < 4000 || launched < 3*100 {
		t.Errorf("%d events and %d kernels with a launch: nothing was compared", m.each.Events, launched)
	}
}
