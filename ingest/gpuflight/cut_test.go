package gpuflight

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
)

// These are white box tests: what the cutter gives is wire format (the parts' identity), and has no other door of its own.

// cutPiece is a piece with its bytes, giants included.
type cutPiece struct {
	kind   pieceKind
	bytes  []byte
	size   int64
	events uint64
	line   int64
	reason string
	last   bool
}

func (p cutPiece) String() string {
	return fmt.Sprintf("kind=%d size=%d bytes=%d events=%d line=%d reason=%q last=%v", p.kind, p.size, len(p.bytes), p.events, p.line,
		p.reason, p.last)
}

// cutAll runs a cutter over src and reads giants in odd chunks.
func cutAll(t testing.TB, src io.Reader, maxLine int64, chunk int) []cutPiece {
	t.Helper()
	c := new(cutter)
	c.reset(src, maxLine, make([]byte, stream.PartBytes))
	var out []cutPiece
	for {
		p, err := c.next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		body := bytes.Clone(p.body)
		if p.kind == pieceGiant {
			var long bytes.Buffer
			buf := make([]byte, chunk)
			for {
				n, err := c.Read(buf)
				long.Write(buf[:n])
				if err != nil {
					break
				}
			}
			if p, err = c.endGiant(); err != nil {
				t.Fatal(err)
			}
			if body = bytes.Clone(p.body); p.kind == pieceGiant {
				body = long.Bytes()
			}
		}
		out = append(out, cutPiece{p.kind, body, p.size, p.events, p.line, p.reason, c.last()})
	}
}

func lines(seed uint64, n, maxLen int) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	var b bytes.Buffer
	for range n {
		b.WriteString(strings.Repeat("x", rng.IntN(maxLen)))
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// The boundaries are wire format: a part's identity is the upload's id and its number. If this test fails, windows that are half
// published during the update will be stored partly twice and partly not at all.
func TestCutGolden(t *testing.T) {
	for _, c := range []struct {
		name    string
		input   []byte
		maxLine int64
		want    string
	}{
		{"nothing", nil, 32 << 20, ""},
		{"one line", []byte("a\n"), 32 << 20, "p2"},
		{"unterminated", []byte("a\nb"), 32 << 20, "p3"},
		{"blank lines and CR stay", []byte("\n\r\na\r\n\n"), 32 << 20, "p7"},
		{"exactly a part", append(bytes.Repeat([]byte{'a'}, 1<<20-1), '\n'), 32 << 20, "p1048576"},
		{"exactly a part, unterminated", bytes.Repeat([]byte{'a'}, 1<<20), 32 << 20, "g1048576"},
		{"one over", append(bytes.Repeat([]byte{'a'}, 1<<20), '\n'), 32 << 20, "g1048577"},
		{"giant between lines", []byte("a\n" + strings.Repeat("b", 3<<20) + "\nc\n"), 32 << 20, "p2 g3145729 p2"},
		{"giant over the limit", []byte("a\n" + strings.Repeat("b", 3<<20) + "\nc\n"), 2 << 20, "p2 r3145729/line_too_long p2"},
		{"giant at the limit", []byte(strings.Repeat("b", 2<<20) + "\nc\n"), 2 << 20, "g2097153 p2"},
		{"small limit", []byte("aa\nbbbb\ncc\ndddd"), 3, "p3 r5/line_too_long p3 r4/line_too_long"},
		{"small limit, full buffer", append(bytes.Repeat([]byte("ab\n"), 400_000), "abcdef\n"...), 3, "p1048575 p151425 r7/line_too_long"},
		{"many lines", lines(7, 100_000, 60), 32 << 20, "p1048542 p1048557 p947407"},
		{"long lines", lines(8, 200, 600_000), 32 << 20, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, p := range cutAll(t, bytes.NewReader(c.input), c.maxLine, 1000) {
				s := fmt.Sprintf("%c%d", "pgr"[p.kind], p.size)
				if p.reason != "" {
					s += "/" + p.reason
				}
				got = append(got, s)
			}
			have := strings.Join(got, " ")
			if c.name == "long lines" {
				sum := sha256.Sum256([]byte(have))
				have, c.want = hex.EncodeToString(sum[:8]), "41eb278ff1d63d64"
			}
			if have != c.want {
				t.Errorf("have %s\nwant %s", have, c.want)
			}
		})
	}
}

