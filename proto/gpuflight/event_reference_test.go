package gpuflight_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/warpline/warpline/proto/gpuflight"
)

func isArray(text []byte, n int) bool {
	var cells []json.RawMessage
	return json.Unmarshal(text, &cells) == nil && len(cells) == n
}

// agree compares an accepted event with what encoding/json reads, where both read the same: of a repeated key one takes the first and
// the other the last.
func agree(t *testing.T, line []byte, event any) {
	t.Helper()
	var keys map[string]json.RawMessage
	if json.Unmarshal(line, &keys) != nil || strings.Count(string(line), `"`) != 4*len(keys)-2*numbers(keys) {
		return // repeated keys, escapes or nested objects: other tests look at those
	}
	text := func(name string, got []byte) {
		t.Helper()
		want := ""
		if json.Unmarshal(keys[name], &want); want != string(got) || !utf8.Valid(got) {
			t.Fatalf("%s is %q, want %q", name, got, want)
		}
	}
	number := func(name string, got uint64) {
		t.Helper()
		want := uint64(0)
		if json.Unmarshal(keys[name], &want); want != got {
			t.Fatalf("%s is %d, want %d", name, got, want)
		}
	}
	switch e := event.(type) {
	case *gpuflight.Memset:
		text("app", e.App)
		text("name", e.Name)
		text("platform", e.Platform)
		text("stack_trace", e.StackTrace)
		text("user_scope", e.UserScope)
		number("pid", uint64(e.PID))
		number("scope_depth", uint64(e.ScopeDepth))
		number("start_ns", uint64(e.StartNS))
		number("end_ns", uint64(e.EndNS))
		number("api_start_ns", e.APIStartNS)
		number("api_exit_ns", e.APIExitNS)
		number("corr_id", uint64(e.CorrID))
		number("bytes", e.Bytes)
	case *gpuflight.Marker:
		text("app", e.App)
		text("name", e.Name)
		text("domain", e.Domain)
		number("start_ns", uint64(e.StartNS))
		number("end_ns", uint64(e.EndNS))
		number("marker_id", e.MarkerID)
		if keys["duration_ns"] != nil && string(keys["duration_ns"]) != "null" {
			number("duration_ns", e.DurationNS)
		}
	case *gpuflight.GraphNode:
		text("graph_exec_key", e.ExecKey)
		number("node_index", uint64(e.NodeIndex))
		number("dependency_count", uint64(e.Dependencies))
	}
}

// numbers counts the values that are not strings.
func numbers(keys map[string]json.RawMessage) (n int) {
	for _, v := range keys {
		if len(v) > 0 && v[0] != '"' {
			n++
		}
	}
	return n
}
