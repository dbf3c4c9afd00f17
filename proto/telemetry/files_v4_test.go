package telemetry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/warpline/warpline/proto/telemetry"
)

// Random documents, segments of sinks and CSV exports, many with wrong records, repeated metadata or broken text, and what 0.4.3 says
// of each record. Of CSV exports the records are those that were exported.
func TestPeer043Files(t *testing.T) {
	tallies, unreadable := map[string]*tally{}, 0
	cases(t, "v4/peer_files.jsonl", func(line []byte) {
		var c struct {
			Kind, Text string
			Permissive bool    `json:"permissive_legacy"`
			Session    string  `json:"default_session_id"`
			Key        *string `json:"events_key"`
			Error      *string
			Records    []struct {
				Output string
				Error  *string
			}
		}
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		n := tallies[c.Kind]
		if n == nil {
			n = &tally{}
			tallies[c.Kind] = n
		}
		o := telemetry.Options{RefuseLegacy: !c.Permissive, DefaultSessionID: c.Session, EventsKey: c.Key, Lines: c.Kind == "sink",
			TornTail: c.Kind == "sink"}
		text := []byte(c.Text)
		var in telemetry.Reader
		var err error
		if c.Kind == "csv" {
			in, err = telemetry.NewTable(bytes.NewReader(text), o)
		} else {
			var l telemetry.Layout
			if l, err = telemetry.Survey(bytes.NewReader(text), o); err == nil {
				in = l.Decoder(bytes.NewReader(text), o)
			}
		}
		var de *telemetry.DocumentError
		if c.Error != nil {
			if unreadable++; !errors.As(err, &de) || !same(de.Message, *c.Error) {
				t.Errorf("%s: %v, the peer says %q", text, err, *c.Error)
			}
			return
		}
		if err != nil {
			t.Errorf("%s: %v, the peer reads it", text, err)
			return
		}
		for i, want := range c.Records {
			r, err := in.Next()
			if err != nil {
				t.Errorf("%s: record %d: %v", text, i, err)
				return
			}
			switch {
			case want.Error != nil && (r.Refusal == nil || !same(r.Refusal.Message, *want.Error)):
				t.Errorf("%s: record %d: %+v, the peer says %q", text, i, r.Refusal, *want.Error)
			case want.Error != nil:
				n.refused++
			case r.Refusal != nil:
				t.Errorf("%s: record %d: %q, the peer takes it", text, i, r.Refusal.Message)
			default:
				n.accepted++
				if got, want := canonical(t, r.Event.AppendJSON(nil)), canonical(t, []byte(want.Output)); got != want {
					t.Errorf("record %d:\n%s, the peer makes\n%s", i, got, want)
				}
			}
		}
		if _, err := in.Next(); err != io.EOF {
			t.Errorf("%s: more than %d records, or %v", text, len(c.Records), err)
		}
	})
	for _, kind := range []string{"doc", "sink", "csv"} {
		n := tallies[kind]
		if n.print(t, kind); n.accepted < 30 || kind != "csv" && n.refused < 20 {
			t.Errorf("too few of some kind: %+v", n)
		}
	}
	if t.Logf("%d documents are refused whole, as by the peer", unreadable); unreadable < 30 {
		t.Error("too few of them")
	}
}
