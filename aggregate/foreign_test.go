package aggregate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/stream"
)

// foreigners are messages that somebody may put on a subject of ROWS, made of those that lie there.
func foreigners(t *testing.T, s *broker.Streams, p int) map[string][]byte {
	t.Helper()
	last, err := s.Rows.GetLastMsgForSubject(t.Context(), stream.RowsSubject(p))
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Rows.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first, err := s.Rows.GetMsg(t.Context(), info.State.FirstSeq, jetstream.WithGetMsgSubject(stream.RowsSubject(p)))
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		"no chunk": []byte("hello"), "nothing": nil, "half a chunk": last.Data[:len(last.Data)/2], "the last chunk again": last.Data,
		"the first chunk again": first.Data, "a chunk of no version": append([]byte("WLC\x00"), last.Data[4:]...), "7 MB of zeros": make([]byte,
			7<<20),
	}
}

// Whatever is put on the subject of a partition's chunks, while its owner runs or while nobody does, is set aside: the partition goes on
// without a restart, and nothing is lost or doubled.
func TestGarbageInRows(t *testing.T) {
	for _, running := range []bool{true, false} {
		t.Run(fmt.Sprintf("owner running %v", running), func(t *testing.T) {
			s := brokertest.Start(t, broker.Layout{Partitions: 1})
			cfg := fast
			cfg.SnapshotChunks = 3
			stop := start(t, s, cfg)
			kernels, total := load(t, s, 0, 10)
			waitFor(t, s, "the first kernels", func(sum totals) bool { return sum["kernel_stats_data.calls"] >= kernels })
			n := 10
			put := uint64(0)
			for name, msg := range foreigners(t, s, 0) {
				if !running {
					stop()
				}
				if _, err := s.JS.Publish(t.Context(), stream.RowsSubject(0), msg); err != nil {
					t.Fatal(err)
				}
				if put++; !running {
					stop = start(t, s, cfg)
				}
				k, ns := load(t, s, n, 5)
				kernels, total, n = kernels+k, total+ns, n+5
				waitForClean(t, s, name, kernels)
			}
			checkLoad(t, s, kernels, total)
			found, err := broker.Findings(t.Context(), s.Marks)
			if err != nil {
				t.Fatal(err)
			}
			if len(found) != 1 || found[0].Kind != broker.FindingAside || found[0].Count != put || found[0].Partition != 0 ||
				len(found[0].Places) != int(put) {
				t.Fatalf("findings %+v, want %d messages of partition 0", found, put)
			}
			for _, p := range found[0].Places {
				if _, err := s.Chunks.GetBytes(t.Context(), p.Object); err != nil {
					t.Errorf("%s: its bytes: %v", p.Detail, err)
				}
			}
			if err := s.AcceptFindings(t.Context()); err != nil {
				t.Fatal(err)
			}
			if found, err := broker.Findings(t.Context(), s.Marks); err != nil || len(found) > 0 {
				t.Errorf("after they were accepted: %v, %v", found, err)
			}
			if _, err := s.Chunks.List(t.Context()); err != jetstream.ErrNoObjectsFound {
				t.Errorf("objects left: %v", err)
			}
		})
	}
}

// waitForClean waits until only chunks are in ROWS, and all kernels.
func waitForClean(t *testing.T, s *broker.Streams, what string, kernels uint64) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		last, err := s.Rows.GetLastMsgForSubject(context.Background(), stream.RowsSubject(0))
		if err == nil {
			var c stream.Chunk
			if c, _, _, err = stream.ParseChunk(last.Data); err == nil && c.After > 0 {
				if sum := readRowsIfClean(t, s); sum != nil && sum["kernel_stats_data.calls"] >= kernels {
					return
				}
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s the partition does not go on: %v", what, err)
		}
	}
}

// readRowsIfClean reads all rows, nil while something in ROWS is no chunk or no next one.
func readRowsIfClean(t *testing.T, s *broker.Streams) totals {
	t.Helper()
	info, err := s.Rows.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tail := stream.Tail{}
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		msg, err := s.Rows.GetMsg(t.Context(), seq, jetstream.WithGetMsgSubject("rows.0"))
		if err != nil {
			return nil
		}
		c, _, _, err := tail.Judge(msg.Data)
		if err != nil {
			return nil
		}
		seq, tail.Number = msg.Sequence, c.Number
	}
	return readRows(t, s)
}

