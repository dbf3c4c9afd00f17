package telemetry

import (
	"bytes"
	"testing"

	"github.com/warpline/warpline/proto/jsonscan"
)

// FuzzScan: the fast scanner takes exactly what the careful one takes and would let a record hold, wherever the text is cut.
func FuzzScan(f *testing.F) {
	for _, s := range []string{`{"a":[1,-0.5e+3,"\ud800\n",{}],"b":NaN}`, `[01]`, `-`, `1.e`, `"\u12"`, `{"a":1,}`, `[[],{}]x`, `-Infinity`,
		"\"\x01\"", `0`, `[1,]`, `{`} {
		f.Add([]byte(s), uint8(3))
		f.Add([]byte("["+s+", "+s+"]"), uint8(255))
	}
	f.Fuzz(func(t *testing.T, b []byte, cut uint8) {
		if len(b) == 0 || jsonscan.Space(b, 0) > 0 {
			return
		}
		var s skipper
		n, done, wrong := s.run(b, 0, true)
		if done == (wrong != nil) {
			t.Fatalf("%q: neither passed nor wrong", b)
		}
		tok, ok := scanValue(b, 0)
		if want := done && s.deepest < MaxDepth && s.longest == 0; ok != want || ok && int(tok.end) != n {
			t.Fatalf("%q: fast %v %d, careful %v %d (%v)", b, ok, tok.end, done, n, wrong)
		}
		// In pieces, and with what the fast one passes.
		p := skipper{ahead: cut >= 128}
		p.reset()
		at, size := 0, int(cut)%7+1
		var have []byte
		for end := 0; ; {
			end = min(len(b), end+size)
			have = append([]byte(nil), b[at:end]...)
			used, d, w := p.run(have, int64(at), end == len(b))
			if d || w != nil {
				if d != done || d && at+used != n || w != nil && *w != *wrong {
					t.Fatalf("%q: whole %v %d %v, in pieces %v %d %v", b, done, n, wrong, d, at+used, w)
				}
				break
			}
			at += used
			if end == len(b) {
				t.Fatalf("%q: not done at the end", b)
			}
		}
		if p.longest != s.longest || p.deepest != s.deepest && !p.ahead {
			t.Fatalf("%q: in pieces %+v, whole %+v", b, p, s)
		}
	})
}

// FuzzPlace: places and encodings counted in pieces are those of the whole.
func FuzzPlace(f *testing.F) {
	f.Add([]byte("a\r\nb\r\r\n\xc3\xa9\xf0\x9f\x98\x80\n"), uint8(1))
	f.Add([]byte("\xe2\x82\""), uint8(2))
	f.Add([]byte("\xf0\x9f"), uint8(1))
	f.Fuzz(func(t *testing.T, b []byte, cut uint8) {
		size := int(cut)%9 + 1
		var whole, pieces place
		var all, parts encoding
		whole.pass(b)
		all.pass(b, true)
		for rest := b; ; {
			n := min(size, len(rest))
			pieces.pass(rest[:n])
			parts.pass(rest[:n], n == len(rest))
			if rest = rest[n:]; len(rest) == 0 {
				break
			}
		}
		whole.cr, pieces.cr = false, false
		if whole != pieces {
			t.Fatalf("%q: %+v, in pieces %+v", b, whole, pieces)
		}
		if all.bad != parts.bad {
			t.Fatalf("%q: %q, in pieces %q", b, all.bad, parts.bad)
		}
		if bad := firstBad(b); (all.bad == "") != (bad == len(b)) || all.bad != "" && all.where != int64(bad) {
			t.Fatalf("%q: first bad %d, %q at %d", b, bad, all.bad, all.where)
		}
		if all.bad == "" {
			text := bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
			if n := int64(len([]rune(string(text)))); n != whole.chars || int64(bytes.Count(text, []byte("\n"))) != whole.lines {
				t.Fatalf("%q: %d characters, counted %+v", b, n, whole)
			}
		}
	})
}
