package broker_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

// lastBlock is the newest file of messages of a stream in the folder of a server.
func lastBlock(t *testing.T, dir, name string) string {
	t.Helper()
	blocks, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", name, "msgs", "*.blk"))
	if err != nil || len(blocks) == 0 {
		t.Fatalf("blocks of %s: %v", name, err)
	}
	return slices.MaxFunc(blocks, func(a, b string) int { return (len(a)-len(b))*1000 + strings.Compare(a, b) })
}

// patch writes bytes over a file, from a place measured in tenths of it.
func patch(t *testing.T, file string, tenths int64, bytes []byte) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(bytes, info.Size()*tenths/10); err != nil {
		t.Fatal(err)
	}
}

// Whatever a killed server has lost of the end of a stream that it had acknowledged is told, with its range. A torn write that nobody was
// told of, and what was deleted, is not.
func TestEndsThatAreLostAreTold(t *testing.T) {
	t.Parallel()
	flipped := []byte(strings.Repeat("\xaa", 64))
	ingest := func(t *testing.T, js jetstream.JetStream, from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			if _, err := js.Publish(t.Context(), fmt.Sprintf("ingest.%d.a.b", i%4), make([]byte, 200)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name   string
		live   func(t *testing.T, s *broker.Streams) // while the keeper looks, after 100 messages in INGEST and 100 keys in WL_WINDOWS
		damage func(t *testing.T, dir string)        // after the kill
		before func(t *testing.T, js jetstream.JetStream)
		want   string // stream of the finding; "": none
	}{
		{name: "nothing"},
		{name: "a torn write", damage: func(t *testing.T, dir string) {
			file := lastBlock(t, dir, "INGEST")
			all, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, append(all, all[:70]...), 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "the end was deleted", live: func(t *testing.T, s *broker.Streams) {
			if err := s.Ingest.Purge(t.Context(), jetstream.WithPurgeSubject("ingest.3.>")); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "all was purged", live: func(t *testing.T, s *broker.Streams) {
			if err := s.Ingest.Purge(t.Context()); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "flipped bytes in a stream", damage: func(t *testing.T, dir string) {
			patch(t, lastBlock(t, dir, "INGEST"), 5, flipped)
		}, want: "INGEST"},
		{name: "flipped bytes in a bucket", want: "KV_WL_WINDOWS",
			damage: func(t *testing.T, dir string) { patch(t, lastBlock(t, dir, "KV_WL_WINDOWS"), 5, flipped) }},
		{name: "flipped bytes in the marks", damage: func(t *testing.T, dir string) {
			patch(t, lastBlock(t, dir, "KV_WL_MARKS"), 5, flipped)
		}, want: "KV_WL_MARKS"},
		{name: "flipped at the very end", damage: func(t *testing.T, dir string) {
			patch(t, lastBlock(t, dir, "INGEST"), 9, flipped)
		}, want: "INGEST"},
		{name: "flipped, and more came before anybody looked", damage: func(t *testing.T, dir string) {
			patch(t, lastBlock(t, dir, "INGEST"), 5, flipped)
		},
			before: func(t *testing.T, js jetstream.JetStream) { ingest(t, js, 0, 100) }, want: "INGEST"},
		{name: "a block removed", damage: func(t *testing.T, dir string) {
			if err := os.Remove(lastBlock(t, dir, "KV_WL_WINDOWS")); err != nil {
				t.Fatal(err)
			}
		}, want: "KV_WL_WINDOWS"},
		{name: "the sightings themselves", damage: func(t *testing.T, dir string) { patch(t, lastBlock(t, dir, "KV_WL_SEEN"), 5, flipped) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir, copied := t.TempDir(), t.TempDir()
			_, nc, js := serve(t, broker.ServerConfig{Dir: dir, MaxStoreBytes: 1 << 40})
			s, err := broker.Open(t.Context(), nc, js, small())
			if err != nil {
				t.Fatal(err)
			}
			ingest(t, js, 0, 100)
			for i := range 100 {
				for _, kv := range []jetstream.KeyValue{s.Windows, s.Marks} {
					if _, err := kv.Put(t.Context(), fmt.Sprint("k.", i), make([]byte, 100)); err != nil {
						t.Fatal(err)
					}
				}
			}
			keep := func(s *broker.Streams) { // until it has seen all
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { defer close(done); s.Keep(ctx, broker.KeeperConfig{Every: 20 * time.Millisecond}) }()
				time.Sleep(100 * time.Millisecond)
				cancel()
				<-done
			}
			keep(s)
			if c.live != nil {
				c.live(t, s)
				keep(s)
			}
			// What a killed server leaves behind.
			if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			if c.damage != nil {
				c.damage(t, copied)
			}
			_, nc, js = serve(t, broker.ServerConfig{Dir: copied, MaxStoreBytes: 1 << 40})
			if c.before != nil {
				c.before(t, js)
			}
			var log text
			l := small()
			l.Logger = log.logger()
			if s, err = broker.Open(t.Context(), nc, js, l); err != nil {
				t.Fatal(err)
			}
			found, err := broker.Findings(t.Context(), s.Marks)
			if err != nil {
				t.Fatal(err)
			}
			lines := s.Shortened(time.Now().Add(-time.Minute))
			if c.want == "" {
				if len(found) > 0 || len(lines) > 0 {
					t.Fatalf("it is told: %v %v", found, lines)
				}
				return
			}
			if len(found) != 1 || found[0].Kind != broker.FindingShortened || found[0].Stream != c.want || len(lines) != 1 ||
				!strings.Contains(log.String(), "stream="+c.want) {
				t.Fatalf("found %v, told %v, want the end of %s once; log:\n%s", found, lines, c.want, log.String())
			}
			if p := found[0].Places[0]; p.Last != 100 || p.First < 1 || p.First > 100 || p.First < 30 && c.name != "a block removed" {
				t.Errorf("the range is %d to %d of 1 to 100: %s", p.First, p.Last, p.Detail)
			}
			// Nobody tells it twice.
			keep(s)
			if _, err := broker.Open(t.Context(), nc, js, small()); err != nil {
				t.Fatal(err)
			}
			if again, err := broker.Findings(t.Context(), s.Marks); err != nil || len(again) != 1 || again[0].Count != found[0].Count {
				t.Errorf("told again: %v %v", again, err)
			}
		})
	}
}

// Somebody deletes the bucket of sightings: nothing is told as lost, and they are kept anew.
func TestSightingsOutliveTheirBucket(t *testing.T) {
	t.Parallel()
	_, nc, js := serve(t, broker.ServerConfig{Dir: t.TempDir(), MaxStoreBytes: 1 << 40})
	s, err := broker.Open(t.Context(), nc, js, small())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Keep(ctx, broker.KeeperConfig{Every: 20 * time.Millisecond}) }()
	defer func() { cancel(); <-done }()
	if err := js.DeleteStream(ctx, "KV_"+stream.SeenBucket); err != nil {
		t.Fatal(err)
	}
	eventually(t, 60*time.Second, "sightings are kept again", func() bool {
		js.Publish(ctx, "ingest.0.a.b", nil)
		kv, err := js.KeyValue(ctx, stream.SeenBucket)
		if err != nil {
			return false
		}
		_, err = kv.Get(ctx, "streams")
		return err == nil
	})
	if lines := s.Shortened(time.Time{}); len(lines) > 0 {
		t.Errorf("told: %v", lines)
	}
}

// Many processes look at streams that grow: what one saw before another wrote what it had seen is no loss.
func TestManyProcessesSight(t *testing.T) {
	t.Parallel()
	_, nc, js := serve(t, broker.ServerConfig{Dir: t.TempDir(), MaxStoreBytes: 1 << 40})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var done sync.WaitGroup
	var all []*broker.Streams
	for range 8 {
		s, err := broker.Open(t.Context(), nc, js, small())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
		done.Go(func() { s.Keep(ctx, broker.KeeperConfig{Every: time.Millisecond}) })
	}
	for i := 0; ctx.Err() == nil; i++ {
		js.Publish(ctx, fmt.Sprintf("ingest.%d.a.b", i%2), nil)
	}
	done.Wait()
	for _, s := range all {
		if lines := s.Shortened(time.Time{}); len(lines) > 0 {
			t.Fatalf("told: %v", lines)
		}
	}
}