// A chunk of a later format is no garbage: it stays where it is, and the partition waits for the build that wrote it.
func TestNewerChunkIsKept(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	stop := start(t, s, fast)
	kernels, _ := load(t, s, 0, 5)
	waitFor(t, s, "the kernels", func(sum totals) bool { return sum["kernel_stats_data.calls"] >= kernels })
	stop()
	ack, err := s.JS.Publish(t.Context(), "rows.0", []byte("WLC\x02of another time"))
	if err != nil {
		t.Fatal(err)
	}
	w := aggregate.New(s, fast)
	run(t, w)
	load(t, s, 5, 5)
	waits := func() bool {
		failing := w.Status().Failing
		return len(failing) == 1 && strings.Contains(failing[0].Err, "newer format")
	}
	for deadline := time.Now().Add(60 * time.Second); !waits(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("nobody says that the partition waits: %+v", w.Status())
		}
	}
	time.Sleep(700 * time.Millisecond) // it is tried again, twice
	last, err := s.Rows.GetLastMsgForSubject(t.Context(), "rows.0")
	if err != nil || last.Sequence != ack.Sequence {
		t.Fatalf("the newer chunk at %d is gone or passed: %v %v", ack.Sequence, last, err)
	}
}

// Whatever lies on INGEST's subjects, and whatever under the keys of a session's names, the partitions go on, and every byte is accounted
// for.
func TestGarbageInIngest(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 2})
	stop := start(t, s, fast)
	kernels, total := load(t, s, 0, 10)
	waitFor(t, s, "the first kernels", func(sum totals) bool { return sum["kernel_stats_data.calls"] >= kernels })
	header := func(json string) []byte {
		return append(append([]byte("WLE\x01"), byte(len(json)), byte(len(json)>>8), 0, 0), json...)
	}
	bad := uint64(0)
	token := stream.SessionToken("s1")
	for _, subject := range []string{"ingest.0.acme." + token, "ingest.1.acme." + token, "ingest.0.x", "ingest.1.a.b.c.d",
		"ingest.0.ACME'--%00.\u00e9", "ingest.0.acme.purge", "ingest.1.$KV.x", "ingest.0." + strings.Repeat("long", 300) + ".x"} {
		for _, msg := range [][]byte{nil, []byte("hello"), make([]byte, 1<<20), []byte("WLE\x01\xff\xff\xff\x7f"), []byte("WLE\x02new"),
			header(`{}`), header(`{"kind":"nonsense","tenant":"acme","session":"s1"}`),
			header(`{"tenant":"acme","session":"s1","kind":"gpu-flight","received_at":-1,"retention_days":65535,"part":-1}`),
			append(header(`{"tenant":"acme","session":"s1","kind":"gpu-flight"}`), "no s2"...),
			header(`{"tenant":"acme","session":"s1","object":"nobody","kind":"gpu-flight"}`), header(`{"tenant":"acme","session":"s1",` +
				`"kind":"delete"}`), header(`{"tenant":"acme","session":"s1","kind":"reject"}`)} {
			if _, err := s.JS.Publish(t.Context(), subject, msg); err == nil {
				bad++
			}
		}
	}
	for i := range 5 { // what a successor reads of a session's names
		for _, value := range []string{"", "garbage", "\xff\xff\xff\xff\x7f", strings.Repeat("x", 1000)} {
			if _, err := s.Dictionaries.PutString(t.Context(), stream.DictionaryKey("acme", stream.SessionToken(fmt.Sprintf("s%d", i)),
				1)+fmt.Sprintf("-%d", len(value)), value); err != nil {
				t.Fatal(err)
			}
		}
	}
	k, ns := load(t, s, 10, 10)
	waitFor(t, s, "what came behind the garbage", func(sum totals) bool { return sum["kernel_stats_data.calls"] >= kernels+k })
	stop()
	start(t, s, fast)
	k2, ns2 := load(t, s, 20, 10)
	checkLoad(t, s, kernels+k+k2, total+ns+ns2)
	if sum := readRows(t, s); sum["rejects_data"] == 0 {
		t.Errorf("none of %d messages of garbage is a reject", bad)
	}
}
