package aggregate_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/stream"
)

// A line in the object store is folded, its object is deleted once the chunk is out, and the same part published again is a duplicate
// though there is nothing left to read.
func TestGiantPartLeavesNoObject(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	start(t, s, fast)
	line := []byte(`{"type":"cubin_disassembly","session_id":"x","sass":"` + strings.Repeat("ab", 1<<20) + `"}` + "\n")
	if _, err := s.Parts.PutBytes(t.Context(), "giant", line); err != nil {
		t.Fatal(err)
	}
	e := stream.Envelope{Tenant: "acme", Session: "x", Kind: stream.KindGPUFlight, Source: "gpu-flight", Identity: "w", Object: "giant", Events: 1}
	publish(t, s, e, nil)
	waitFor(t, s, "the reject that keeps the line whole", func(sum totals) bool {
		return sum["rejects_data.reason=not_yet"] == 1 && sum["rejects_data.bytes"] == uint64(len(bytes.TrimSpace(line)))
	})
	deadline := time.Now().Add(10 * time.Second)
	for {
		if _, err := s.Parts.GetInfo(t.Context(), "giant"); err == jetstream.ErrObjectNotFound {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the object is still there")
		}
		time.Sleep(20 * time.Millisecond)
	}
	publish(t, s, e, nil)
	sum := waitFor(t, s, "the second", func(sum totals) bool { return sum["usage_data.events"] == 2 })
	if sum["rejects_data"] != 1 || sum["usage_data.duplicates"] != 1 {
		t.Error(fmt.Sprint("rejects ", sum["rejects_data"], ", duplicates ", sum["usage_data.duplicates"], "; want 1 and 1"))
	}
}
