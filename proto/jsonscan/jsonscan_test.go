package jsonscan_test

import (
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/jsonscan"
)

var (
	strict = jsonscan.Rules{Depth: 10000} // encoding/json's own limit
	python = jsonscan.Rules{Depth: 10000, Digits: 5, Python: true}
)

func TestValue(t *testing.T) {
	const none = jsonscan.KindNone
	for _, c := range []struct {
		text   string
		rules  jsonscan.Rules
		end    int // where it breaks if kind is none
		kind   jsonscan.Kind
		escape bool
	}{
		{`null,`, strict, 4, jsonscan.KindNull, false},
		{`true`, strict, 4, jsonscan.KindBool, false},
		{`falsetto`, strict, 5, jsonscan.KindBool, false},
		{`"a"b`, strict, 3, jsonscan.KindString, false},
		{`"a\"b"`, strict, 6, jsonscan.KindString, true},
		{`-0`, strict, 2, jsonscan.KindInt, false},
		{`01`, strict, 1, jsonscan.KindInt, false},
		{`-1.5E+07]`, strict, 8, jsonscan.KindFloat, false},
		{`{ "a" : [ ] , "b":{}}x`, strict, 21, jsonscan.KindObject, false},
		{`[[],{"a":"]"},-1e5]`, strict, 19, jsonscan.KindArray, false},

		// What is refused, and where.
		{``, strict, 0, none, false},
		{`nul`, strict, 0, none, false},
		{`x`, strict, 0, none, false},
		{`-`, strict, 1, none, false},
		{`1.`, strict, 1, none, false},
		{`1e+x`, strict, 3, none, false},
		{`NaN`, strict, 0, none, false},
		{`-Infinity`, strict, 1, none, false},
		{`"a`, strict, 2, none, false},
		{`"a\`, strict, 2, none, false},
		{`"a\x"`, strict, 2, none, false},
		{`"\u12g4"`, strict, 1, none, false},
		{"\"a\tb\"", strict, 2, none, false},
		{`[1,]`, strict, 3, none, false},
		{`[1 2]`, strict, 3, none, false},
		{`[1}`, strict, 2, none, false},
		{`{"a":1]`, strict, 6, none, false},
		{`{"a" 1}`, strict, 5, none, false},
		{`{a:1}`, strict, 1, none, false},
		{`{"a":1,}`, strict, 7, none, false},
		{`[1.]`, strict, 2, none, false},
		{`[`, strict, 1, none, false},

		// Python takes more, and stops where a number cannot go on.
		{`NaN`, python, 3, jsonscan.KindFloat, false},
		{`[-Infinity,Infinity]`, python, 20, jsonscan.KindArray, false},
		{`-Infinit`, python, 0, none, false},
		{`1.x`, python, 1, jsonscan.KindInt, false},
		{`-1.5e+x`, python, 4, jsonscan.KindFloat, false},
		{`1.5.`, python, 3, jsonscan.KindFloat, false},
		{`e`, python, 0, none, false},
		{`-12345`, python, 6, jsonscan.KindInt, false},
		{`123456.0`, python, 8, jsonscan.KindFloat, false},
	} {
		end, kind, escaped, ok := jsonscan.Value([]byte(c.text), 0, &c.rules)
		if ok != (c.kind != none) || end != c.end || ok && (kind != c.kind || escaped != c.escape) {
			t.Errorf("%s: end %d, kind %d, escaped %v, ok %v", c.text, end, kind, escaped, ok)
		}
	}
	for _, text := range []string{`123456`, `-123456`, `[123456]`} {
		if _, _, _, ok := jsonscan.Value([]byte(text), 0, &python); ok {
			t.Errorf("%s has more than %d digits", text, python.Digits)
		}
	}
}

// The levels are kept in words of 64 bits: nothing may change where one ends.
func TestDepth(t *testing.T) {
	for _, depth := range []int{1, 2, 63, 64, 65, 127, 128, 129, 512, 899} {
		rules := jsonscan.Rules{Depth: depth}
		for _, pair := range []string{"[]", "{}"} {
			open, mixed := pair[:1], `[{"a":`
			if open == "{" {
				open, mixed = `{"a":`, `{"a":[`
			}
			flat := strings.Repeat(open, depth-1) + pair + strings.Repeat(pair[1:], depth-1)
			both := strings.Repeat(mixed, depth/2) + "1" + strings.Repeat(map[string]string{"[]": "}]", "{}": "]}"}[pair], depth/2)
			for _, text := range []string{flat, both} {
				if end, _, _, ok := jsonscan.Value([]byte(text), 0, &rules); !ok || end != len(text) {
					t.Errorf("depth %d: %v, %d of %d bytes of %.20s", depth, ok, end, len(text), text)
				}
				broken := []byte(text)
				broken[len(broken)-1] ^= '}' ^ ']'
				if end, _, _, ok := jsonscan.Value(broken, 0, &rules); ok || end != len(text)-1 {
					t.Errorf("depth %d: the last bracket is another, but %v at %d of %d bytes of %.20s", depth, ok, end, len(text), text)
				}
			}
			deeper := open + flat + pair[1:]
			if end, _, _, ok := jsonscan.Value([]byte(deeper), 0, &rules); ok || end != len(open)*depth {
				t.Errorf("depth %d: one more is taken: %v, %d", depth, ok, end)
			}
		}
	}
}

const nested = `{"backend":"cuda","usage":81.25,"list":[1,-2,{"a":[true,false,null]},"x\ny"], "memory_capabilities": {"a": 1, "b": []}}`

func TestNoAllocation(t *testing.T) {
	text := []byte(nested)
	if n := testing.AllocsPerRun(100, func() {
		if end, _, _, ok := jsonscan.Value(text, 0, &python); !ok || end != len(text) {
			t.Fatal(end, ok)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkValue(b *testing.B) {
	text := []byte(nested)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, _, _, ok := jsonscan.Value(text, 0, &strict); !ok {
			b.Fatal("refused")
		}
	}
}
