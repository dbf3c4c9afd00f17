package aggregate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/stream"
)

// askOwner asks the owner of a partition until it has folded up to seq.
func askOwner(t *testing.T, s *broker.Streams, partition int, asked string, seq uint64) *stream.Verdict {
	t.Helper()
	question, _ := json.Marshal(stream.VerdictQuestion{Asked: asked})
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		msg, err := s.Conn.Request(stream.VerdictSubject(partition), question, time.Second)
		if err != nil {
			continue
		}
		var a stream.VerdictAnswer
		if err := json.Unmarshal(msg.Data, &a); err != nil {
			t.Fatal(err)
		}
		if a.Position >= seq {
			return a.Verdict
		}
	}
	t.Fatal("no owner answers")
	return nil
}

func lastOfIngest(t *testing.T, s *broker.Streams) uint64 {
	t.Helper()
	info, err := s.Ingest.Info(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return info.State.LastSeq
}

// A verdict counts what asks, once, and a successor tells the same; many of one tenant cost no other tenant's verdict.
func TestVerdicts(t *testing.T) {
	layout := broker.DefaultLayout()
	layout.Partitions, layout.Lanes = 1, 1
	s := brokertest.Start(t, layout)
	stop := start(t, s, aggregate.Config{})
	asked := func(n int) string { return fmt.Sprintf("%032x", n) }
	lines := func(session string, good, bad int) []byte {
		var b strings.Builder
		for i := range good {
			fmt.Fprintf(&b, `{"version":1,"type":"kernel_detail","session_id":%q,"corr_id":%d,"kernel_name":"k"}`+"\n", session, i+1)
		}
		for i := range bad {
			fmt.Fprintf(&b, `{"version":1,"type":"of_the_future","session_id":%q,"n":%d}`+"\n", session, i)
		}
		return []byte(b.String())
	}
	publish(t, s, stream.Envelope{Session: "a", Identity: "w/0", Asked: asked(1)}, lines("a", 3, 2))
	publish(t, s, stream.Envelope{Session: "a", Identity: "w/0", Asked: asked(1)}, lines("a", 3, 2)) // the same part
	publish(t, s, stream.Envelope{Session: "b", Identity: "w/1"}, lines("b", 1, 1))                  // nobody asks
	publish(t, s, stream.Envelope{Session: "b", Identity: "w/2", Asked: asked(1), Kind: stream.KindReject, Source: "gpu-flight", Events: 4,
		Reject: &stream.Reject{Reason: "bad_json", Detail: "x"}}, []byte("{"))
	publish(t, s, stream.Envelope{Session: "c", Identity: "w/3", Asked: "no id"}, lines("c", 1, 1))
	last := lastOfIngest(t, s)
	check := func(when string) {
		t.Helper()
		v := askOwner(t, s, 0, asked(1), last)
		if v == nil || v.Parts != 3 || v.Events != 14 || v.Stored != 3 || v.Duplicates != 5 || v.Since != 1 ||
			fmt.Sprint(v.Rejected) != "[{unknown_type 2} {bad_json 4}]" {
			t.Errorf("%s: %+v", when, v)
		}
		if v := askOwner(t, s, 0, asked(2), last); v != nil {
			t.Errorf("%s: of one that nobody asked about: %+v", when, v)
		}
		if v := askOwner(t, s, 0, "no id", last); v != nil {
			t.Errorf("%s: under no id: %+v", when, v)
		}
	}
	check("at first")
	stop()
	stop = start(t, s, aggregate.Config{})
	check("of a successor")
	// Another tenant asks about a thousand.
	for i := range 1000 {
		publish(t, s, stream.Envelope{Tenant: "flood", Session: "f", Identity: fmt.Sprintf("f/%d", i), Asked: asked(1000 + i)}, lines("f", 1, 0))
	}
	last = lastOfIngest(t, s)
	check("after a flood")
	if v := askOwner(t, s, 0, asked(1999), last); v == nil || v.Parts != 1 {
		t.Errorf("the newest of the flood: %+v", v)
	}
	if v := askOwner(t, s, 0, asked(1000), last); v != nil {
		t.Errorf("the oldest of the flood is still there: %+v", v)
	}
	// One that comes back after it was forgotten says from where on it counts.
	publish(t, s, stream.Envelope{Tenant: "flood", Session: "f", Identity: "f/again", Asked: asked(1000)}, lines("f", 1, 0))
	last = lastOfIngest(t, s)
	if v := askOwner(t, s, 0, asked(1000), last); v == nil || v.Since != last {
		t.Errorf("%+v, want it to count from %d on", v, last)
	}
	stop()
	msg, err := s.Rows.GetLastMsgForSubject(context.Background(), stream.RowsSubject(0))
	if err != nil {
		t.Fatal(err)
	}
	c, _, _, err := stream.ParseChunk(msg.Data)
	if err != nil || len(c.Verdicts) == 0 || len(c.Verdicts) > 40 {
		t.Errorf("%d verdicts in the last chunk, %v", len(c.Verdicts), err)
	}
}

// A reason more than are counted one by one is not lost.
func TestVerdictReasons(t *testing.T) {
	var list []stream.Rejected
	for i := range 100 {
		list = stream.AddRejected(list, fmt.Sprint("r", i%20), 1, 3)
	}
	sum := uint64(0)
	for _, r := range list {
		sum += r.Events
	}
	if sum != 100 || len(list) != 4 || list[3] != (stream.Rejected{Reason: stream.OtherReason, Events: 85}) {
		t.Errorf("%v", list)
	}
}
