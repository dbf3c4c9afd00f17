package ingest_test

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// Each body gets the answer that the client needs; what it holds is in the stream, once, and the books balance.
func TestBodies(t *testing.T) {
	r := start(t, broker.Layout{}, func(c *ingest.Config) {
		c.Defaults = tenant.Limits{MaxBodyBytes: 512 << 10, MaxRawBytes: 8 << 20, MaxLineBytes: 4 << 20, MaxRatio: 600}
	})
	plain := ndjson("s", 1000)
	packed := compress(t, plain)
	noise := make([]byte, 600<<10)
	rand.NewChaCha8([32]byte{1}).Read(noise)
	hex := []byte(fmt.Sprintf("%x", noise))
	for i := 100; i < len(hex); i += 101 {
		hex[i] = '\n'
	}
	columnar, rows := columnarWindow(3, "s", 9<<17)
	giant := append(append(ndjson("s", 3), []byte(`{"version":1,"type":"cubin","session_id":"s","data":"`+strings.Repeat("QUJD",
		700_000)+`"}`+"\n")...), ndjson("s", 2)...)
	huge := append(append(ndjson("s", 3), bytes.Repeat([]byte("0123456789abcdef"), 6<<20/16)...), "\n{}\n"...)
	gz := []string{"Content-Encoding", "gzip"}
	for _, c := range []struct {
		name       string
		body       []byte
		headers    []string
		accepted   uint64
		rejected   uint64
		reason     string
		whole      bool
		stored     []byte // nil: not compared
		maxStored  int    // at most this much, a prefix of raw
		rejectBody int
	}{
		{"identity", plain, nil, 1000, 0, "", true, plain, 0, 0},
		{"gzip", packed, gz, 1000, 0, "", true, plain, 0, 0},
		{"gzip without saying so", packed, nil, 1000, 0, "", true, plain, 0, 0},
		{"two members", append(bytes.Clone(packed), packed...), gz, 2000, 0, "", true, append(bytes.Clone(plain), plain...), 0, 0},
		{"unterminated last line", plain[:len(plain)-1], nil, 1000, 0, "", true, plain[:len(plain)-1], 0, 0},
		{"blank lines", []byte("\n\r\n{}\r\n\n"), nil, 1, 0, "", true, []byte("\n\r\n{}\r\n\n"), 0, 0},
		{"empty", nil, nil, 0, 0, "", true, []byte{}, 0, 0},
		{"empty, said to be gzip", nil, gz, 0, 0, "", true, []byte{}, 0, 0},
		{"batches count rows", compress(t, columnar), gz, uint64(rows), 0, "", true, columnar, 0, 0},
		{"torn gzip", packed[:len(packed)/2], gz, 0, 1, "torn_gzip", false, nil, len(plain), 0},
		{"not gzip", []byte("hello"), gz, 0, 1, "torn_gzip", true, []byte{}, 0, 5},
		{"garbage behind gzip", append(bytes.Clone(packed), "garbage"...), gz, 1000, 1, "torn_gzip", true, plain, 0, 7},
		{"giant line", compress(t, giant), gz, 6, 0, "", true, giant, 0, 0},
		{"too long line", compress(t, huge), gz, 4, 1, "line_too_long", false, append(ndjson("s", 3), "{}\n"...), 0, stream.RejectBytes},
		{"bomb", compress(t, bytes.Repeat([]byte("{}\n"), 5<<20)), gz, 0, 1, "", false, nil, 8 << 20, 0},
		{"body over the limit", hex, nil, 0, 1, "body_too_large", false, nil, 512 << 10, 0},
		{"gzip over the limit", compress(t, hex), gz, 0, 1, "body_too_large", false, nil, len(hex), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.t = t
			if err := r.streams.Ingest.Purge(t.Context()); err != nil {
				t.Fatal(err)
			}
			session := "s-" + c.name
			a := r.post(session, c.body, c.headers...)
			if a.status != http.StatusOK {
				t.Fatalf("%d %s", a.status, a.raw)
			}
			if a.Whole != c.whole || a.Rejected != c.rejected || c.accepted > 0 && a.Accepted != c.accepted {
				t.Errorf("have %s\nwant accepted %d, rejected %d, window_acknowledged %v", a.raw, c.accepted, c.rejected, c.whole)
			}
			if c.rejected > 0 && (len(a.Errors) == 0 || c.reason != "" && a.Errors[0].Reason != c.reason) {
				t.Errorf("errors are %v, want reason %s", a.Errors, c.reason)
			}
			all := r.published()
			text := kept(all, session)
			if c.stored != nil && text != string(c.stored) {
				t.Errorf("stored %d bytes, want %d as sent", len(text), len(c.stored))
			}
			if c.stored == nil && (len(text) == 0 || len(text) > c.maxStored || text[len(text)-1] != '\n') {
				t.Errorf("stored %d bytes, want whole lines and at most %d bytes", len(text), c.maxStored)
			}
			var accepted, rejected uint64
			for i, m := range all {
				if m.Part != i || m.Last != (i == len(all)-1) || m.Tenant != "dev" || m.ReceivedAt == 0 || m.RetentionDays == 0 ||
					m.subject != stream.IngestSubject(stream.Partition("dev", session, r.streams.Partitions), "dev",
						stream.SessionToken(session)) {
					t.Errorf("message %d on %s: %+v", i, m.subject, m.Envelope)
				}
				if m.Kind == stream.KindReject {
					rejected += m.Events
					if m.Reject == nil || len(m.body) > stream.RejectBytes || c.rejectBody > 0 && len(m.body) != c.rejectBody {
						t.Errorf("reject %+v with %d bytes", m.Reject, len(m.body))
					}
					continue
				}
				accepted += m.Events
				if m.Bytes != uint64(len(m.body)) || m.Object == "" && m.Bytes > stream.PartBytes {
					t.Errorf("part %d: says %d bytes, has %d", i, m.Bytes, len(m.body))
				}
			}
			if accepted != a.Accepted || rejected != a.Rejected {
				t.Errorf("answered %d + %d, published %d + %d", a.Accepted, a.Rejected, accepted, rejected)
			}
			// The same again, a moment later: recognised by its hash, nothing published, the same answer.
			again := r.post(session, c.body, c.headers...)
			if again.status != 200 || again.Accepted != a.Accepted || again.Rejected != a.Rejected || again.Whole != a.Whole {
				t.Errorf("the second time: %s\nthe first: %s", again.raw, a.raw)
			}
			if n := len(r.published()); n != len(all) {
				t.Errorf("the second time added %d messages", n-len(all))
			}
			r.balanced()
		})
	}
}

