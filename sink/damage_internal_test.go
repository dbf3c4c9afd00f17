package sink

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

// After a power cut the server's list of a stream's files can be older than the deletion of one of them. It then says that it lost the
// messages of that file. Of ROWS, when every lane has inserted them, nothing is missing; when one has not, they may be.
func TestDeletedBeforeThePowerCut(t *testing.T) {
	dir := t.TempDir()
	open := func() (s *broker.Streams, stop func()) {
		t.Helper()
		srv, err := broker.Serve(broker.ServerConfig{Dir: dir, MaxStoreBytes: 1 << 40})
		if err != nil {
			t.Fatal(err)
		}
		nc, js, err := broker.Connect(t.Context(), broker.ConnectConfig{Server: srv})
		if err != nil {
			t.Fatal(err)
		}
		if s, err = broker.Open(t.Context(), nc, js, broker.Layout{Partitions: 2, Lanes: 2}); err != nil {
			t.Fatal(err)
		}
		return s, func() { nc.Close(); srv.Shutdown(); srv.WaitForShutdown() }
	}
	s, stop := open()
	for range 40 {
		if _, err := s.JS.Publish(t.Context(), stream.RowsSubject(0), make([]byte, 512<<10)); err != nil {
			t.Fatal(err)
		}
	}
	created := s.Rows.CachedInfo().Created.Unix()
	stop()
	files, _ := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", stream.RowsStream, "msgs", "index.db"))
	if len(files) != 1 {
		t.Fatalf("%v", files)
	}
	list, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	s, stop = open()
	if err := s.Rows.Purge(t.Context(), jetstream.WithPurgeSequence(31)); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := os.WriteFile(files[0], list, 0o600); err != nil {
		t.Fatal(err)
	}
	s, stop = open()
	defer stop()
	for _, c := range []struct {
		lanes    [2]uint64
		created  int64
		harmless bool
	}{{[2]uint64{40, 40}, created, true}, {[2]uint64{40, 3}, created, false}, {[2]uint64{40, 40}, created - 1, false}} {
		for lane, at := range c.lanes {
			body, _ := json.Marshal(mark{Mark: at, StreamCreated: c.created})
			if _, err := s.Marks.Put(t.Context(), markKey(lane), body); err != nil {
				t.Fatal(err)
			}
		}
		said, _, harmless, err := lostIn(t.Context(), s, stream.RowsStream)
		if err != nil || !strings.Contains(said, "messages, 1 to ") || (harmless != "") != c.harmless {
			t.Errorf("marks %v: %q, harmless %q, want it harmless: %t (%v)", c.lanes, said, harmless, c.harmless, err)
		}
	}
}
