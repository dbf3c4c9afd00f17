package chrometrace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// read is every event and member of a trace, a line each, and the error that ended it.
func read(r io.Reader) string {
	in, out := NewReader(r), &strings.Builder{}
	in.Member = func(key string, value []byte) { fmt.Fprintf(out, "%s=%s\n", key, value) }
	for {
		e, err := in.Next()
		var broken *EventError
		switch {
		case err == io.EOF:
			return out.String()
		case errors.As(err, &broken):
			fmt.Fprintf(out, "broken: %v\n", err)
		case err != nil:
			fmt.Fprintf(out, "error: %v\n", err)
			return out.String()
		default:
			fmt.Fprintf(out, "%d %s %s ts %s pid %s args %s\n", e.Offset, e.Phase, e.Name, e.TS, e.PID, e.Args)
		}
	}
}

const one = `{"ph":"X","name":"a \"b\" \\","ts":1712345678901234.567,"pid":-1,"args":{"a":[1,{"b":"]}"}]}}`
const oneRead = `"X" "a \"b\" \\" ts 1712345678901234.567 pid -1 args {"a":[1,{"b":"]}"}]}` + "\n"

// Both forms, members before and behind the events, and what is broken, read whole and byte by byte.
func TestForms(t *testing.T) {
	for _, c := range []struct{ trace, want string }{
		{"[]", ""},
		{" [ ] ", ""},
		{"{}", ""},
		{"[" + one + "]", "1 " + oneRead},
		{"[" + one + ",\n" + one + "]", "1 " + oneRead + fmt.Sprint(len(one)+3) + " " + oneRead},
		{"[" + one + ",", "1 " + oneRead}, // a writer that just stopped
		{"[" + one, "1 " + oneRead},
		{`{"a":1,"traceEvents":[` + one + `],"b":{"c":[]},"d":"x\"y"}`, "a=1\n22 " + oneRead + "b={\"c\":[]}\nd=\"x\\\"y\"\n"},
		{`{"traceEvents":[` + one, "16 " + oneRead + "error: byte 109: the trace ends here, before it is whole\n"},
		{`{"traceEvents":[]`, "error: byte 17: the trace ends here, before it is whole\n"},
		{`{"traceEvents":null}`, "traceEvents=null\n"},
		{`[{"ph":"X"`, "error: byte 10: the trace ends here, before it is whole\n"},
		{`[{"ph":}, ` + one + `]`, "broken: byte 1: no JSON, or nested deeper than 128\n10 " + oneRead},
		{`[1,` + one + `]`, "broken: byte 1: no object, and an event is one\n3 " + oneRead},
		{`[{"ph":"X",}]`, "1 \"X\"  ts  pid  args \n"}, // mended
		{`[{"ph":"X"}{"ph":"X"}]`, "1 \"X\"  ts  pid  args \n11 \"X\"  ts  pid  args \n"},
		{`[{"ph":"X"}} ,{"ph":"X"}]`, "1 \"X\"  ts  pid  args \nbroken: byte 11: no comma here\n14 \"X\"  ts  pid  args \n"},
		{`[{"ph":"X"} x]`, "1 \"X\"  ts  pid  args \nerror: byte 12: no comma here\n"},
		{`[] x`, "error: byte 3: more text behind the trace\n"},
		{``, "error: byte 0: the trace ends here, before it is whole\n"},
		{`{"a" 1}`, "error: byte 5: no colon here\n"},
		{`[,`, "error: byte 1: no value here\n"},
		{`[}`, "error: byte 1: no value here\n"},
		{`{"a":}`, "error: byte 5: no value here\n"},
		{`{1:2}`, "error: byte 1: no name of a member here\n"},
		{`[{"ts":NaN,"ph":"i"}]`, "1 \"i\"  ts NaN pid  args \n"},
		{`[{"args":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `},` + one + `]`,
			"broken: byte 1: no JSON, or nested deeper than 128\n411 " + oneRead},
	} {
		if got := read(strings.NewReader(c.trace)); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.trace, got, c.want)
		}
		if got := read(iotest.OneByteReader(strings.NewReader(c.trace))); got != c.want {
			t.Errorf("%s, byte by byte\n got %s\nwant %s", c.trace, got, c.want)
		}
	}
}

// An event and a member of any length cost no memory, and their neighbours stay.
func TestHugeValuesArePassedOver(t *testing.T) {
	huge := func(n int64) io.Reader { return io.LimitReader(zeros('x'), n) }
	trace := io.MultiReader(strings.NewReader(`{"metadata":"`), huge(64<<20), strings.NewReader(`","traceEvents":[{"name":"`), huge(64<<20),
		strings.NewReader(`"},`+one+`]}`))
	in := NewReader(trace)
	in.Member = func(key string, value []byte) {
		if key != "metadata" || value != nil {
			t.Errorf("member %s has %d bytes", key, len(value))
		}
	}
	var broken *EventError
	if _, err := in.Next(); !errors.As(err, &broken) {
		t.Fatalf("%v", err)
	}
	if e, err := in.Next(); err != nil || string(e.Phase) != `"X"` {
		t.Fatalf("%v, %v", e, err)
	}
	if _, err := in.Next(); err != io.EOF || cap(in.b) > 4*MaxEvent {
		t.Errorf("%v, a buffer of %d bytes", err, cap(in.b))
	}
}

type zeros byte

func (z zeros) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(z)
	}
	return len(b), nil
}

