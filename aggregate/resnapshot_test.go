package aggregate_test

import (
	"context"
	"testing"
	"time"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/stream"
)

// The store of snapshots is deleted under an owner and made anew: the owner writes another snapshot and points to it, so a successor begins
// and knows what was folded, although nothing was uploaded since.
func TestSnapshotsAreWrittenAnew(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	ctx, cancel := context.WithCancel(t.Context())
	kept := make(chan struct{})
	go func() { defer close(kept); s.Keep(ctx, broker.KeeperConfig{Every: 100 * time.Millisecond}) }()
	defer func() { cancel(); <-kept }()
	cfg := fast
	cfg.SnapshotChunks = 2
	stop := start(t, s, cfg)
	line := []byte(`{"type":"job_start","session_id":"x","app":"a","ts_ns":1795175929972801292}` + "\n")
	for _, identity := range []string{"a", "b", "c", "d"} {
		publish(t, s, stream.Envelope{Session: "x", Identity: identity}, line)
		time.Sleep(50 * time.Millisecond) // a chunk each
	}
	waitFor(t, s, "all folded", func(sum totals) bool { return sum["usage_data.events"] == 4 })
	snapshot := func() string {
		msg, err := s.Rows.GetLastMsgForSubject(ctx, stream.RowsSubject(0))
		if err != nil {
			t.Fatal(err)
		}
		c, _, _, err := stream.ParseChunk(msg.Data)
		if err != nil {
			t.Fatal(err)
		}
		return c.Snapshot.Object
	}
	for deadline := time.Now().Add(60 * time.Second); snapshot() == ""; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no snapshot was written")
		}
		publish(t, s, stream.Envelope{Session: "x", Identity: "a"}, line)
	}
	old := snapshot()
	if err := s.JS.DeleteStream(ctx, "OBJ_"+stream.StateObjects); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if now := snapshot(); now != old {
			if _, err := s.State.GetInfo(ctx, now); err == nil {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("the log points to a snapshot that is gone")
		}
	}
	stop()
	before := readRows(t, s)
	stop = start(t, s, cfg)
	defer stop()
	publish(t, s, stream.Envelope{Session: "x", Identity: "e"}, line)
	waitFor(t, s, "the successor folds", func(sum totals) bool { return sum["usage_data.events"] > before["usage_data.events"] })
}
