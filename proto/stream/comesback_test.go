package stream_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/warpline/warpline/proto/stream"
)

// What the build before the field Recurs wrote, which testdata has, is read by its own rule: what telemetry sent comes back under the same
// id, what GPU Flight sent does not, however its session is called.
func TestOldEnvelopesSayWhatComesBack(t *testing.T) {
	for name, want := range map[string]struct{ comesBack, bounded bool }{
		"telemetry":         {comesBack: true},
		"summary":           {comesBack: true},
		"telemetry-refused": {comesBack: true},
		"nameless":          {comesBack: true},
		"gpuflight":         {},
		"gpuflight-mem":     {},
		"delete-mem":        {bounded: true},
		"delete-unknown":    {bounded: true},
		"delete-tenant":     {bounded: true},
		"delete-session":    {},
	} {
		msg, err := os.ReadFile(filepath.Join("testdata", "c8a7b2a", name+".bin"))
		if err != nil {
			t.Fatal(err)
		}
		e, packed, err := stream.ParseEnvelope(msg)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if body, err := stream.DecodeBody(nil, packed); err != nil || string(body) != "body\n" {
			t.Errorf("%s: body %q (%v)", name, body, err)
		}
		if d := e.Delete; d != nil {
			if d.Bounded() != want.bounded || d.Session != e.Session || d.ID != "1" {
				t.Errorf("%s: %+v, bounded %t", name, d, d.Bounded())
			}
			continue
		}
		if e.ComesBack() != want.comesBack {
			t.Errorf("%s: comes back %t", name, e.ComesBack())
		}
	}
}

// An envelope of today says it itself.
func TestEnvelopesSayWhatComesBack(t *testing.T) {
	e := envelope()
	for _, recurs := range []bool{false, true} {
		e.Recurs, e.Session = recurs, "mem:h:1:-:0"
		msg, err := stream.AppendEnvelope(nil, &e, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := stream.ParseEnvelope(msg); err != nil || got.ComesBack() != recurs {
			t.Errorf("recurs %t came back as %+v (%v)", recurs, got, err)
		}
	}
}