func TestReadErrorsAreTold(t *testing.T) {
	in := NewReader(io.MultiReader(strings.NewReader("["+one), iotest.ErrReader(errors.New("disk"))))
	if _, err := in.Next(); err != nil {
		t.Fatal(err)
	}
	var broken *SyntaxError
	if _, err := in.Next(); !errors.As(err, &broken) || broken.Torn || !strings.Contains(err.Error(), "disk") {
		t.Errorf("%v", err)
	}
}

// What is really written and no JSON is read: control characters and quotes in names, backslashes of paths, NaN.
func TestMended(t *testing.T) {
	for text, want := range map[string]string{
		"{\"ph\":\"X\",\"name\":\"a\nb\"}":             "a\nb",
		"{\"ph\":\"X\",\"name\":\"a\x00b\"}":           "a\x00b",
		`{"ph":"X","name":"op "quoted" name"}`:         `op "quoted" name`,
		`{"ph":"X","name":"C:\\dir\\x"}`:               `C:\dir\x`,
		`{"ph":"X","name":"C:\new dir\qx"}`:            "C:\new dir\\qx",
		`{"ph":"X","name":"a","args":{"s":"x"y"z"}}`:   "a",
		`{"ph":"X","name":"a","dur":NaN}`:              "a",
		`{"ph":"X","name":"a \"good\" one","args":{}}`: `a "good" one`,
	} {
		r := NewReader(strings.NewReader("[" + text + `,{"ph":"i","name":"next"}]`))
		e, err := r.Next()
		if err != nil || Text(e.Name) != want {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if e, err := r.Next(); err != nil || Text(e.Name) != "next" {
			t.Errorf("behind %s: %v", text, err)
		}
	}
}

// FuzzReader compares with encoding/json: of what that takes, every element is an event or broken, wherever the reads are cut.
func FuzzReader(f *testing.F) {
	f.Add([]byte("[" + one + "]"))
	f.Add([]byte(`{"a":{"b":[]},"traceEvents":[` + one + `,{"ph":"M"},3],"c":1}`))
	f.Add([]byte(`[{"ts":1e5},`))
	f.Fuzz(func(t *testing.T, b []byte) {
		whole, cut := read(bytes.NewReader(b)), read(iotest.OneByteReader(bytes.NewReader(b)))
		if whole != cut {
			t.Fatalf("whole\n%s\nbyte by byte\n%s", whole, cut)
		}
		var list []json.RawMessage
		if json.Unmarshal(b, &list) == nil && list != nil && bytes.HasPrefix(bytes.TrimSpace(b), []byte("[")) {
			if n := strings.Count(whole, "\n"); n < len(list) || strings.Contains(whole, "error:") {
				t.Fatalf("%d elements are read as\n%s", len(list), whole)
			}
		}
	})
}

func BenchmarkReader(b *testing.B) {
	line := `{"name":"compute","ph":"X","ts":29344.000000,"dur":928.000000,"pid":128,"tid":0,"cname":"thread_state_sleeping",` +
		`"args":{"sm":128,"block":0,"warp":0}}`
	trace := []byte("[" + strings.Repeat(line+",\n", 9999) + line + "]")
	b.SetBytes(int64(len(trace)))
	b.ReportAllocs()
	for b.Loop() {
		in := NewReader(bytes.NewReader(trace))
		n := 0
		for {
			if _, err := in.Next(); err == io.EOF {
				break
			} else if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 10000 {
			b.Fatal(n)
		}
	}
	b.ReportMetric(10000*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