func TestLineOf100MiB(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	pr, pw := io.Pipe()
	go func() {
		pw.Write(ndjson("s", 2))
		chunk := bytes.Repeat([]byte("x"), 1<<20)
		for range 100 {
			pw.Write(chunk)
		}
		pw.Write([]byte("\n"))
		pw.Write(ndjson("s", 2))
		pw.Close()
	}()
	a := r.do(http.MethodPost, "/api/v1/events/stream", pr, "X-GpuFlight-Session-Id", "s")
	if a.status != 200 || a.Accepted != 4 || a.Rejected != 1 || a.Whole || a.Errors[0].Reason != "line_too_long" || a.Errors[0].Line != 3 {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	all := r.published()
	if len(all) != 3 || all[1].Kind != stream.KindReject || all[1].Bytes != 100<<20+1 || len(all[1].body) != stream.RejectBytes {
		t.Fatalf("have %d messages, the second %+v", len(all), all[1].Envelope)
	}
	r.balanced()
}

func TestSessions(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	line := []byte(`{"version":1,"type":"kernel_detail","session_id":"from-the-line"}` + "\n")
	for _, c := range []struct {
		name, header, want string
		body               []byte
		rejected           uint64
		whole              bool
	}{
		{"header", "h-1", "h-1", line, 0, true},
		{"first line", "", "from-the-line", line, 0, true},
		{"behind blank lines", "", "from-the-line", append([]byte("\n \n"), line...), 0, true},
		{"none", "", "unknown", []byte("{\"a\":1}\n{\"a\":2}\n"), 2, true},
		{"none in a long body", "", "unknown", bytes.Repeat([]byte("{\"a\":1}\n"), 100_000), 100_000, false},
		{"too long", strings.Repeat("x", 257), "unknown", line, 1, true},
		{"no UTF-8", "a\xffb", "unknown", append([]byte("{}\n"), line...), 2, true},
		{"longest", strings.Repeat("x", 256), strings.Repeat("x", 256), line, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.t = t
			if err := r.streams.Ingest.Purge(t.Context()); err != nil {
				t.Fatal(err)
			}
			// Past the duplicate window of other cases: bodies differ by a blank line.
			a := r.post(c.header, append(bytes.Clone(c.body), bytes.Repeat([]byte("\n"), len(c.name))...))
			if a.status != 200 || a.Rejected != c.rejected || a.Whole != c.whole {
				t.Fatalf("%d %s", a.status, a.raw)
			}
			all := r.published()
			if len(all) != 1 || all[0].Session != c.want {
				t.Fatalf("have %d messages: %+v", len(all), all)
			}
			if c.rejected > 0 && (all[0].Kind != stream.KindReject || all[0].Reject.Reason != "session_missing" ||
				a.Errors[0].Reason != "session_missing") {
				t.Errorf("have %+v", all[0].Envelope)
			}
			r.balanced()
		})
	}
}

