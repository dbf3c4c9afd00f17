package aggregate

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/stream"
)

func TestHistorianSeesWhatIsLost(t *testing.T) {
	born := time.Unix(1_700_000_000, 0)
	for name, c := range map[string]struct {
		created    time.Time
		last       uint64
		reconnects uint64
		suspect    bool
		from, to   uint64 // 0: nothing is lost
	}{
		"grown":                 {born, 120, 3, false, 0, 0},
		"as it was":             {born, 100, 3, false, 0, 0},
		"another connection":    {born, 100, 4, true, 0, 0},
		"shorter":               {born, 90, 3, true, 91, 100},
		"made anew":             {born.Add(time.Hour), 5, 3, true, 1, 100},
		"made anew and further": {born.Add(time.Hour), 500, 3, true, 1, 100},
	} {
		h := &historian{created: born, last: 100, reconnects: 3}
		info := &jetstream.StreamInfo{Created: c.created, State: jetstream.StreamState{LastSeq: c.last}}
		suspect, lost := h.look(info, c.reconnects)
		if lost == nil {
			lost = &stream.Loss{}
		}
		if suspect != c.suspect || lost.From != c.from || lost.To != c.to {
			t.Errorf("%s: suspect %v, lost %d to %d; want %v, %d to %d", name, suspect, lost.From, lost.To, c.suspect, c.from, c.to)
		}
		if suspect, lost := h.look(info, c.reconnects); suspect || lost != nil {
			t.Errorf("%s: told twice", name)
		}
	}
}

// Anchors reach back for days and stay few; the closer to now, the closer together.
func TestAnchors(t *testing.T) {
	var anchors []stream.Point
	const step = int64(20 * time.Second)
	for n := int64(1); n < 20_000; n++ { // nearly five days
		anchors = anchor(anchors, stream.Point{Seq: uint64(n), At: n * step})
	}
	now := anchors[0].At
	if len(anchors) != maxAnchors || now-anchors[1].At > 10*step {
		t.Errorf("%d anchors, the second is %v old", len(anchors), time.Duration(now-anchors[1].At))
	}
	if age := time.Duration(now - anchors[len(anchors)-1].At); age < 24*time.Hour {
		t.Errorf("the oldest is %v old", age)
	}
	for i := 1; i < len(anchors); i++ {
		if anchors[i].Seq >= anchors[i-1].Seq {
			t.Errorf("anchor %d is not older than the one before", i)
		}
	}
}
