package aggregate_test

import (
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
	line := []byte(`{"type":"ptx_disassembly","session_id":"x","function_name":"f","arch":"sm_90","ptx":"` + strings.Repeat("ab", 10<<20) +
		`"}` + "\n")
	if _, err := s.Parts.PutBytes(t.Context(), "giant", line); err != nil {
		t.Fatal(err)
	}
	e := stream.Envelope{Tenant: "acme", Session: "x", Kind: stream.KindGPUFlight, Source: "gpu-flight", Identity: "w", Object: "giant",
		Events: 1}
	publish(t, s, e, nil)
	waitFor(t, s, "the PTX of 20 MiB", func(sum totals) bool {
		return sum["session_functions_data.kind=ptx"] == 1 && sum["ptx_data.arch=sm_90"] == 1
	})
	deadline := time.Now().Add(60 * time.Second)
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
	if sum["session_functions_data"] != 1 || sum["usage_data.duplicates"] != 1 {
		t.Error(fmt.Sprint("links ", sum["session_functions_data"], ", duplicates ", sum["usage_data.duplicates"], "; want 1 and 1"))
	}
}
