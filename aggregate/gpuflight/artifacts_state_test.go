package gpuflight

import (
	"errors"
	"testing"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/proto/gpuflight"
)

// What a session has used up of its room is known to a successor.
func TestArtifactRoomSurvivesAHandOver(t *testing.T) {
	f := newTestFlight(aggregate.Config{})
	s := foldPart(f, 1, []byte("{}\n"))
	if err := flightOf(f, s).room(maxSessionRows - 1); err != nil {
		t.Fatal(err)
	}
	g := newTestFlight(aggregate.Config{})
	if err := g.ApplyState(f.AppendState(nil, true)); err != nil {
		t.Fatal(err)
	}
	heir := known(g, "t", "s")
	var bad *gpuflight.LineError
	if err := flightOf(g, heir).room(2); !errors.As(err, &bad) || bad.Reason != gpuflight.ReasonArtifactTooLarge {
		t.Errorf("room for more than there is: %v", err)
	}
	if err := flightOf(g, heir).room(1); err != nil {
		t.Errorf("no room for the last row: %v", err)
	}
}
