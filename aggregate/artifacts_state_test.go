package aggregate

import (
	"errors"
	"testing"

	"github.com/warpline/warpline/proto/gpuflight"
)

// What a session has used up of its room is known to a successor; a state from before there was any begins with none.
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

	// A change of version 2 is one of version 3 without what came at the session's end.
	s.artifactRows = 0
	state := f.appendState(nil, true)
	state[0] = 2
	g = newFolder(&cfg, newCounters(nil))
	if err := g.applyState(state[:len(state)-1]); err != nil || g.sessions[s.key] == nil {
		t.Errorf("a state of version 2: %v", err)
	}
	state[0] = 1
	if err := newFolder(&cfg, newCounters(nil)).applyState(state); !errors.Is(err, errState) {
		t.Errorf("a state of version 1: %v", err)
	}
}
