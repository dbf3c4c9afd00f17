package ingest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// words is a source of the tests: a body of words, one event each, of a session that the source names after the host that it is told.
type words struct{ host, text string }

func wordsSource() ingest.Source {
	return ingest.Source{
		Name: "words", Prefixes: []string{"words:"}, Kinds: []stream.Kind{"words"},
		Routes: []ingest.Route{{Path: "/api/v1/words", Upload: func(r *http.Request, _ tenant.Limits) (ingest.Intake, error) {
			host := r.URL.Query().Get("host")
			if host == "" {
				return nil, &ingest.Refusal{Status: http.StatusBadRequest, Code: "bad_option", Detail: "name the host"}
			}
			return &words{host: host}, nil
		}}},
	}
}

func (p *words) Received(u *ingest.Upload) error {
	if u.Size() == 0 {
		return ingest.ErrNothing
	}
	return nil
}

func (p *words) Survey(u *ingest.Upload) (ingest.Identity, error) {
	text, err := io.ReadAll(u.Open())
	if err != nil {
		return ingest.Identity{}, &ingest.Refusal{Status: http.StatusBadRequest, Code: "bad_option", Detail: err.Error()}
	}
	p.text = string(text)
	if _, detail := u.SetSession(p.host); detail != "" {
		return ingest.Identity{}, &ingest.Refusal{Status: http.StatusBadRequest, Code: "bad_option", Detail: detail}
	}
	return u.ByContent(ingest.DigestOf(p.text), "words-"+ingest.DigestOf(p.text).String()), nil
}

func (p *words) Conflict(*ingest.Upload) *ingest.Refusal { return nil }

func (p *words) Publish(ctx context.Context, _ *ingest.Upload, to *ingest.Publisher) error {
	n := uint64(len(strings.Fields(p.text)))
	to.Envelope.Kind = "words"
	e := to.Envelope
	e.Events, e.Bytes, e.Last = n, uint64(len(p.text)), true
	to.Tally.Accept(n, int64(len(p.text)))
	to.Tally.Whole = true
	return to.Send(ctx, &e, []byte(p.text))
}

func (p *words) Answer(o ingest.Outcome) any { return o }

