package aggregate_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/stream"
)

// tombstone publishes one for a session, or in every partition for a tenant.
func tombstone(t testing.TB, s *broker.Streams, d stream.Deletion) {
	t.Helper()
	first, last := 0, s.Partitions-1
	if d.Session != "" {
		first = stream.Partition(d.Tenant, d.Session, s.Partitions)
		last = first
	}
	for p := first; p <= last; p++ {
		e := stream.Envelope{Tenant: d.Tenant, Session: d.Session, Kind: stream.KindDelete, Identity: "delete/" + d.ID, Delete: &d}
		msg, err := stream.AppendEnvelope(nil, &e, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.JS.Publish(t.Context(), stream.IngestSubject(p, d.Tenant, d.Token()), msg); err != nil {
			t.Fatal(err)
		}
	}
}

func kernelLine(session string, n int) []byte {
	return fmt.Appendf(nil, `{"version":1,"type":"kernel_event_batch","session_id":"%s","batch_id":%d,"base_time_ns":1795175929972803352,`+
		`"columns":["dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"],"rows":[[0,1,7,5,%d,0,32,`+
		`0]]}`+"\n", session, n, n)
}

// deletesOf lists what chunks carry, in order.
func deletesOf(t testing.TB, s *broker.Streams) (out []stream.Deletion) {
	t.Helper()
	for p := range s.Partitions {
		for seq := uint64(1); ; {
			msg, err := s.Rows.GetMsg(t.Context(), seq, jetstream.WithGetMsgSubject(stream.RowsSubject(p)))
			if err != nil {
				break
			}
			c, _, _, err := stream.ParseChunk(msg.Data)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, c.Deletes...)
			seq = msg.Sequence + 1
		}
	}
	return out
}

// A tombstone reaches the sink once, in the chunk that ends what it covers; what the session sends later is dropped, over restarts too; the
// giant line that it sends later leaves no object; and the snapshot that follows knows nothing of the session.
func TestTombstone(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 2})
	stop := start(t, s, fast)
	const id = "a-session-to-delete"
	publish(t, s, stream.Envelope{Session: id, Identity: "1"},
		append([]byte(`{"version":1,"type":"dictionary_update","session_id":"`+id+`","kernel_dict":{"1":"alpha"}}`+"\n"), kernelLine(id, 1)...))
	publish(t, s, stream.Envelope{Session: "stays", Identity: "1"}, kernelLine("stays", 1))
	tombstone(t, s, stream.Deletion{ID: "d", Tenant: "acme", Session: id})
	tombstone(t, s, stream.Deletion{ID: "d", Tenant: "acme", Session: id})
	publish(t, s, stream.Envelope{Session: id, Identity: "2"}, kernelLine(id, 2))
	publish(t, s, stream.Envelope{Tenant: "other", Session: id, Identity: "2"}, kernelLine(id, 2))
	waitFor(t, s, "the rows from before, the neighbours' and the reject", func(sum totals) bool {
		return sum["kernels_data"] == 3 && sum["rejects_data.reason=session_deleted"] == 1
	})
	stop()
	stop = start(t, s, fast)
	if _, err := s.Parts.PutBytes(t.Context(), "giant", kernelLine(id, 3)); err != nil {
		t.Fatal(err)
	}
	publish(t, s, stream.Envelope{Tenant: "acme", Session: id, Kind: stream.KindGPUFlight, Source: "gpu-flight", Identity: "3",
		Object: "giant", Events: 1}, nil)
	publish(t, s, stream.Envelope{Session: id, Identity: "1"}, kernelLine(id, 1)) // sent again
	sum := waitFor(t, s, "the second worker's rejects", func(sum totals) bool { return sum["rejects_data.reason=session_deleted"] == 3 })
	if sum["kernels_data"] != 3 || sum["rejects_data.session_id="+id] != 0 || sum["usage_data.rejected"] != 3 ||
		sum["usage_data.events"] != 7 {
		t.Errorf("kernels %d, rejects that name it %d, rejected %d of %d events; want 3, 0, 3 of 7", sum["kernels_data"],
			sum["rejects_data.session_id="+id], sum["usage_data.rejected"], sum["usage_data.events"])
	}
	have := deletesOf(t, s)
	if len(have) != 1 || have[0].Session != id || have[0].At == 0 || have[0].Tenant != "acme" {
		t.Fatalf("chunks carry %+v, want the deletion once, with its time", have)
	}
	p := stream.Partition("acme", id, s.Partitions)
	eventually(t, "a snapshot without the session, and no object", func() error {
		last, err := s.Rows.GetLastMsgForSubject(t.Context(), stream.RowsSubject(p))
		if err != nil {
			return err
		}
		c, _, _, err := stream.ParseChunk(last.Data)
		if err != nil || c.Snapshot.Object == "" {
			return fmt.Errorf("no snapshot (%v)", err)
		}
		state, err := s.State.GetBytes(t.Context(), c.Snapshot.Object)
		if err != nil {
			return err
		}
		plain, err := stream.DecodeSection(nil, state)
		// whose session of this name may be in the partition
		if err != nil || bytes.Contains(plain, []byte(id)) != bytes.Contains(plain, []byte("other")) {
			return fmt.Errorf("the snapshot still names it (%v)", err)
		}
		if _, err := s.Parts.GetInfo(t.Context(), "giant"); err != jetstream.ErrObjectNotFound {
			return fmt.Errorf("the object is there: %v", err)
		}
		return nil
	})
	stop()
}

func eventually(t testing.TB, what string, ok func() error) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(30 * time.Millisecond) {
		err := ok()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// A purge ends its chunk: a session that begins behind it is in the next one, which the sink does not delete from.
func TestPurgeEndsItsChunk(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	publish(t, s, stream.Envelope{Session: "old", Identity: "1"}, kernelLine("old", 1))
	tombstone(t, s, stream.Deletion{ID: "p", Tenant: "acme"})
	publish(t, s, stream.Envelope{Session: "new", Identity: "1"}, kernelLine("new", 1))
	cfg := fast
	cfg.ChunkAge = time.Second
	start(t, s, cfg)
	waitFor(t, s, "both", func(sum totals) bool { return sum["kernels_data"] == 2 })
	var with, after int
	for seq := uint64(1); ; {
		msg, err := s.Rows.GetMsg(t.Context(), seq, jetstream.WithGetMsgSubject(stream.RowsSubject(0)))
		if err != nil {
			break
		}
		c, _, _, err := stream.ParseChunk(msg.Data)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range c.Tables {
			if r.Table == "kernels_data" && len(c.Deletes) > 0 {
				with += r.Rows
			} else if r.Table == "kernels_data" {
				after += r.Rows
			}
		}
		seq = msg.Sequence + 1
	}
	if with != 1 || after != 1 {
		t.Errorf("%d kernels are in the chunk with the purge and %d behind it, want 1 and 1", with, after)
	}
}
