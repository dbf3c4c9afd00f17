package stream_test

import (
	"testing"

	"github.com/warpline/warpline/proto/stream"
)

func TestReplays(t *testing.T) {
	id := "0123456789abcdef"
	window := stream.ReplayWindow(id, 3)
	for _, c := range []struct {
		e    stream.Envelope
		want string
	}{
		{stream.Envelope{Kind: stream.KindGPUFlight, Channel: stream.ReplayChannel, Identity: "replay/0/" + window}, id},
		{stream.Envelope{Kind: stream.KindReject, Identity: "replay/2/" + window}, id},
		{stream.Envelope{Kind: stream.KindGPUFlight, Channel: "device", Identity: "device/0/" + window}, ""},
		{stream.Envelope{Kind: stream.KindGPUFlight, Channel: "device", Identity: "replay/0/" + window}, ""},
		{stream.Envelope{Kind: stream.KindGPUFlight, Channel: stream.ReplayChannel, Identity: "replay/0/of-a-tenant"}, ""},
		{stream.Envelope{Kind: stream.KindGPUFlight, Channel: stream.ReplayChannel, Identity: "replay/0/0123456789ABCDEF.1"}, ""},
		{stream.Envelope{Kind: stream.KindGPUFlight, Identity: "sha256-" + id}, ""},
	} {
		if got := c.e.Replays(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.e, got, c.want)
		}
	}
}
