package ingest_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/stream"
)

// wrap puts a line into the wrapper as the agent does.
func wrap(line string) string {
	data, _ := json.Marshal(line)
	return fmt.Sprintf(`{"agentSendingTime":1795175929972,"data":%s,"type":"x","hostname":"h\u0031","ipAddr":"10.0.0.1"}`, data)
}

func (r *rig) line(eventType, body string, headers ...string) answer {
	r.t.Helper()
	headers = append([]string{"Content-Type", "application/json", "X-Topic", "gpu-trace", "X-Key", "device"}, headers...)
	return r.do(http.MethodPost, "/api/v1/events/"+eventType, strings.NewReader(body), headers...)
}

// Whatever a client posts to a type's route is answered with 200 and kept, as a line of its session or as a reject.
func TestLegacyMode(t *testing.T) {
	const line = `{"type":"kernel_event","session_id":"s","name":"a\"b\\c\nd\u00e9 ü 😀","start_ns":1,"end_ns":2}`
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write([]byte(wrap(line)))
	z.Close()
	long := `{"type":"x","session_id":"s","t":"` + strings.Repeat("x", 5000) + `"}`
	for _, c := range []struct {
		name, eventType, body string
		headers               []string
		accepted, rejected    uint64
		session, stored       string // stored under the session, or the reason of the reject
	}{
		{"as the agent sends it", "kernel_event", wrap(line), nil, 1, 0, "s", line},
		{"a type nobody knows", "never_heard_of", wrap(`{"type":"never_heard_of","session_id":"s"}`), nil, 1, 0, "s",
			`{"type":"never_heard_of","session_id":"s"}`},
		{"another type in the path", "memset_event", wrap(line), nil, 1, 0, "s", line},
		{"a line end in data", "x", wrap(line + "\n"), nil, 1, 0, "s", line + "\n"},
		{"escaped in other ways", "x", `{"data":"{\u0022session_id\":\"s\",\"type\":\"\ud83d\ude00\ud83d\/\b\f\r\t\"}"}`, nil, 1, 0, "s",
			"{\"session_id\":\"s\",\"type\":\"😀\uFFFD/\b\f\r\t\"}"},
		{"data as an object", "x", "{\"type\":\"x\",\"data\":{\"type\":\"x\",\n\"session_id\":\"s\",\"a\":[{\"}\":\"\\\"\"}]}}", nil, 1, 0,
			"s", `{"type":"x", "session_id":"s","a":[{"}":"\""}]}`},
		{"no wrapper", "kernel_event", line, nil, 1, 0, "s", line},
		{"no wrapper, over several lines", "x", "{\n \"type\": \"x\",\r\n \"session_id\": \"s\"\n}\n", nil, 1, 0, "s",
			`{  "type": "x",   "session_id": "s" }`},
		{"a batch", "x", wrap(`{"type":"memcpy_event_batch","session_id":"s","rows":[[1],[2],[3]]}`), nil, 3, 0, "s",
			`{"type":"memcpy_event_batch","session_id":"s","rows":[[1],[2],[3]]}`},
		{"gzip, said", "x", zipped.String(), []string{"Content-Encoding", "gzip"}, 1, 0, "s", line},
		{"gzip, not said", "x", zipped.String(), nil, 1, 0, "s", line},
		{"an encoding nobody knows", "x", wrap(line), []string{"Content-Encoding", "br"}, 1, 0, "s", line},
		{"no body", "x", "", nil, 0, 0, "", ""},
		{"an empty line", "x", wrap(" \n"), nil, 0, 0, "", ""},
		{"a torn line in a sound wrapper", "x", wrap(line[:40]), nil, 1, 0, "s", line[:40]},
		{"a torn wrapper", "x", wrap(line)[:60], nil, 0, 1, "unknown", "bad_json"},
		{"no JSON", "x", "hello", nil, 0, 1, "unknown", "bad_json"},
		{"an array", "x", "[" + wrap(line) + "]", nil, 0, 1, "unknown", "bad_json"},
		{"something behind the wrapper", "x", wrap(line) + "}", nil, 0, 1, "unknown", "bad_json"},
		{"a bad escape", "x", `{"data":"\x"}`, nil, 0, 1, "unknown", "bad_json"},
		{"a comma too many", "x", `{"data":"",}`, nil, 0, 1, "unknown", "bad_json"},
		{"no line at all", "x", `{"agentSendingTime":1}`, nil, 0, 1, "unknown", "missing_field"},
		{"no session", "x", wrap(`{"type":"shutdown"}`), nil, 0, 1, "unknown", "session_missing"},
		{"a session with a control character", "x", wrap(`{"type":"shutdown","session_id":"a\u0001b"}`), nil, 0, 1, "unknown",
			"session_missing"},
		{"a long session", "x", wrap(`{"type":"shutdown","session_id":"` + strings.Repeat("s", 300) + `"}`), nil, 0, 1, "unknown",
			"session_missing"},
		{"data is a number", "x", `{"type":"x","data":7}`, nil, 0, 1, "unknown", "session_missing"},
		{"a line over limit-line", "x", wrap(long), nil, 0, 1, "s", "line_too_long"},
		{"a body over any line", "x", wrap(strings.Repeat("x", 1<<20)), nil, 0, 1, "unknown", "body_too_large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, broker.Layout{}, func(cfg *ingest.Config) { cfg.Defaults.MaxLineBytes = 4000 })
			for try := range 3 { // sent again, from another channel, and by another agent
				a := r.line(c.eventType, c.body, append(c.headers, "X-Key", fmt.Sprint("channel", try))...)
				if a.status != 200 || a.Accepted != c.accepted || a.Rejected != c.rejected || a.Errors == nil {
					t.Fatalf("answered %d %s", a.status, a.raw)
				}
				if c.rejected > 0 && (len(a.Errors) != 1 || c.session == "unknown" && a.Errors[0].Reason != c.stored) {
					t.Errorf("errors: %s", a.raw)
				}
			}
			all := folded(r.published())
			if c.session == "" {
				if len(all) != 0 {
					t.Fatalf("published %+v", all)
				}
				return
			}
			if len(all) != 1 || all[0].Session != c.session || !all[0].Last {
				t.Fatalf("published %d: %+v", len(all), all)
			}
			m := all[0]
			// wire format: resends rest on it
			if sum := sha256.Sum256([]byte(c.stored)); c.accepted > 0 && m.Identity != "line-"+hex.EncodeToString(sum[:16]) {
				t.Errorf("identity %s", m.Identity)
			}
			if c.rejected > 0 {
				if m.Kind != stream.KindReject || m.Reject.Reason != c.stored || m.Reject.Detail == "" || len(m.body) == 0 {
					t.Fatalf("published %+v %+v with %d bytes", m.Envelope, m.Reject, len(m.body))
				}
			} else if m.Kind != stream.KindGPUFlight || string(m.body) != c.stored || m.Channel != "channel0" ||
				strings.HasPrefix(c.body, `{"agent`) && m.Host != "h1" {
				t.Fatalf("published %q as %+v", m.body, m.Envelope)
			}
			r.balanced()
		})
	}
}

