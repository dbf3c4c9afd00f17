package chrometrace

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// readings counts the events beside one, which is returned, and those that are broken.
func readings(r io.Reader) (whole, lost int, other []Event, mended uint64, err error) {
	in := NewReader(r)
	for {
		e, err := in.Next()
		var broken *EventError
		switch {
		case errors.As(err, &broken):
			lost++
		case err != nil:
			return whole, lost, other, in.Mended, err
		case string(e.PID) == "-1":
			whole++
		default:
			other = append(other, Event{Offset: e.Offset, Name: []byte(string(e.Name)), Args: []byte(string(e.Args))})
		}
	}
}

func around(event string) []string {
	return []string{
		"[" + one + "," + event + ",\n" + one + "]", "[" + one + "," + event + "," + one,
		`{"traceEvents":[` + one + "," + event + "," + one + `],"traceName":"t"}`,
		`{"traceEvents":[` + one + "," + one + "," + event + `],"traceName":"t"}`, "[" + one + "," + one + "," + event + "]",
	}
}

// What writers got wrong is read as what they meant, wherever quotes make it seem to end; the events beside it are read as they are.
func TestRepaired(t *testing.T) {
	for _, c := range []struct{ event, name, args string }{
		{"{\"ph\":\"X\",\"name\":\"a\nb\tc\x01\"}", `"a\u000ab\u0009c\u0001"`, ""},                           // pytorch #130622
		{`{"ph":"X","name":"op","args":{"in":["", "a "b" c", "d"]}}`, `"op"`, `{"in":["","a \"b\" c","d"]}`}, // pytorch #146900
		{`{"ph":"X","name":"odd " quote","args":{"k":"{"}}`, `"odd \" quote"`, `{"k":"{"}`},
		{`{"ph":"X","name":"x("a{b", 1)","args":{}}`, `"x(\"a{b\", 1)"`, `{}`},
		{`{"ph":"X","name":""quoted"","args":{"n":""sum""}}`, `"\"quoted\""`, `{"n":"\"sum\""}`},
		{`{"ph":"X","name":"C:\dir\u12","args":{"a":"\u00e9\n"}}`, `"C:\\dir\\u12"`, `{"a":"\u00e9\n"}`},
		{`{"ph":"X","name":"n","args":{"a":nan,"b":-inf,"c":NaN,"d":1.#IND}}`, `"n"`, `{"a":null,"b":null,"c":NaN,"d":null}`},
		{`{"ph":"X","name":"n","args":{"a":[1,2,],},}`, `"n"`, `{"a":[1,2]}`},
	} {
		for _, trace := range around(c.event) {
			for _, r := range []io.Reader{strings.NewReader(trace), iotest.OneByteReader(strings.NewReader(trace))} {
				whole, lost, other, mended, err := readings(r)
				if err != io.EOF || whole != 2 || lost != 0 || len(other) != 1 || mended != 1 {
					t.Fatalf("%s: %d whole, %d lost, %d mended, %v", trace, whole, lost, mended, err)
				}
				e := other[0]
				if string(e.Name) != c.name || string(e.Args) != c.args || e.Offset != int64(strings.Index(trace, c.event)) {
					t.Errorf("%s: name %s, args %s at byte %d", c.event, e.Name, e.Args, e.Offset)
				}
			}
		}
		var e Event
		if _, ok := Split(&e, []byte(c.event), nil); !ok || string(e.Name) != c.name || string(e.Args) != c.args {
			t.Errorf("%s alone: name %s, args %s", c.event, e.Name, e.Args)
		}
	}
}

// An event that cannot be repaired costs itself.
func TestBrokenEventsCostThemselves(t *testing.T) {
	for _, event := range []string{
		`{"ph":"X","name":"never closed}`, `{"ph":"X","args":{"a":1}`, `{"ph":"X","args":{"a":[1,2}}`, `{"ph" "X"}`, `{"ph":"X","name":"C:\"}`,
	} {
		for _, trace := range around(event)[:3] {
			for _, r := range []io.Reader{strings.NewReader(trace), iotest.OneByteReader(strings.NewReader(trace))} {
				if whole, lost, other, _, err := readings(r); err != io.EOF || whole != 2 || lost != 1 || len(other) != 0 {
					t.Errorf("%s: %d whole, %d lost, %d others, %v", trace, whole, lost, len(other), err)
				}
			}
		}
	}
}

// What a broken event was is told as it stands, up to a bound.
func TestBrokenEventsAreKept(t *testing.T) {
	long := `{"ph":"X","name":"` + strings.Repeat("x", 2*MaxEvent) + `"}`
	for _, event := range []string{`{"ph":"X","name":"never closed}`, `{"ph":"X","args":{"a":1}`, `{"ph" "X"}`, `7`, `"text"`, long,
		`{"ph":"X","args":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`} {
		for _, r := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader} {
			in := NewReader(r(strings.NewReader("[" + one + "," + event + "," + one + "]")))
			var kept string
			for {
				_, err := in.Next()
				var broken *EventError
				if errors.As(err, &broken) {
					kept = string(broken.Text)
				} else if err != nil {
					break
				}
			}
			if kept = strings.TrimRight(kept, ", "); kept != event[:min(len(event), MaxKept)] {
				t.Errorf("%.100s: kept %.100s, %d bytes", event, kept, len(kept))
			}
		}
	}
}

// Hostile text is read in bounded memory, and in a time that grows with its length alone.
func TestBrokenEventsOfAnyNumber(t *testing.T) {
	for _, event := range []string{
		`{"ph":"X","name":"open},`, `{"ph":"X","name":"a"b"},`, "{\"ph\":\"X\n\"},", `{"ph":"X","a":{"b":[`, `{"ph":"X","name":"}`,
	} {
		in := NewReader(io.MultiReader(strings.NewReader("["), strings.NewReader(strings.Repeat(event, 4<<20/len(event)))))
		for {
			_, err := in.Next()
			var broken *EventError
			if err != nil && !errors.As(err, &broken) {
				break
			}
		}
		if cap(in.b) > 4*MaxEvent {
			t.Errorf("%s: a buffer of %d bytes", event, cap(in.b))
		}
	}
}