// checkCut holds for any bytes: pieces in order are the input, parts are whole lines within the limit, only the last piece is last.
func checkCut(t testing.TB, input []byte, maxLine int64, pieces []cutPiece) {
	t.Helper()
	at, line := int64(0), int64(1)
	var events uint64
	for i, p := range pieces {
		if at+p.size > int64(len(input)) {
			t.Fatalf("piece %d (%v) goes beyond the input", i, p)
		}
		src := input[at : at+p.size]
		if !bytes.HasPrefix(src, p.bytes) || p.kind != pieceReject && int64(len(p.bytes)) != p.size {
			t.Fatalf("piece %d (%v) is not the input's bytes", i, p)
		}
		if p.kind == pieceReject && int64(len(p.bytes)) != min(p.size, stream.RejectBytes) {
			t.Fatalf("reject %d (%v) keeps the wrong number of bytes", i, p)
		}
		if p.kind == piecePart && p.size > stream.PartBytes {
			t.Fatalf("part %d has %d bytes", i, p.size)
		}
		for l := range bytes.Lines(src) {
			text := int64(len(bytes.TrimSuffix(l, []byte{'\n'})))
			if p.kind == pieceReject != (text > maxLine) {
				t.Fatalf("piece %d (%v) holds a line of %d, limit %d", i, p, text, maxLine)
			}
		}
		at += p.size
		if at < int64(len(input)) && input[at-1] != '\n' {
			t.Fatalf("piece %d (%v) ends inside a line", i, p)
		}
		if p.line != line {
			t.Fatalf("piece %d (%v) begins at line %d", i, p, line)
		}
		line += int64(bytes.Count(src, []byte{'\n'}))
		if p.last != (i == len(pieces)-1) {
			t.Fatalf("piece %d of %d: last is %v", i, len(pieces), p.last)
		}
		events += p.events
	}
	if at != int64(len(input)) {
		t.Fatalf("pieces cover %d of %d bytes", at, len(input))
	}
}

// expand makes inputs large enough to be cut out of small fuzz data: 0xFF n means a run of n KiB of one byte.
func expand(data []byte) []byte {
	var out []byte
	for i := 0; i < len(data) && len(out) < 5<<19; i++ {
		if data[i] == 0xFF && i+2 < len(data) {
			out = append(out, bytes.Repeat(data[i+1:i+2], 1+int(data[i+2])<<10)...)
			i += 2
			continue
		}
		out = append(out, data[i])
	}
	return out
}

func FuzzCut(f *testing.F) {
	f.Add([]byte("a\nb\n"), uint32(100), uint8(3))
	f.Add([]byte("a\n\xffx\xff\xffx\xff\xffx\xff\xffy\xff\xffy\xff\nc"), uint32(1<<20), uint8(1))
	f.Add([]byte("\xffx\xff\n\xffx\xff\n\xffx\xff\n\xffx\xff\n\xffx\xff\n\xffx\xff\n\xffx\xff"), uint32(1<<21), uint8(9))
	f.Add([]byte("\xff\n\xff\xff\n\xff\xff\n\xff\xff\n\xff\xff\n\xff"), uint32(0), uint8(200))
	f.Fuzz(func(t *testing.T, data []byte, maxLine uint32, step uint8) {
		input, limit := expand(data), int64(maxLine)
		want := cutAll(t, bytes.NewReader(input), limit, 64<<10)
		checkCut(t, input, limit, want)
		for name, src := range map[string]io.Reader{
			"data with error": iotest.DataErrReader(bytes.NewReader(input)),
			"halves":          iotest.HalfReader(bytes.NewReader(input)),
			"steps":           &stepReader{data: input, step: 1 + int(step)<<6},
		} {
			got := cutAll(t, src, limit, 1+int(step)<<4)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%s: have %v\nwant %v", name, got, want)
			}
		}
	})
}

// stepReader gives at most step bytes a read.
type stepReader struct {
	data []byte
	step int
}

func (r *stepReader) Read(p []byte) (int, error) {
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), r.step)], r.data)
	r.data = r.data[n:]
	return n, nil
}