func TestWindows(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	one, two := compress(t, ndjson("s", 10)), compress(t, ndjson("s", 20))
	if a := r.post("s", one, window("w1", "device", 1, one)...); a.status != 200 || a.Accepted != 10 || !a.Whole {
		t.Fatalf("new: %s", a.raw)
	}
	if a := r.post("s", one, window("w1", "device", 1, one)...); a.status != 200 || a.Accepted != 10 || !a.Whole {
		t.Fatalf("repeat: %s", a.raw)
	}
	if n := r.metric("windows_total", "outcome", "repeat"); n != 1 {
		t.Errorf("%.0f repeats", n)
	}
	a := r.post("s", two, window("w1", "device", 1, two)...)
	if a.status != http.StatusConflict || a.Code != "window_identity_conflict" || r.metric("windows_total", "outcome", "conflict") != 1 {
		t.Fatalf("conflict: %d %s", a.status, a.raw)
	}
	if n := len(r.published()); n != 1 {
		t.Fatalf("%d messages", n)
	}
	// The same id in another session and of another tenant's key is another window.
	if a := r.post("s2", two, window("w1", "device", 1, two)...); a.status != 200 || a.Accepted != 20 {
		t.Fatalf("other session: %s", a.raw)
	}
	if err := ingest.AcceptConflict(t.Context(), r.streams, "dev", "s", "nonsense"); err == nil {
		t.Error("accepted a window nobody knows")
	}
	if err := ingest.AcceptConflict(t.Context(), r.streams, "dev", "s", "w1"); err != nil {
		t.Fatal(err)
	}
	if a := r.post("s", two, window("w1", "device", 1, two)...); a.status != 200 || a.Accepted != 20 || !a.Whole {
		t.Fatalf("after accepting: %s", a.raw)
	}
	if a := r.post("s", two, window("w1", "device", 1, two)...); a.status != 200 {
		t.Fatalf("repeat after accepting: %s", a.raw)
	}
	// A worker folds both: the accepted bytes have an identity of their own.
	if have, want := len(kept(r.published(), "s")), len(ndjson("s", 10))+len(ndjson("s", 20)); have != want {
		t.Errorf("kept %d bytes, want %d", have, want)
	}
	wrong := window("w2", "device", 2, one)
	wrong[len(wrong)-1] = "12345"
	if a := r.post("s", one, wrong...); a.status != 503 || a.Code != "crc_mismatch" || a.header.Get("Retry-After") == "" {
		t.Errorf("wrong CRC: %d %s", a.status, a.raw)
	}
	// Some window headers are none: the hash of the body identifies it.
	if a := r.post("s", one, "Content-Encoding", "gzip", "X-GpuFlight-Window-Id", "w3"); a.status != 200 || a.Accepted != 10 {
		t.Errorf("incomplete headers: %s", a.raw)
	}
	long := strings.Repeat("w", 5000)
	if a := r.post("s3", one, window(long, "some channel, long and odd", 1, one)...); a.status != 200 {
		t.Errorf("long id: %s", a.raw)
	}
	if a := r.post("s3", two, window(long, "some channel, long and odd", 1, two)...); a.status != http.StatusConflict {
		t.Errorf("long id again: %s", a.raw)
	}
	r.balanced()
}

// More windows than a record remembers, and the newest are still recognised.
func TestManyWindows(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	body := compress(t, ndjson("s", 1))
	const windows = 1100
	for i := range windows {
		if a := r.post("s", body, window(fmt.Sprint("w", i), "device", i+1, body)...); a.status != 200 {
			t.Fatal(a.raw)
		}
	}
	n := len(r.published())
	for i := windows - 1000; i < windows; i += 97 {
		r.post("s", body, window(fmt.Sprint("w", i), "device", i+1, body)...)
	}
	if have := len(r.published()); have != windows || n != windows {
		t.Errorf("%d messages, then %d, want %d", n, have, windows)
	}
}

