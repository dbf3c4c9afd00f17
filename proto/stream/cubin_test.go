package stream_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/stream"
)

// A record of a cubin is read as it was written, and what is cut short is refused and changes nothing.
func TestCubinRecord(t *testing.T) {
	for _, r := range []stream.CubinRecord{
		{},
		{Whole: true, SizeBytes: 39864, Hash: "sha256-0123456789abcdef0123456789abcdef", KeptUntilDay: 20800},
		{SizeBytes: 1<<64 - 1, Hash: "x", KeptUntilDay: -1},
		{Declined: true},
	} {
		b := r.Append(nil)
		var got stream.CubinRecord
		if err := got.Parse(b); err != nil || got != r {
			t.Errorf("%+v is read as %+v, %v", r, got, err)
		}
		for n := range b {
			before := got
			if err := got.Parse(b[:n]); !errors.Is(err, stream.ErrCubinRecord) || got != before {
				t.Errorf("%d of %d bytes of %+v: %v", n, len(b), r, err)
			}
		}
	}
}

// A key has a tenant's name and then no character that NATS would not take, whatever the build id is.
func TestCubinKey(t *testing.T) {
	if got := stream.CubinKey("team", "1270fcb4a57dea0de8b0ffcfa27a8f66"); got != "team.1270fcb4a57dea0de8b0ffcfa27a8f66" {
		t.Error(got)
	}
	seen := map[string]string{}
	for _, id := range []string{"", "a.b", "*", ">", "AB", "é", strings.Repeat("a", 65)} {
		key := stream.CubinKey("team", id)
		if !strings.HasPrefix(key, "team.x") || len(key) != len("team.x")+32 || seen[key] != "" {
			t.Errorf("%q has the key %s", id, key)
		}
		seen[key] = id
	}
}
