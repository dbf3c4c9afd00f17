package sink

import (
	"context"
	"testing"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
)

// An owner that takes a lane while the one before it is still moving the mark must not take the moved mark for one beyond the stream's
// end: it would begin again behind what is inserted, under tokens that ClickHouse has not seen.
func TestTakingALaneWhileItMoves(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1, Lanes: 1})
	ctx := t.Context()
	old := &marks{kv: s.Marks, key: markKey(0)}
	end := uint64(10)
	state := func(context.Context, *mark) (streamState, error) { return streamState{created: 1, lastSeq: end}, nil }
	begin := func(context.Context, streamState) (uint64, error) { return 0, nil }
	if _, err := old.take(ctx, "old", state, begin); err != nil {
		t.Fatal(err)
	}
	moved := false
	slow := func(ctx context.Context, _ *mark) (streamState, error) {
		now := streamState{created: 1, lastSeq: end} // the answer is on its way …
		if !moved {
			moved = true
			end = 20 // … and the stream grows, and the old owner inserts what came
			next := old.mark.clone()
			next.Mark = 15
			if err := old.write(ctx, next); err != nil {
				t.Fatal(err)
			}
		}
		return now, nil
	}
	successor := &marks{kv: s.Marks, key: markKey(0)}
	why, err := successor.take(ctx, "new", slow, begin)
	if err != nil || why != "" || successor.mark.Mark != 15 {
		t.Errorf("taken at mark %d (%q, %v), want the old owner's 15", successor.mark.Mark, why, err)
	}
}