// Four channels at once, each window twice, as launcher and agent may do it, and through two gateways.
func TestParallelChannels(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	other := startOn(t, r.streams, nil)
	var wg sync.WaitGroup
	const windows = 5
	want := 0
	for _, channel := range []string{"device", "scope", "system", "sass"} {
		for _, via := range []*rig{r, other} {
			wg.Go(func() {
				for i := range windows {
					raw := bytes.Repeat(ndjson(channel, 100*(i+1)), 40)
					body := compress(t, raw)
					a := via.post("s", body, window(fmt.Sprint(channel, i), channel, i+1, body)...)
					if a.status != 200 || !a.Whole || a.Accepted != uint64(4000*(i+1)) {
						t.Errorf("%s %d: %d %s", channel, i, a.status, a.raw)
					}
				}
			})
		}
		for i := range windows {
			want += len(ndjson(channel, 100*(i+1))) * 40
		}
	}
	wg.Wait()
	if have := len(kept(r.published(), "s")); have != want {
		t.Errorf("kept %d bytes, want %d", have, want)
	}
	r.balanced()
	other.balanced()
}

// The gateway dies in the middle of a window. Its record says pending and some parts are there; the limits change meanwhile; long after the
// duplicate window the client sends the window again, to another gateway: every line is folded once.
func TestHalfPublishedWindowIsResumed(t *testing.T) {
	s := broker.DefaultLayout()
	first := start(t, s, func(c *ingest.Config) { c.Defaults = tenant.Limits{MaxRawBytes: 5 << 20, MaxLineBytes: 100} })
	text := ndjson("s", 60_000)
	body := compress(t, text)
	// What the first gateway does up to its death: all parts are published, and then the record is put back to how it was before.
	ctx := t.Context()
	before := watchFirst(t, first.streams)
	if a := first.post("s", body, window("w", "device", 1, body)...); a.status != 200 {
		t.Fatal(a.raw)
	}
	key, pending := before()
	if _, err := first.streams.Windows.Put(ctx, key, pending); err != nil {
		t.Fatal(err)
	}
	once := first.published()
	if len(once) < 4 {
		t.Fatalf("only %d parts", len(once))
	}
	// Half of the parts never made it; and JetStream has forgotten the ids of the others: their subject is copied into a fresh stream.
	info, err := first.streams.Ingest.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for seq := info.State.LastSeq - 1; seq <= info.State.LastSeq; seq++ {
		if err := first.streams.Ingest.DeleteMsg(ctx, seq); err != nil {
			t.Fatal(err)
		}
	}
	// A probe that is younger than all parts: once JetStream takes its id again, it has forgotten theirs. The server starts its timer anew
	// when the window changes, but sometimes reads the old window for it (2 minutes): so the window changes before each probe.
	cfg, probes := info.Config, 0
	eventually(t, 60*time.Second, "the duplicate window passes", func() bool {
		cfg.Duplicates = 100*time.Millisecond + time.Duration(probes)*time.Millisecond
		if _, err := first.streams.JS.UpdateStream(ctx, cfg); err != nil {
			t.Fatal(err)
		}
		ack, err := first.streams.JS.Publish(ctx, "ingest.0.probe.probe", nil, jetstream.WithMsgID("probe"))
		if err != nil {
			t.Fatal(err)
		}
		probes++
		if ack.Duplicate {
			time.Sleep(100 * time.Millisecond)
			return false
		}
		if err := first.streams.Ingest.DeleteMsg(ctx, ack.Sequence); err != nil {
			t.Fatal(err)
		}
		return probes > 1
	})
	second := startOn(t, first.streams, nil) // other limits
	a := second.post("s", body, window("w", "device", 1, body)...)
	if a.status != 200 || second.metric("windows_total", "outcome", "resumed") != 1 {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	after := second.publishedFrom(info.State.FirstSeq)
	if len(after) <= len(once) {
		t.Fatalf("%d messages, %d before: JetStream dropped them, so nothing was tested", len(after), len(once))
	}
	if got, want := fingerprint(folded(after)), fingerprint(once); got != want {
		t.Errorf("folded after the resend:\n%s\nwant:\n%s", got, want)
	}
}

// watchFirst returns a function that gives the first value written to the windows bucket from now on.
func watchFirst(t *testing.T, s *broker.Streams) func() (string, []byte) {
	t.Helper()
	w, err := s.Windows.WatchAll(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return func() (string, []byte) {
		defer w.Stop()
		for {
			select {
			case e := <-w.Updates():
				if e != nil {
					return e.Key(), e.Value()
				}
			case <-time.After(60 * time.Second):
				t.Fatal("no record was written")
			}
		}
	}
}

// fingerprint tells messages by their parts, in the order of the parts.
func fingerprint(in []message) string {
	lines := make([]string, len(in))
	for _, m := range in {
		lines[min(m.Part, len(in)-1)] = fmt.Sprintf("%s %d %s %d %x", m.Kind, m.Part, m.Identity, len(m.body), crc32.ChecksumIEEE(m.body))
	}
	return strings.Join(lines, "\n")
}
