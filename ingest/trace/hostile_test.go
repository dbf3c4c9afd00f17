package trace_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/kineto"
	"github.com/warpline/warpline/proto/stream"
)

// endless is n times a text.
type endless struct {
	text string
	n    int
	at   int
}

func (e *endless) Read(b []byte) (n int, err error) {
	for n < len(b) && e.n > 0 {
		k := copy(b[n:], e.text[e.at:])
		n, e.at = n+k, e.at+k
		if e.at == len(e.text) {
			e.at, e.n = 0, e.n-1
		}
	}
	if n == 0 {
		err = io.EOF
	}
	return n, err
}

// packed is gzip of what the parts have one behind the other.
func packed(t testing.TB, parts ...io.Reader) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(z, io.MultiReader(parts...)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Traces that are made to cost: each gets an answer, its neighbours stay, and what the gateway holds is bounded however long they are.
func TestTracesThatAreMadeToCost(t *testing.T) {
	r := start(t, func(c *ingest.Config) { c.Defaults.MaxRatio = 2000 })
	text := strings.NewReader
	numbered := func(n int, format string) io.Reader {
		readers := make([]io.Reader, n)
		for i := range readers {
			readers[i] = text(fmt.Sprintf(format, i))
		}
		return io.MultiReader(readers...)
	}
	long := 1_000_000_000
	if testing.Short() {
		long /= 10
	}
	for _, c := range []struct {
		name               string
		body               []byte
		status             int
		accepted, rejected uint64
		reason             string
	}{
		{"a string of 10^9 bytes", packed(t, text("["+event+`,{"ph":"X","ts":1,"name":"`),
			&endless{text: strings.Repeat("x", 1000), n: long / 1000}, text(`"},`+event+"]")), 200, 2, 1, "event_too_large"},
		{"a member of 64 MiB", packed(t, text(`{"metadata":"`), &endless{text: strings.Repeat("x", 1<<10), n: 64 << 10},
			text(`","traceEvents":[`+event+"]}")), 200, 1, 0, ""},
		{"metadata without end", packed(t, text("["+event), &endless{text: `,{"ph":"M","name":"thread_name","pid":1,"tid":"` +
			strings.Repeat("t", 900) + `","args":{"name":"` + strings.Repeat("n", 900) + `"}}`, n: 20_000}, text("]")), 200, 20_001, 0, ""},
		{"threads without end", packed(t, text("["+event), numbered(100_000, `,{"ph":"M","name":"thread_name","pid":1,"tid":%[1]d,"args":`+
			`{"name":"thread %[1]d of a very long list"}}`), text("]")), 200, 100_001, 0, ""},
		{"a million names", packed(t, text("["+event), numbered(1_000_000, `,{"ph":"X","ts":1,"dur":1,"pid":1,"tid":1,"name":"n%d"}`),
			text("]")), 200, 1_000_001, 0, ""},
		{"brackets without end", packed(t, text("["+event+","), &endless{text: `[`, n: 50 << 20}), 200, 1, 0, ""},
		{"nothing but commas", packed(t, text("["+event), &endless{text: `,`, n: 10 << 20}, text("]")), 200, 1, 0, ""},
	} {
		a := r.post(traces, "", c.body)
		if a.status != c.status || a.Accepted != c.accepted || a.Rejected != c.rejected && c.rejected > 0 ||
			c.reason != "" && (len(a.Errors) == 0 || a.Errors[0].Code != c.reason || a.Errors[0].Offset != int64(len("["+event+","))) {
			t.Errorf("%s: %d %.500s", c.name, a.status, a.raw)
		}
	}
}

// Bombs end at the limit, in gzip, in a form, and in both.
func TestBombs(t *testing.T) {
	r := start(t, nil)
	bomb := packed(t, strings.NewReader("["+event), &endless{text: strings.Repeat(" ", 1<<20), n: 300}, strings.NewReader("]"))
	contentType, body := asForm("trace", bomb)
	var twice bytes.Buffer
	w := multipart.NewWriter(&twice)
	for range 50_000 {
		part, err := w.CreateFormField("other")
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(part, "x")
	}
	part, _ := w.CreateFormFile("trace", "t")
	io.WriteString(part, "["+event+"]")
	w.Close()
	header := "--b\r\n" + strings.Repeat("X-Long: "+strings.Repeat("h", 4000)+"\r\n", 5000) + "\r\n[]\r\n--b--\r\n"
	for name, c := range map[string]struct {
		path, contentType string
		body              []byte
		status            int
		says              string
	}{
		"gzip":              {traces, "", bomb, http.StatusRequestEntityTooLarge, "limit-ratio"},
		"gzip in a form":    {form, contentType, body, http.StatusRequestEntityTooLarge, "limit-ratio"},
		"a form of fields":  {form, w.FormDataContentType(), twice.Bytes(), http.StatusOK, `"accepted":1`},
		"a form of headers": {form, "multipart/form-data; boundary=b", []byte(header), http.StatusBadRequest, "bad_form"},
		"a form without end": {form, "multipart/form-data; boundary=b",
			[]byte("--b\r\nContent-Disposition: form-data; name=\"trace\"\r\n\r\n["), http.StatusBadRequest, "bad_form"},
		"a form without trace": {form, "multipart/form-data; boundary=b", []byte("--b--\r\n"), http.StatusBadRequest, "bad_form"},
	} {
		if a := r.post(c.path, c.contentType, c.body); a.status != c.status || !strings.Contains(a.raw, c.says) {
			t.Errorf("%s: %d %.300s, want %d and %s", name, a.status, a.raw, c.status, c.says)
		}
	}
}

// The bytes of what is refused are kept as they stand, with the reason and the offset.
func TestRefusedElementsAreKept(t *testing.T) {
	r := start(t, nil)
	broken := `{"ph":"X","ts":7,"args":{"a":[1,2}}`
	if a := r.post(traces, "", []byte("["+event+","+broken+","+event+"]")); a.status != 200 || a.Rejected != 1 {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	info, err := r.streams.Ingest.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		msg, err := r.streams.Ingest.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		e, body, err := stream.ParseEnvelope(msg.Data)
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind != stream.KindReject {
			continue
		}
		kept, err := stream.DecodeBody(nil, body)
		if err != nil {
			t.Fatal(err)
		}
		if strings.TrimRight(string(kept), ", ") != broken || e.Reject.Reason != kineto.BadEvent ||
			e.Reject.Ref != fmt.Sprint("byte ", len("["+event+",")) {
			t.Errorf("kept %q, %+v", kept, e.Reject)
		}
		return
	}
	t.Error("no reject was published")
}

// BenchmarkLongString is what the gateway holds while it reads a trace with a string of 10^9 bytes: B/heap is the most of its heap.
func BenchmarkLongString(b *testing.B) {
	r := start(b, func(c *ingest.Config) { c.Defaults.MaxRatio = 2000 })
	body := packed(b, strings.NewReader("["+event+`,{"ph":"X","ts":1,"name":"`), &endless{text: strings.Repeat("x", 1000), n: 1_000_000},
		strings.NewReader(`"},`+event+"]"))
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b.SetBytes(1_000_000_000)
	for n := 0; b.Loop(); n++ {
		if a := r.post(traces+fmt.Sprint("?session=n", n), "", body); a.status != 200 || a.Accepted != 2 {
			b.Fatalf("%d %s", a.status, a.raw)
		}
	}
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapSys-before.HeapSys), "B/heap")
}
