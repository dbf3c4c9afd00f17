package ingest_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/warpline/warpline/broker"
)

// Whoever posts a record a line as JSON is told the option that reads it; nobody else is.
func TestNDJSONPostedAsJSONNamesTheOption(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	one, two := jsonOf(t, v2(0, nil)), jsonOf(t, v2(1, nil))
	lines := ndjsonOf(t, v2(0, nil), v2(1, nil))
	for name, c := range map[string]struct {
		body  []byte
		names bool
	}{
		"two lines":          {lines, true},
		"no newline at end":  {bytes.TrimSpace(lines), true},
		"windows line ends":  {bytes.ReplaceAll(lines, []byte("\n"), []byte("\r\n")), true},
		"blank lines":        {bytes.ReplaceAll(lines, []byte("\n"), []byte("\n \n\n")), true},
		"a byte order mark":  {append([]byte("\xef\xbb\xbf"), lines...), false}, // no JSON either way
		"a torn first line":  {append(append(one[:len(one)-3:len(one)-3], '\n'), two...), true},
		"a torn second line": {append(append(one[:len(one):len(one)], '\n'), two[:9]...), true},
		"gzip":               {gz(t, lines), true},
		"a torn array":       {append([]byte("[\n"), one...), false},
		"two on one line":    {append(one[:len(one):len(one)], two...), false},
		"a torn object":      {[]byte("{\n\"events\": ["), false},
		"words":              {[]byte("not JSON\nat all\n"), false},
	} {
		got := r.send("", c.body)
		if got.status != 400 || strings.Contains(got.Detail, "?format=ndjson") != c.names {
			t.Errorf("%s: %d %s", name, got.status, got.raw)
		}
	}
	if got := r.send("format=ndjson", lines); got.status != 200 || got.Accepted != 2 {
		t.Errorf("with the option: %d %s", got.status, got.raw)
	}
	if got := r.send("", []byte("{\n\"events\": [\n"+string(one)+",\n"+string(two)+"\n]}")); got.status != 200 {
		t.Errorf("a document with a record a line: %d %s", got.status, got.raw)
	}
}

// No answer spells < and > as escapes.
func TestAnswersAreNotEscapedForHTML(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	bad := jsonOf(t, v2(0, func(m map[string]any) { m["unheard_<of>&c"], m["collector"], m["rank"] = 1, "a<b>&c", "x<y>&z" }))
	if got := r.send("", bad); got.Rejected == 0 {
		t.Fatalf("nothing was refused: %s", got.raw)
	} else if strings.Contains(got.raw, `\u003`) || strings.Contains(got.raw, `\u0026`) {
		t.Errorf("%s", got.raw)
	}
	for _, path := range []string{"/api/v1/events/session-complete", "/api/v1/telemetry?a<b>&c=1"} {
		if got := r.do("POST", path, nil); got.status != 400 || strings.Contains(got.raw, `\u003`) || strings.Contains(got.raw, `\u0026`) {
			t.Errorf("%s: %d %s", path, got.status, got.raw)
		}
	}
}
