package gpuflight

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

// FuzzFindLine compares with encoding/json: of a wrapper that it accepts the same line is read, however the reads fall.
func FuzzFindLine(f *testing.F) {
	f.Add([]byte(`{"agentSendingTime":1,"data":"{\"type\":\"x\"}\n","type":"x","hostname":"h","ipAddr":"1"}`))
	f.Add([]byte(`{"data":{"a":[1,{"b":"}"}]},"type":"x"}`))
	f.Add([]byte(`{"type":"x","a":-1.5e+7,"b":null,"c":[[]]}`))
	f.Add([]byte("{\"data\":{},\"type\":\"x\"}\x00x"))
	f.Add([]byte(`{"data":"\ud83d\ude00\ud83d\u0041\"\\"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		found, err := findLine(bytes.NewReader(body), make([]byte, 512))
		slow, slowErr := findLine(iotest.OneByteReader(bytes.NewReader(body)), make([]byte, 7))
		if found != slow || (err == nil) != (slowErr == nil) {
			t.Fatalf("%+v, %v; byte by byte %+v, %v", found, err, slow, slowErr)
		}
		var want struct {
			Data json.RawMessage `json:"data"`
		}
		sound := json.Unmarshal(body, &want) == nil && len(bytes.TrimSpace(body)) > 0 && bytes.TrimSpace(body)[0] == '{'
		var bad *wrapperError
		if err != nil {
			if !errors.As(err, &bad) {
				t.Fatal(err)
			}
			if sound && bad != errNoLine {
				t.Fatalf("%v for a sound body", err)
			}
			return
		}
		if found.start < 0 || found.end > int64(len(body)) || found.start > found.end {
			t.Fatalf("%+v of %d bytes", found, len(body))
		}
		read := func(src io.Reader, step int) string {
			var l lineReader
			l.reset(src, found.end-found.start, found.quoted)
			var out []byte
			p := make([]byte, step)
			for {
				n, err := l.Read(p)
				out = append(out, p[:n]...)
				if err == io.EOF {
					return string(out)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		part := body[found.start:found.end]
		all := read(bytes.NewReader(part), 4096)
		if one := read(iotest.OneByteReader(bytes.NewReader(part)), 1); one != all {
			t.Fatalf("%q, byte by byte %q", all, one)
		}
		if found.quoted && json.Valid(body) && utf8.Valid(part) { // bytes that are no UTF-8 pass as they are
			var text string
			if err := json.Unmarshal(body[found.start-1:found.end+1], &text); err != nil {
				t.Fatal(err)
			}
			if all != text {
				t.Fatalf("%q, want %q", all, text)
			}
		}
	})
}
