package aggregate

import (
	"errors"
	"testing"

	"github.com/warpline/warpline/proto/gpuflight"
)

// What a session has used up of its room is known to a successor.
func TestArtifactRoomSurvivesAHandOver(t *testing.T) {
	cfg := testConfig()
	f := newFolder(&cfg, newCounters(nil))
	s := newSession(sessionKey{"t", "s"}, "token")
	f.stateOf(s, 0)
	f.sessions[s.Key] = s
	if err := flightOf(s).room(maxSessionRows - 1); err != nil {
		t.Fatal(err)
	}
	g := newFolder(&cfg, newCounters(nil))
	if err := g.ApplyState(f.AppendState(nil, true)); err != nil {
		t.Fatal(err)
	}
	heir := g.sessions[s.Key]
	var bad *gpuflight.LineError
	if err := flightOf(heir).room(2); !errors.As(err, &bad) || bad.Reason != gpuflight.ReasonArtifactTooLarge {
		t.Errorf("room for more than there is: %v", err)
	}
	if err := flightOf(heir).room(1); err != nil {
		t.Errorf("no room for the last row: %v", err)
	}
}
