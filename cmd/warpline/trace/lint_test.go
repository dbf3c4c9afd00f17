package trace_test

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warpline/warpline/cmd/warpline/trace"
)

const vectors = "../../../testdata/traces"

func lint(t *testing.T, l trace.Lint, stdin string) (*trace.Found, string) {
	t.Helper()
	var out bytes.Buffer
	found, err := l.Run(t.Context(), strings.NewReader(stdin), &out)
	if err != nil {
		t.Fatal(err)
	}
	return found, out.String()
}

// --flows is the engine's own rows, as CSV.
func TestFlows(t *testing.T) {
	found, err := filepath.Glob(filepath.Join(vectors, "real", "*.perfetto-flows.csv.gz"))
	if err != nil || len(found) < 7 {
		t.Fatal(len(found), err)
	}
	for _, path := range found {
		_, out := lint(t, trace.Lint{Path: strings.Replace(path, ".perfetto-flows.csv.gz", ".json.gz", 1), Flows: true}, "")
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		want, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if sorted(t, out) != sorted(t, string(want)) {
			t.Errorf("%s: other rows", filepath.Base(path))
		}
	}
}

func sorted(t *testing.T, text string) string {
	t.Helper()
	lines, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, line := range lines[1:] {
		rows = append(rows, strings.Join(line, "\x00"))
	}
	slices.Sort(rows)
	return strings.Join(append([]string{strings.Join(lines[0], ",")}, rows...), "\n")
}

// How many arrows are right, wrong and lost is what was measured in Perfetto's engine.
func TestCounts(t *testing.T) {
	for name, want := range map[string][5]uint64{ // arrows; right, wrong, turned, lost in Perfetto
		"HTA_critical_path__alexnet__benchmark_result_2869224_1695835535_trace": {139, 110, 7, 0, 22},
		"HTA_amd_trace__mi250_minitoy_train_ROCm6_2_kineto":                     {20, 20, 0, 0, 0},
	} {
		f, _ := lint(t, trace.Lint{Path: filepath.Join(vectors, "real", name+".json.gz"), JSON: true}, "")
		got := [5]uint64{f.Arrows, f.Perfetto.Right, f.Perfetto.Wrong, f.Perfetto.Turned, f.Perfetto.Lost}
		if got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

const (
	call  = `{"ph":"X","cat":"cuda_runtime","name":"launch","pid":1,"tid":1,"ts":100,"dur":10,"args":{"correlation":7}}`
	start = `{"ph":"s","id":7,"pid":1,"tid":1,"ts":100,"cat":"ac2g","name":"ac2g"}`
	work  = `{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":130,"dur":5,"args":{"correlation":7}}`
	finis = `{"ph":"f","bp":"e","id":7,"pid":0,"tid":7,"ts":130,"cat":"ac2g","name":"ac2g"}`
)

// What is found is said with its count, and a trace that is drawn as meant is said to be.
func TestFound(t *testing.T) {
	list := func(events ...string) string { return "[" + strings.Join(events, ",\n") + "]" }
	for name, c := range map[string]struct {
		text string
		bad  bool
		says string
	}{
		"good": {list(call, start, work, finis), false, "all is drawn as it was meant"},
		"a child steals": {list(call, start, strings.NewReplacer("launch", "peek", `"dur":10`, `"dur":0`).Replace(call), work, finis), true,
			"is drawn"},
		"before": {list(call, start, strings.Replace(work, "130", "99", 1), strings.Replace(finis, "130", "99", 1)), true, "lost"},
		"overlap": {list(call, strings.Replace(call, `"ts":100,"dur":10`, `"ts":105,"dur":10`, 1)), true,
			"1 slices overlap the one before them"},
		"control character": {list(call, strings.Replace(work, `"k"`, "\"k\n\"", 1)), true, "Perfetto stops at byte 114"},
		"torn":              {list(call, start)[:150], true, "nothing is read behind byte"},
		"no event":          {list(call, `7`), true, "1 elements are no events"},
		"a time that moves": {list(strings.Replace(call, "100", "1763639202000010.123", 1)), false, "1 events have times that Perfetto moves"},
		"no time":           {list(call, `{"ph":"X","name":"x","pid":1,"tid":1}`), false, "1 events have no time"},
		"a lone end":        {list(call, finis), false, "1 ends without a start, which is normal"},
	} {
		f, out := lint(t, trace.Lint{Path: "-"}, c.text)
		if f.Bad() != c.bad || !strings.Contains(out, c.says) {
			t.Errorf("%s: bad %v, want %v and %q:\n%s", name, f.Bad(), c.bad, c.says, out)
		}
		var again trace.Found
		if _, out := lint(t, trace.Lint{Path: "-", JSON: true}, c.text); json.Unmarshal([]byte(out), &again) != nil || again.Bad() != c.bad {
			t.Errorf("%s: JSON %s", name, out)
		}
	}
	for name, text := range map[string]string{"no trace": `{"a":1}`, "text": "hello", "empty": ""} {
		var out bytes.Buffer
		f, err := (&trace.Lint{Path: "-"}).Run(t.Context(), strings.NewReader(text), &out)
		if err == nil && !f.Bad() {
			t.Errorf("%s is taken for a trace: %s", name, &out)
		}
	}
	if _, err := (&trace.Lint{Path: "nosuch.json"}).Run(t.Context(), nil, io.Discard); err == nil {
		t.Error("a file that is not there was read")
	}
}