func gz(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Any bytes as a gzip body: no panic, no more output than the budget allows, whole lines before the fault kept, the same result
// however the pieces are read.
func FuzzSource(f *testing.F) {
	whole := gz(f, []byte("a\nb\nc"))
	f.Add(whole, uint16(100))
	f.Add(whole[:len(whole)-3], uint16(100))
	f.Add(append(bytes.Clone(whole), whole...), uint16(100))
	f.Add(append(bytes.Clone(whole), "tail"...), uint16(2))
	f.Add([]byte("{}"), uint16(0))
	f.Fuzz(func(t *testing.T, body []byte, raw uint16) {
		l := ingest.CutLimits{MaxBody: 1 << 20, MaxRaw: int64(raw), MaxLine: 1 << 20, MaxRatio: 10}
		var first string
		for range 2 {
			var s ingest.Body
			s.Reset(bytes.NewReader(body), int64(len(body)), true, l, "")
			pieces := cutAll(t, &s, l.MaxLine, 100)
			var kept int64
			for _, p := range pieces {
				if p.kind != pieceReject {
					kept += p.size
				}
			}
			if kept > l.MaxRaw {
				t.Fatalf("%d bytes out of %d allowed", kept, l.MaxRaw)
			}
			if len(pieces) == 0 && len(body) == 0 {
				t.Fatal("an empty gzip body is torn")
			}
			if have := fmt.Sprint(pieces); first == "" {
				first = have
			} else if have != first {
				t.Fatalf("have %s\nwant %s", have, first)
			}
		}
	})
}

func TestSource(t *testing.T) {
	text := []byte("aaaa\nbbbb\ncccc")
	whole := gz(t, text)
	noisy := make([]byte, 300_000)
	rand.NewChaCha8([32]byte{}).Read(noisy)
	badSum := bytes.Clone(whole)
	badSum[len(badSum)-6] ^= 1
	for _, c := range []struct {
		name   string
		body   []byte
		gzip   bool
		limits ingest.CutLimits
		cutOff string
		want   string
	}{
		{"identity", text, false, ingest.CutLimits{}, "", "p14"},
		{"gzip", whole, true, ingest.CutLimits{}, "", "p14"},
		{"two members", append(bytes.Clone(whole), gz(t, []byte("\nd\n"))...), true, ingest.CutLimits{}, "", "p17"},
		{"garbage behind", append(bytes.Clone(whole), "garbage"...), true, ingest.CutLimits{}, "", "p14 r7/torn_gzip"},
		{"not gzip", []byte("hello"), true, ingest.CutLimits{}, "", "r5/torn_gzip"},
		{"bad checksum", badSum, true, ingest.CutLimits{}, "", "p10 r4/torn_gzip"},
		{"torn trailer", whole[:len(whole)-4], true, ingest.CutLimits{}, "", "p10 r4/torn_gzip"},
		{"raw limit", whole, true, ingest.CutLimits{MaxRaw: 9}, "", "p5 r4/body_too_large"},
		{"raw limit reached exactly", whole, true, ingest.CutLimits{MaxRaw: 14}, "", "p14"},
		{"raw limit, identity", text, false, ingest.CutLimits{MaxRaw: 9}, "", "p5 r4/body_too_large"},
		{"body cut off", text, false, ingest.CutLimits{}, "too long", "p10 r4/body_too_large"},
		{"gzip cut off", whole[:len(whole)-4], true, ingest.CutLimits{}, "too long", "p10 r4/body_too_large"},
		{"ratio within the first 192 MiB", gz(t, bytes.Repeat([]byte("x\n"), 1<<20)), true, ingest.CutLimits{MaxRatio: 10}, "",
			"p1048576 p1048576"},
		{"ratio", gz(t, bytes.Repeat([]byte("x\n"), 97<<20)), true, ingest.CutLimits{MaxRatio: 10}, "", strings.Repeat("p1048576 ", 192) +
			"r0/ratio_exceeded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := c.limits
			if l.MaxRaw == 0 {
				l.MaxRaw = 1 << 30
			}
			if l.MaxRatio == 0 {
				l.MaxRatio = 1000
			}
			var s ingest.Body
			s.Reset(bytes.NewReader(c.body), int64(len(c.body)), c.gzip, l, c.cutOff)
			var got []string
			for _, p := range cutAll(t, &s, 32<<20, 1000) {
				e := fmt.Sprintf("%c%d", "pgr"[p.kind], p.size)
				if p.reason != "" {
					e += "/" + p.reason
				}
				got = append(got, e)
			}
			if have := strings.Join(got, " "); have != c.want {
				t.Errorf("have %s\nwant %s", have, c.want)
			}
		})
	}
}

// The counter for giant lines agrees with the one for lines in memory.
func TestRowCounter(t *testing.T) {
	for _, line := range []string{
		`{"version":1,"type":"kernel_event_batch","session_id":"s","columns":["a"],"rows":[[1],[2],[3]]}`,
		`{"version":1,"type":"kernel_event_batch","session_id":"s","columns":["a"],"rows":[]}`,
		`{"version":1,"type":"kernel_event_batch","session_id":"s","columns":["a"],"rows":[[1,"x[,]"],[2,"y"]],"z":[1,2]}`,
		`{"version":1,"type":"kernel_event_batch","session_id":"s","rows":[[1],[2]],"columns":["a"]}`,
		`{"version":1,"type":"kernel_event_batch","session_id":"s","columns":["a"], "rows" : [ [1] , [2,[3]] ] }`,
		`{"version":1,"type":"kernel_event_batch","session_id":"s","columns":["rows"]}`,
		`{"version":1,"type":"kernel_event_batch","session_id":"s","columns":["a"],"rows":[[1],[2]`,
		`{"version":1,"type":"kernel_detail","session_id":"s","rows":[[1],[2]]}`,
		`{"type":"nonsense","rows":[[1],[2]]}`,
		`no json`,
	} {
		var r rowCounter
		r.reset([]byte(line))
		for _, b := range []byte(line + "\n") {
			r.feed([]byte{b})
		}
		if have, want := r.events(), uint64(gpuflight.CountEvents([]byte(line))); have != want {
			t.Errorf("%s: have %d, want %d", line, have, want)
		}
	}
}

func TestCutterPassesReadErrors(t *testing.T) {
	boom := errors.New("boom")
	c := new(cutter)
	c.reset(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(boom)), 100, make([]byte, stream.PartBytes))
	if p, err := c.next(); err != nil || p.size != 2 {
		t.Fatalf("have %v, %v", p, err)
	}
	if _, err := c.next(); !errors.Is(err, boom) {
		t.Fatalf("have %v, want boom", err)
	}
}