// A line of many MB goes to the object store, once, whatever its escapes and the borders of buffers do.
func TestLegacyGiantLine(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	rnd := rand.New(rand.NewPCG(1, 1))
	pieces := []string{"\t", "\\", "\"", "😀", "plain text, rather long", "é", "\u2028", "<", "\n"}
	var sass strings.Builder
	for sass.Len() < 3<<20 {
		sass.WriteString(pieces[rnd.IntN(len(pieces))])
	}
	text, _ := json.Marshal(sass.String())
	line := `{"version":1,"type":"cubin_disassembly","session_id":"s","sass":` + string(text) + `}`
	for range 2 {
		if a := r.line("cubin_disassembly", wrap(line)); a.status != 200 || a.Accepted != 1 || !a.Whole {
			t.Fatalf("%d %s", a.status, a.raw)
		}
		all := r.published()
		if len(all) != 1 || all[0].Object == "" || string(all[0].body) != line {
			t.Fatalf("published %d", len(all))
		}
	}
	// The worker deletes the object when the line is folded: it must not come back.
	if err := r.streams.Parts.Delete(t.Context(), r.publishedObject()); err != nil {
		t.Fatal(err)
	}
	if a := r.line("cubin_disassembly", wrap(line)); a.status != 200 || a.Accepted != 1 {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	if list, err := r.streams.Parts.List(t.Context()); err == nil && len(list) > 0 {
		t.Errorf("the object is there again: %+v", list[0])
	}
	if n := r.metric("windows_total", "outcome", "repeat"); n != 2 {
		t.Errorf("%.0f repeats", n)
	}
	r.balanced()
	// Without a session its beginning is kept.
	lost := strings.Replace(line, "session_id", "session_no", 1)
	if a := r.line("x", wrap(lost)); a.status != 200 || a.Rejected != 1 {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	msg, err := r.streams.Ingest.GetLastMsgForSubject(t.Context(), "ingest.*.dev."+stream.SessionToken(stream.NoSession))
	if err != nil {
		t.Fatal(err)
	}
	e, body, err := stream.ParseEnvelope(msg.Data)
	if err != nil {
		t.Fatal(err)
	}
	if body, err = stream.DecodeBody(nil, body); err != nil || e.Session != "unknown" || string(body) != lost[:stream.RejectBytes] {
		t.Errorf("kept %d bytes of session %q, %v", len(body), e.Session, err)
	}
}

func (r *rig) publishedObject() string {
	r.t.Helper()
	return r.published()[0].Object
}

// Only what the client can mend, or has to wait for, is refused.
func TestLegacyRefusals(t *testing.T) {
	r := start(t, broker.Layout{}, func(c *ingest.Config) {
		c.PathPrefix = "/p"
		c.Defaults.EventsPerSecond = 1
		c.Defaults.BurstSeconds = 1
	})
	post := func(path string, headers ...string) answer {
		return r.do(http.MethodPost, path, strings.NewReader(wrap(`{"type":"x","session_id":"s"}`)), headers...)
	}
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"POST", "/p/api/v1/events/", 404}, {"POST", "/p/api/v1/events/a/b", 404}, {"POST", "/api/v1/events/", 404},
		{"POST", "/q/api/v1/events/kernel_event", 404},
		{"GET", "/api/v1/events/kernel_event", 405},
		{"GET", "/p/api/v1/events/kernel_event", 405}, {"POST", "/p/api/v1/events/session-complete", 400},
	} {
		if a := r.do(c.method, c.path, nil); a.status != c.status {
			t.Errorf("%s %s: %d %s", c.method, c.path, a.status, a.raw)
		}
	}
	if a := post("/p/api/v1/events/kernel_event", "Authorization", "Bearer wrong"); a.status != 401 {
		t.Errorf("a wrong key: %d %s", a.status, a.raw)
	}
	limited := false
	for range 20 {
		a := post("/p/api/v1/events/kernel_event")
		if limited = a.status == 429 && a.header.Get("Retry-After") != ""; limited {
			break
		}
		if a.status != 200 {
			t.Fatalf("%d %s", a.status, a.raw)
		}
	}
	if !limited {
		t.Error("never limited")
	}
	r.streams.Conn.Close()
	fresh := start(t, broker.Layout{}, nil)
	fresh.streams.Conn.Close()
	if a := fresh.line("kernel_event", wrap(`{"type":"x","session_id":"s"}`)); a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("NATS away: %d %s", a.status, a.raw)
	}
}