// A source is a route and what differs: a third one has seats, spool, gzip, repeats and books without a line of them.
func TestAThirdSource(t *testing.T) {
	r := start(t, broker.Layout{}, func(c *ingest.Config) { c.Sources = append(c.Sources, wordsSource()) })
	send := func(host string, body []byte) answer {
		return r.do(http.MethodPost, "/api/v1/words?host="+host, bytes.NewReader(body))
	}
	text := []byte("one two three")
	if a := send("words:h", text); a.status != http.StatusOK || a.Accepted != 3 {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	if a := send("words:h", gz(t, text)); a.status != http.StatusOK || a.Accepted != 3 || !strings.Contains(a.raw, `"Repeat":true`) {
		t.Errorf("again, compressed: %d %s", a.status, a.raw)
	}
	if a := send("words:h", nil); a.status != http.StatusOK || a.Accepted != 0 {
		t.Errorf("nothing: %d %s", a.status, a.raw)
	}
	for _, host := range []string{"", "h", "mem:h"} { // none, not as the source makes them, and another's
		if a := send(host, text); a.status != http.StatusBadRequest || a.Code != "bad_option" {
			t.Errorf("host %q: %d %s", host, a.status, a.raw)
		}
	}
	all := r.published()
	if len(all) != 1 || all[0].Session != "words:h" || all[0].Source != "words" || all[0].Recurs || string(all[0].body) != string(text) {
		t.Errorf("%+v", all)
	}
	if n := r.metric("parts_total", "kind", "words"); n != 1 {
		t.Errorf("%v parts in the metrics", n)
	}
	r.balanced()
}

// A session id that begins as those that a source makes is that source's alone. What GPU Flight sends under one is refused as agents take
// it: with 200, so that they go on, and acknowledged only when every byte is kept.
func TestReservedSessions(t *testing.T) {
	r := start(t, broker.Layout{}, func(c *ingest.Config) { c.Sources = append(c.Sources, wordsSource()) })
	for _, id := range []string{"mem:h:7:-:0", "mem:unknown", "mem:", "words:h"} {
		plain := ndjson(id, 20)
		zipped := compress(t, plain)
		line := strings.TrimSpace(string(ndjson(id, 1)))
		for name, c := range map[string]struct {
			kept string
			post func() answer
		}{
			"window of the agent": {string(plain), func() answer { return r.post(id, zipped, window("w-"+id, "device", 1, zipped)...) }},
			"window of the client": {string(plain) + "\n", func() answer {
				return r.post(id, append(bytes.Clone(plain), '\n'), "Content-Type", "application/x-ndjson")
			}},
			"file without a header": {string(plain) + "\n\n", func() answer { return r.post("", append(bytes.Clone(plain), "\n\n"...)) }},
			"line of legacy mode": {line, func() answer {
				return r.do(http.MethodPost, "/api/v1/events/kernel_detail", strings.NewReader(wrap(line)), "X-Topic", "gpu-trace", "X-Key",
					"device")
			}},
		} {
			before := len(r.published())
			for try := range 2 { // an agent that did not hear the answer sends again
				if a := c.post(); a.status != http.StatusOK || !a.Whole || a.Accepted != 0 || a.Rejected == 0 {
					t.Errorf("%s, %s, try %d: %d %s", id, name, try, a.status, a.raw)
				}
			}
			got := folded(r.published()[before:])
			if len(got) != 1 {
				t.Fatalf("%s, %s: %d parts", id, name, len(got))
			}
			m := got[0]
			if m.Session != stream.NoSession || m.Kind != stream.KindReject || m.Reject.Reason != "session_reserved" ||
				string(m.body) != c.kept {
				t.Errorf("%s, %s: kept in session %q as %s, %+v: %q", id, name, m.Session, m.Kind, m.Reject, m.body)
			}
		}
		a := r.do(http.MethodPost, "/api/v1/events/session-complete", nil, "X-GpuFlight-Session-Id", id)
		if a.status != http.StatusBadRequest || a.Code != "session_reserved" {
			t.Errorf("end of %s: %d %s", id, a.status, a.raw)
		}
	}
	if a := r.post("mem:h:7:-:0", ndjson("mem:h:7:-:0", 2000)); a.status != http.StatusOK || a.Whole || a.Accepted != 0 {
		t.Errorf("more than a reject keeps, and the sender may delete it: %d %s", a.status, a.raw)
	}
	r.balanced()

	// The sessions whose ids they are have nothing of it, and say themselves that they come back.
	before := len(r.published())
	if a := r.send("", jsonOf(t, v2(0, nil))); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	if a := r.post("memory", ndjson("memory", 1)); a.status != http.StatusOK || a.Accepted != 1 {
		t.Errorf("an id that only resembles one: %d %s", a.status, a.raw)
	}
	for _, m := range r.published() {
		if own := m.Source == "telemetry"; own != strings.HasPrefix(m.Session, "mem:") ||
			m.Recurs != (own || m.Session == stream.NoSession) {
			t.Errorf("%s of %s in session %q, recurs %t", m.Kind, m.Source, m.Session, m.Recurs)
		}
	}
	if n := len(r.published()) - before; n != 2 {
		t.Errorf("%d parts", n)
	}
}

// Sources that cannot live together are told at the start.
func TestSourcesThatMeet(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	for i, wrong := range []ingest.Source{
		{}, {Name: "telemetry"}, {Name: "x", Prefixes: []string{"x"}}, {Name: "x", Prefixes: []string{"mem:"}},
		{Name: "x", Prefixes: []string{"X:"}},
		{Name: "x", Routes: []ingest.Route{{Path: "/api/v1/telemetry"}}},
	} {
		g, err := ingest.New(r.streams, ingest.Config{SpoolDir: t.TempDir(), Sources: append(sources(), wrong)})
		if err == nil {
			g.Close()
			t.Error(fmt.Sprint(i), " is taken")
		}
	}
}
