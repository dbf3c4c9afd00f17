package telemetry_test

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/warpline/warpline/proto/telemetry"
)

const vectors = "../../testdata/telemetry/"

// cases calls f with every line of a file of vectors.
func cases(t *testing.T, name string, f func(line []byte)) {
	t.Helper()
	file, err := os.Open(vectors + name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	s := bufio.NewScanner(file)
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		f(s.Bytes())
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
}

func canonical(t *testing.T, text []byte) string {
	t.Helper()
	out, refusal := telemetry.AppendCanonical(nil, text)
	if refusal != nil {
		t.Fatalf("%s: %s", refusal.Message, text)
	}
	return string(out)
}

// tally counts what the cases of a file came to.
type tally struct{ accepted, refused, diverged int }

// diverges tells whether r differs from a peer that accepts because of a listed divergence.
func (n *tally) diverges(r *telemetry.Refusal) bool {
	for _, d := range telemetry.Divergences() {
		if d.Code == r.Code && (d.Code == telemetry.IntegerRange || d.Code == telemetry.NonASCIIDigits) {
			n.diverged++
			return true
		}
	}
	return false
}

func (n *tally) print(t *testing.T, name string) {
	t.Logf("%s: %d accepted and %d refused as by the peer, %d listed divergences", name, n.accepted, n.refused, n.diverged)
}

// peerError is what the peer says: nil if it accepts.
type peerError struct{ Message string }

func (n *tally) compare(t *testing.T, name string, r *telemetry.Refusal, e *telemetry.Event, want *peerError, output []byte) {
	t.Helper()
	switch {
	case want != nil && r == nil:
		t.Errorf("%s: accepted, the peer says %q", name, want.Message)
	case want != nil && r.Message != want.Message:
		t.Errorf("%s: %q, the peer says %q", name, r.Message, want.Message)
	case want != nil:
		n.refused++
	case r != nil:
		if !n.diverges(r) {
			t.Errorf("%s: refused (%s: %s), the peer accepts", name, r.Code, r.Message)
		}
	default:
		n.accepted++
		if output == nil {
			return
		}
		if got, want := canonical(t, e.AppendJSON(nil)), canonical(t, output); got != want {
			t.Errorf("%s:\n%s, the peer makes\n%s", name, got, want)
		}
	}
	if r != nil && (r.Code == "" || r.Message == "") {
		t.Errorf("%s: refused without code or message: %+v", name, r)
	}
}

func TestV2Vectors(t *testing.T) {
	var v telemetry.Validator
	var e telemetry.Event
	var validate, strict tally
	cases(t, "v2_cases.jsonl", func(line []byte) {
		var c struct {
			Name     string
			Input    json.RawMessage
			Validate struct{ Verdict, Message string }
			Strict   struct {
				Output json.RawMessage
				Error  *peerError
			} `json:"from_record_strict"`
		}
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		var want *peerError
		if c.Validate.Verdict != "accept" {
			want = &peerError{c.Validate.Message}
		}
		validate.compare(t, c.Name+" (validate)", v.Validate(c.Input, telemetry.Peer029), nil, want, nil)
		r := v.Event(&e, c.Input, &telemetry.Options{Peer: telemetry.Peer029, RefuseLegacy: true})
		strict.compare(t, c.Name, r, &e, c.Strict.Error, c.Strict.Output)
	})
	validate.print(t, "v2 validate")
	strict.print(t, "v2 conversion")
	if total := strict.accepted + strict.refused + strict.diverged; total != 97 || strict.diverged != 3 {
		t.Errorf("%d cases with %d divergences, want 97 with 3", total, strict.diverged)
	}
}

func TestLegacyVectors(t *testing.T) {
	var v telemetry.Validator
	var e telemetry.Event
	var n tally
	cases(t, "legacy_cases.jsonl", func(line []byte) {
		var c struct {
			Name       string
			Input      json.RawMessage
			Permissive bool   `json:"permissive_legacy"`
			Collector  string `json:"default_collector"`
			Interval   int64  `json:"default_sampling_interval_ms"`
			Output     json.RawMessage
			Error      *peerError
		}
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		r := v.Event(&e, c.Input, &telemetry.Options{Peer: telemetry.Peer029, RefuseLegacy: !c.Permissive, DefaultCollector: c.Collector,
			DefaultSamplingIntervalMS: c.Interval})
		n.compare(t, c.Name, r, &e, c.Error, c.Output)
	})
	n.print(t, "legacy")
	if total := n.accepted + n.refused + n.diverged; total != 108 || n.diverged != 2 {
		t.Errorf("%d cases with %d divergences, want 108 with 2", total, n.diverged)
	}
}

// outcome is what became of a document: the document's error, or its records' messages and events.
type outcome struct {
	document string
	messages []string // "" for an accepted record
	codes    []telemetry.Code
	events   [][]byte
}

// inTwo reads a document as it should be read: surveyed first.
func inTwo(t testing.TB, data []byte, o telemetry.Options) outcome {
	l, err := telemetry.Survey(bytes.NewReader(data), o)
	var de *telemetry.DocumentError
	if errors.As(err, &de) {
		return outcome{document: de.Message}
	}
	if err != nil {
		t.Fatal(err)
	}
	out := drain(t, l.Decoder(bytes.NewReader(data), o))
	if out.document != "" {
		t.Errorf("a document that was surveyed is broken: %s\n%q", out.document, data)
	}
	return out
}

// inOne reads a document in one pass.
func inOne(t testing.TB, r io.Reader, o telemetry.Options) outcome {
	return drain(t, telemetry.NewDecoder(r, o))
}

func drain(t testing.TB, d *telemetry.Decoder) (out outcome) {
	for {
		r, err := d.Next()
		if err == io.EOF {
			return out
		}
		var de *telemetry.DocumentError
		if errors.As(err, &de) {
			out.document = de.Message
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.Index != len(out.messages) {
			t.Errorf("index %d, want %d", r.Index, len(out.messages))
		}
		if r.Refusal != nil {
			out.messages = append(out.messages, r.Refusal.Message)
			out.codes = append(out.codes, r.Refusal.Code)
			out.events = append(out.events, nil)
			continue
		}
		out.messages = append(out.messages, "")
		out.codes = append(out.codes, "")
		out.events = append(out.events, r.Event.AppendJSON(nil))
	}
}

func TestLoaderVectors(t *testing.T) {
	var n tally
	cases(t, "loader_cases.jsonl", func(line []byte) {
		// The outputs hold NaN and lone surrogates, which encoding/json does not read: cut them off as text.
		head, output, found := bytes.Cut(line, []byte(`, "output": `))
		if found {
			head = append(head[:len(head):len(head)], '}')
			output = bytes.TrimSuffix(output, []byte("}"))
		}
		var c struct {
			Name       string
			Text       string  `json:"file_text"`
			Key        *string `json:"events_key"`
			Permissive *bool   `json:"permissive_legacy"`
			Error      *peerError
		}
		if err := json.Unmarshal(head, &c); err != nil {
			t.Fatal(err)
		}
		o := telemetry.Options{Peer: telemetry.Peer029, EventsKey: c.Key, RefuseLegacy: c.Permissive != nil && !*c.Permissive}
		for _, got := range []outcome{inTwo(t, []byte(c.Text), o), inOne(t, bytes.NewReader([]byte(c.Text)), o)} {
			if c.Error != nil {
				// The peer names the document's fault or that of the first bad record.
				said := got.document
				for _, m := range got.messages {
					if said == "" {
						said = m
					}
				}
				if said != c.Error.Message {
					t.Errorf("%s: %q, the peer says %q", c.Name, said, c.Error.Message)
				}
				continue
			}
			if bytes.HasPrefix(output, []byte(`"contains NaN`)) { // the vector has only this note; json.dumps prints NaN
				if len(got.events) != 1 || !bytes.Contains(got.events[0], []byte(`"metadata":{"x":NaN}`)) {
					t.Errorf("%s: %q %s", c.Name, got.document, got.events)
				}
				continue
			}
			text := []byte{'['}
			for i, e := range got.events {
				if i > 0 {
					text = append(text, ',')
				}
				text = append(text, e...)
			}
			text = append(text, ']')
			if got.document != "" || canonical(t, text) != canonical(t, output) {
				t.Errorf("%s: %q\n%s, the peer makes\n%s", c.Name, got.document, text, output)
			}
		}
		if c.Error != nil {
			n.refused++
		} else {
			n.accepted++
		}
	})
	n.print(t, "loader")
	if n.accepted+n.refused != 33 {
		t.Errorf("%d cases, want 33", n.accepted+n.refused)
	}
}

func TestPeerRecords(t *testing.T) {
	var v telemetry.Validator
	var e telemetry.Event
	var n tally
	cases(t, "peer_records.jsonl", func(line []byte) {
		var c struct {
			Text       string
			Permissive bool `json:"permissive_legacy"`
			Validate   *string
			Canonical  string
			Error      *string
		}
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		text := []byte(c.Text)
		r := v.Validate(text, telemetry.Peer029)
		switch {
		case r == nil && c.Validate != nil:
			t.Errorf("%s: valid, the peer says %q", text, *c.Validate)
		case r != nil && c.Validate == nil && r.Code != telemetry.IntegerRange:
			t.Errorf("%s: %q, the peer finds it valid", text, r.Message)
		case r != nil && c.Validate != nil && !same(r.Message, *c.Validate):
			t.Errorf("%s: %q, the peer says %q", text, r.Message, *c.Validate)
		}
		r = v.Event(&e, text, &telemetry.Options{Peer: telemetry.Peer029, RefuseLegacy: !c.Permissive})
		switch {
		case c.Error != nil && (r == nil || !same(r.Message, *c.Error)):
			t.Errorf("%s: %v, the peer says %q", text, r, *c.Error)
		case c.Error != nil:
			n.refused++
		case r != nil:
			if !n.diverges(r) {
				t.Errorf("%s: %q, the peer accepts it", text, r.Message)
			}
		default:
			n.accepted++
			if got := canonical(t, e.AppendJSON(nil)); got != c.Canonical {
				t.Errorf("%s:\n%s, the peer makes\n%s", text, got, c.Canonical)
			}
		}
	})
	n.print(t, "peer records")
	if n.accepted < 50 || n.refused < 100 || n.diverged == 0 {
		t.Errorf("too few of some kind: %+v", n)
	}
}

// same compares with a message that encoding/json read: it has replaced lone surrogates, of three bytes here, by one character.
func same(message, want string) bool {
	return string(bytes.ToValidUTF8([]byte(message), []byte("\ufffd"))) == want
}

func TestPeerDocuments(t *testing.T) {
	broken, records := 0, 0
	cases(t, "peer_documents.jsonl", func(line []byte) {
		var c struct {
			Text, Hex string
			Key       *string `json:"events_key"`
			Error     string
			Encoding  bool
			Messages  []*string
		}
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		data := []byte(c.Text)
		if c.Hex != "" {
			data, _ = hex.DecodeString(c.Hex)
		}
		o := telemetry.Options{Peer: telemetry.Peer029, EventsKey: c.Key}
		two, one := inTwo(t, data, o), inOne(t, bytes.NewReader(data), o)
		if c.Error != "" {
			broken++
			found := two.document == c.Error
			if c.Encoding { // a record whose bytes are bad costs only itself
				for i, m := range two.messages {
					found = found || m == c.Error && two.codes[i] == telemetry.BadUTF8
				}
			}
			if !found {
				t.Errorf("%q: %q %q, the peer says %q", data, two.document, two.messages, c.Error)
			}
			if !c.Encoding && one.document != c.Error {
				t.Errorf("%q: in one pass %q, the peer says %q", data, one.document, c.Error)
			}
			return
		}
		for _, got := range []outcome{two, one} {
			if got.document != "" || len(got.messages) != len(c.Messages) {
				t.Errorf("%q: %q, %d records, the peer finds %d", data, got.document, len(got.messages), len(c.Messages))
				return
			}
			for i, m := range c.Messages {
				switch {
				case m == nil && got.messages[i] != "" && got.codes[i] != telemetry.IntegerRange:
					t.Errorf("%q: record %d: %q, the peer accepts it", data, i, got.messages[i])
				case m != nil && !same(got.messages[i], *m):
					t.Errorf("%q: record %d: %q, the peer says %q", data, i, got.messages[i], *m)
				}
			}
		}
		records += len(c.Messages)
	})
	t.Logf("peer documents: %d broken as by the peer, %d records of the others as by the peer", broken, records)
	if broken < 50 || records < 20 {
		t.Error("too few of some kind")
	}
}
