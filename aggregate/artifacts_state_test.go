package aggregate

import (
	"errors"
	"testing"

	"github.com/warpline/warpline/proto/gpuflight"
)

// What a session has used up of its room is known to a successor.
func TestArtifactRoomSurvivesAHandOver(t *testing.T) {
	cfg := Config{}.withDefaults()
	f := newFolder(&cfg, newCounters(nil))
	s := newSession(sessionKey{"t", "s"}, "token")
	f.sessions[s.key] = s
	if err := s.room(maxSessionRows - 1); err != nil {
		t.Fatal(err)
	}
	g := newFolder(&cfg, newCounters(nil))
	if err := g.applyState(f.appendState(nil, true)); err != nil {
		t.Fatal(err)
	}
	heir := g.sessions[s.key]
	var bad *gpuflight.LineError
	if err := heir.room(2); !errors.As(err, &bad) || bad.Reason != gpuflight.ReasonArtifactTooLarge {
		t.Errorf("room for more than there is: %v", err)
	}
	if err := heir.room(1); err != nil {
		t.Errorf("no room for the last row: %v", err)
	}
}
