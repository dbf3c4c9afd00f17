package flows_test

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/chrometrace"
	"github.com/warpline/warpline/proto/chrometrace/flows"
)

// folders are where traces and what Perfetto made of them stand: those of the repository, and one more where a tester names it.
func folders() []string {
	all := []string{"../../../testdata/traces"}
	if more := os.Getenv("WARPLINE_TRACE_VECTORS"); more != "" {
		all = append(all, more)
	}
	return all
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(path, ".gz") {
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if b, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func load(t testing.TB, text []byte) *flows.Trace {
	t.Helper()
	trace, in := flows.New(), chrometrace.NewReader(bytes.NewReader(text))
	for {
		e, err := in.Next()
		var one *chrometrace.EventError
		switch {
		case err == io.EOF:
			return trace
		case errors.As(err, &one):
			continue
		case err != nil:
			t.Fatal(err)
		}
		trace.Add(e)
	}
}

// rowsOf are the arrows as the engine's own are recorded.
func rowsOf(trace *flows.Trace, d *flows.Drawing) (rows []string) {
	for _, r := range d.Rows {
		from, to := &trace.Slices[r.From], &trace.Slices[r.To]
		n := func(v int64) string { return strconv.FormatInt(v, 10) }
		rows = append(rows, strings.Join([]string{trace.Name(from), n(from.TS), n(from.Dur), trace.Name(to), n(to.TS), n(to.Dur)}, "\x00"))
	}
	slices.Sort(rows)
	return rows
}

func compare(t *testing.T, name string, got, want []string) {
	t.Helper()
	slices.Sort(want)
	if slices.Equal(got, want) {
		return
	}
	shown := 0
	for i, j := 0, 0; (i < len(got) || j < len(want)) && shown < 6; {
		switch {
		case j >= len(want) || i < len(got) && got[i] < want[j]:
			t.Errorf("%s: too many: %q", name, got[i])
			i, shown = i+1, shown+1
		case i >= len(got) || want[j] < got[i]:
			t.Errorf("%s: missing: %q", name, want[j])
			j, shown = j+1, shown+1
		default:
			i, j = i+1, j+1
		}
	}
	t.Errorf("%s: %d rows, the engine has %d", name, len(got), len(want))
}

// Of every real trace the rows are those that Perfetto's engine made.
func TestRowsOfRealTraces(t *testing.T) {
	n := 0
	for _, dir := range folders() {
		found, err := filepath.Glob(filepath.Join(dir, "real", "*.perfetto-flows.csv.gz"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			n++
			trace := load(t, readFile(t, strings.Replace(path, ".perfetto-flows.csv.gz", ".json.gz", 1)))
			lines, err := csv.NewReader(bytes.NewReader(readFile(t, path))).ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, line := range lines[1:] {
				want = append(want, strings.Join(line, "\x00"))
			}
			compare(t, filepath.Base(path), rowsOf(trace, trace.Perfetto()), want)
		}
	}
	if n < 7 {
		t.Errorf("%d traces", n)
	}
}

// The same of traces that were made to show one rule each, with what the engine counted.
func TestRowsOfRules(t *testing.T) {
	n := 0
	for _, dir := range folders() {
		found, err := filepath.Glob(filepath.Join(dir, "binding", "*.perfetto.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			n++
			var want struct {
				Flows []struct {
					FromName string `json:"from_name"`
					FromTS   int64  `json:"from_ts"`
					FromDur  int64  `json:"from_dur"`
					ToName   string `json:"to_name"`
					ToTS     int64  `json:"to_ts"`
					ToDur    int64  `json:"to_dur"`
				}
				Stats map[string]uint64
			}
			if err := json.Unmarshal(readFile(t, path), &want); err != nil {
				t.Fatal(err)
			}
			var rows []string
			for _, f := range want.Flows {
				n := func(v int64) string { return strconv.FormatInt(v, 10) }
				rows = append(rows, strings.Join([]string{f.FromName, n(f.FromTS), n(f.FromDur), f.ToName, n(f.ToTS), n(f.ToDur)}, "\x00"))
			}
			trace := load(t, readFile(t, strings.Replace(path, ".perfetto.json", ".json", 1)))
			d := trace.Perfetto()
			compare(t, filepath.Base(path), rowsOf(trace, d), rows)
			for stat, got := range map[string]uint64{"flow_no_enclosing_slice": d.Faults[flows.NoSlice],
				"flow_end_without_start": d.Faults[flows.NoStart], "flow_duplicate_id": d.Faults[flows.SecondStart],
				"flow_invalid_id": d.Faults[flows.BadID], "slice_spill_overlapping_complete_event": d.Spilled} {
				if got != want.Stats[stat] {
					t.Errorf("%s: %s is %d, the engine has %d", filepath.Base(path), stat, got, want.Stats[stat])
				}
			}
		}
	}
	if n < 20 {
		t.Errorf("%d traces", n)
	}
}
