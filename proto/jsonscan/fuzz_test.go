package jsonscan_test

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
	"unicode/utf8"

	"github.com/warpline/warpline/proto/jsonscan"
)

// FuzzValue: under the rules of encoding/json, Value takes what encoding/json takes. Under Python's it takes that too, and under a limit
// of depth what does not nest deeper. What it takes ends where it says.
func FuzzValue(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,-0.5e+3,"\ud800\n",{}],"b":NaN}`, `[01]`, `-`, `1.e`, `"\u12"`, `{"a":1,}`, `[[],{}]x`, `-Infinity`, "\"\x01\xff\"", `0`,
		`[1,]`, `{`, "[ true , false\t,\r\nnull ] ", `[[[[[[]]]]]]`, `123456e5`, `[1ex,2]`,
	} {
		f.Add([]byte(s), uint8(3))
		f.Add([]byte("["+s+", "+s+"]"), uint8(70))
	}
	f.Fuzz(func(t *testing.T, b []byte, depth uint8) {
		if len(b) == 0 || jsonscan.Space(b, 0) > 0 {
			return
		}
		end, kind, escaped, ok := jsonscan.Value(b, 0, &strict)
		if end < 0 || end > len(b) {
			t.Fatalf("%q: end %d", b, end)
		}
		if whole := ok && jsonscan.Space(b, end) == len(b); whole != json.Valid(b) {
			t.Fatalf("%q: ok %v, end %d, encoding/json says %v", b, ok, end, json.Valid(b))
		}
		pyEnd, pyKind, _, pyOK := jsonscan.Value(b, 0, &jsonscan.Rules{Depth: strict.Depth, Python: true})
		if ok && (!pyOK || pyEnd != end || pyKind != kind) {
			t.Fatalf("%q: kind %d ends at %d, for Python %v, kind %d at %d", b, kind, end, pyOK, pyKind, pyEnd)
		}
		if !ok {
			return
		}
		if !json.Valid(b[:end]) || b[end-1] <= ' ' {
			t.Fatalf("%q: passed %q", b, b[:end])
		}
		if backslash := bytes.IndexByte(b[:end], '\\') >= 0; escaped != (kind == jsonscan.KindString && backslash) {
			t.Fatalf("%q: kind %d, escaped %v", b, kind, escaped)
		}
		nests, kindOf := examine(t, b[:end])
		if kind != kindOf {
			t.Fatalf("%q: kind %d, want %d", b, kind, kindOf)
		}
		_, _, _, fits := jsonscan.Value(b, 0, &jsonscan.Rules{Depth: int(depth)})
		if fits != (nests <= int(depth)) {
			t.Fatalf("%q nests %d deep, of %d levels: %v", b, nests, depth, fits)
		}
	})
}

// examine says by encoding/json how deep a value nests and what it is.
func examine(t *testing.T, value []byte) (nests int, kind jsonscan.Kind) {
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	for depth := 0; ; {
		tok, err := d.Token()
		if err == io.EOF {
			return nests, kind
		}
		if err != nil {
			t.Fatal(err)
		}
		k := jsonscan.KindNull
		switch v := tok.(type) {
		case json.Delim:
			k = jsonscan.KindArray
			switch v {
			case '{':
				k = jsonscan.KindObject
				depth++
			case '[':
				depth++
			default:
				depth--
			}
			nests = max(nests, depth)
		case bool:
			k = jsonscan.KindBool
		case string:
			k = jsonscan.KindString
		case json.Number:
			k = jsonscan.KindInt
			if bytes.ContainsAny([]byte(v), ".eE") {
				k = jsonscan.KindFloat
			}
		}
		if kind == jsonscan.KindNone {
			kind = k
		}
	}
}

// FuzzEscape: a string that is read with Escape and repaired is what encoding/json makes of it, and a lone half of a pair comes as it is.
func FuzzEscape(f *testing.F) {
	for _, s := range []string{
		`a\"\\\/\b\f\n\r\tz`, `\u0000\u00e9\u20ac`, `\ud83d\ude00`, `\ud83d`, `\ude00\ud83d`, `\ud83d\ud83d\ude00`, `\ud83d\n`,
		`\uDBFF\uDFFFx`, "\xff\\u00ff", `\u12`, `\`, `"`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		text := append(append([]byte{'"'}, body...), '"')
		end, escaped, ok := jsonscan.String(text, 0)
		if !ok || end != len(text) {
			if json.Valid(text) {
				t.Fatalf("%q: refused at %d", text, end)
			}
			return
		}
		var want string
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		var got []byte
		for i := 0; i < len(body); {
			if body[i] != '\\' {
				r, n := utf8.DecodeRune(body[i:])
				got, i = utf8.AppendRune(got, r), i+n
				continue
			}
			if !escaped {
				t.Fatalf("%q: it was said to have no escapes", text)
			}
			r, next := jsonscan.Escape(body, i)
			if next <= i || next > len(body) || r < 0 || r > utf8.MaxRune {
				t.Fatalf("%q: %x at %d, next at %d", text, r, i, next)
			}
			got, i = utf8.AppendRune(got, r), next
		}
		if string(got) != want {
			t.Fatalf("%q: %q, encoding/json reads %q", text, got, want)
		}
	})
}
