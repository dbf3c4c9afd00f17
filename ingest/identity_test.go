package ingest_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"testing"

	"github.com/warpline/warpline/broker"
)

// Client-chosen window ids never make one upload pass for another: not another channel's, not a session's end, not an upload that is
// known by its hash, not an accepted conflict.
func TestIdentitiesNeverMeet(t *testing.T) {
	r := start(t, broker.Layout{Partitions: 1}, nil)
	body := func(text string) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		fmt.Fprintf(z, `{"type":"x","session_id":"s","n":%q}`+"\n", text)
		z.Close()
		return b.Bytes()
	}
	for _, c := range []struct{ id, channel string }{
		{"w1", "device"}, {"w1", "scope"}, {"complete", "device"}, {"sha256-00000000000000000000000000000000", "device"},
		{"w1~1", "device"}, {"0/w1", "device"},
	} {
		b := body(c.id + c.channel)
		if a := r.post("s", b, window(c.id, c.channel, 1, b)...); a.status != http.StatusOK || !a.Whole {
			t.Errorf("window %q of %s: %d %s", c.id, c.channel, a.status, a.raw)
		}
	}
	if a := r.do(http.MethodPost, "/api/v1/events/session-complete", nil, "X-GpuFlight-Session-Id", "s"); a.status != http.StatusOK {
		t.Errorf("session-complete: %d %s", a.status, a.raw)
	}
	info, err := r.streams.Ingest.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.State.Msgs != 7 {
		t.Errorf("INGEST holds %d messages, want 6 windows and 1 end of session", info.State.Msgs)
	}
}

// A window that arrives as an empty body was lost on the way: the agent must keep its file.
func TestEmptyBodyOfAWindowIsNotAcknowledged(t *testing.T) {
	r := start(t, broker.Layout{Partitions: 1}, nil)
	if a := r.post("s", nil, window("w", "device", 1, []byte("what was meant"))...); a.status != http.StatusServiceUnavailable || a.Whole {
		t.Errorf("%d %s, want 503 crc_mismatch", a.status, a.raw)
	}
}
