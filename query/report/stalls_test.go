package report_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rivo/uniseg"

	"github.com/warpline/warpline/query/querytest"
	"github.com/warpline/warpline/query/report"
	"github.com/warpline/warpline/sink/table/tabletest"
)

const aDay = "2026-11-20T00:00:00Z"

func at(t *testing.T, text string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func readStalls(t *testing.T, s *tabletest.Store, q report.StallsQuery) *report.Stalls {
	t.Helper()
	q.Database = s.Opts.Database
	got, err := report.ReadStalls(t.Context(), s.Conn, q)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestStallsAreWhatTheDatabaseHolds(t *testing.T) {
	s := querytest.Stalls(t)
	day := report.Selection{Tenant: "acme", Since: at(t, aDay)}
	before := report.Selection{Tenant: "acme", Until: at(t, aDay)}
	got := readStalls(t, s, report.StallsQuery{Selection: day, Base: &before})
	js, err := json.MarshalIndent(got, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "stalls.golden.json", append(js, '\n'))
	for name, style := range map[string]report.Style{"stalls_wide": {Width: 120}, "stalls_narrow": {Width: 60}, "": {Width: 40}} {
		var out bytes.Buffer
		if err := got.Print(&out, style); err != nil {
			t.Fatal(err)
		}
		if name != "" {
			golden(t, name+".golden.txt", out.Bytes())
		}
		for line := range strings.Lines(out.String()) {
			if n := uniseg.StringWidth(strings.TrimRight(line, "\n")); n > style.Width {
				t.Errorf("a line of %d cells is wider than %d: %s", n, style.Width, line)
			}
		}
		if strings.ContainsRune(out.String(), '\x1b') || strings.Contains(out.String(), "secret") {
			t.Errorf("a client's escape sequence, or another tenant, got through:\n%s", out.String())
		}
	}

	// Everything adds up: lines to kernels, kernels to all, and all to what SQL says.
	s.Want("SELECT sum(samples) FROM {db}.pc_lines WHERE tenant = 'acme' AND reason_kind = 'stall' AND bucket >= '2026-11-20'", "145")
	var kernels uint64
	for _, k := range got.Kernels {
		kernels += k.Samples
		var lines uint64
		for _, l := range k.Lines {
			lines += l.Samples
			var reasons uint64
			for _, r := range l.Reasons {
				reasons += r.Samples
			}
			if reasons != l.Samples {
				t.Errorf("%s:%d has %d samples and %d in its reasons", l.File, l.Line, l.Samples, reasons)
			}
		}
		if lines != k.Samples {
			t.Errorf("%s has %d samples and %d in its lines", k.Function, k.Samples, lines)
		}
	}
	if got.Samples != 145 || kernels != 145 {
		t.Errorf("%d samples, %d in kernels; want 145", got.Samples, kernels)
	}
}

func TestStallsAreSelected(t *testing.T) {
	s := querytest.Stalls(t)
	for name, c := range map[string]struct {
		of      report.Selection
		samples uint64
	}{
		"all":             {report.Selection{}, 554},
		"tenant":          {report.Selection{Tenant: "other"}, 9},
		"session":         {report.Selection{Session: "parca:node-2:-:serve"}, 35},
		"its beginning":   {report.Selection{Session: "parca:"}, 544},
		"app":             {report.Selection{App: "flight.py"}, 10},
		"host":            {report.Selection{Host: "node-1"}, 500},
		"app and host":    {report.Selection{App: "serve", Host: "node-1"}, 0},
		"build":           {report.Selection{Build: querytest.Known[:6], Tenant: "acme"}, 100},
		"not in a build":  {report.Selection{NotIn: querytest.Known, Tenant: "acme"}, 445},
		"since":           {report.Selection{Since: at(t, "2026-11-20T12:00:00Z"), Tenant: "acme"}, 145},
		"since, later":    {report.Selection{Since: at(t, "2026-11-20T12:00:01Z"), Tenant: "acme"}, 0},
		"until":           {report.Selection{Until: at(t, "2026-11-20T12:00:00Z"), Tenant: "acme"}, 400},
		"a quote is data": {report.Selection{App: "' OR 1 = 1 --"}, 0},
	} {
		if got := readStalls(t, s, report.StallsQuery{Selection: c.of}); got.Samples != c.samples {
			t.Errorf("%s: %d samples, want %d", name, got.Samples, c.samples)
		}
	}
}

// A kernel's time is found by the name in its samples, which may be cut; those that share the cut name share their samples too.
func TestStallsHaveKernelTimes(t *testing.T) {
	s := querytest.Stalls(t)
	got := map[string]uint64{}
	for _, k := range readStalls(t, s, report.StallsQuery{Selection: report.Selection{Tenant: "acme"}}).Kernels {
		got[k.Function] = k.KernelNS
	}
	for f, want := range map[string]uint64{"_Z4gemmPKfPf": 1000, querytest.Long[:127]: 100, "scan(int*)": 500, querytest.Evil: 0} {
		if ns, ok := got[f]; !ok || ns != want {
			t.Errorf("%.20q ran for %d ns, want %d", f, ns, want)
		}
	}
	build := readStalls(t, s, report.StallsQuery{Selection: report.Selection{Tenant: "acme", Build: querytest.Missing}})
	if len(build.Kernels) != 2 || build.Kernels[1].KernelNS != 100 {
		t.Errorf("of one build: %+v", build.Kernels)
	}
}

// Builds are compared by line, or by kernel where only one of them has lines.
func TestRoseBetweenBuilds(t *testing.T) {
	s := querytest.Stalls(t)
	compare := func() []report.RoseShare {
		base := report.Selection{Build: querytest.Old}
		return readStalls(t, s, report.StallsQuery{Selection: report.Selection{Tenant: "acme", Build: querytest.Known}, Base: &base}).Rose
	}
	got := compare()
	if len(got) != 2 || got[0].File != "gemm.cu" || got[0].Line != 42 || !strings.HasSuffix(got[0].Reason, "long_scoreboard") ||
		got[0].Share != .6 || got[0].BaseShare != .25 || got[1].Share != .2 || got[1].BaseShare != 0 {
		t.Errorf("rose: %+v", got)
	}
	s.Exec("ALTER TABLE {db}.cubin_lines_data DELETE WHERE build_id = '" + querytest.Old + "' SETTINGS mutations_sync = 1")
	got = compare()
	if len(got) != 2 || got[0].File != "" || got[0].Line != 0 || got[0].Share != .6 || got[0].BaseShare != .25 {
		t.Errorf("rose, without lines of the base: %+v", got)
	}
}

func TestNoStalls(t *testing.T) {
	s := tabletest.New(t, true)
	for want, of := range map[string]report.Selection{"Nothing matches": {App: "x\x1b"}, "No PC samples yet": {}} {
		got := readStalls(t, s, report.StallsQuery{Selection: of})
		js, err := json.Marshal(got)
		if err != nil || string(js) != `{"samples":0,"kernels":[],"unsymbolized":[],"rose":[]}` {
			t.Errorf("JSON is %s, %v", js, err)
		}
		var out bytes.Buffer
		err = got.Print(&out, report.Style{})
		if err != nil || !strings.Contains(out.String(), want) || strings.ContainsRune(out.String(), '\x1b') {
			t.Errorf("want %q in %q, %v", want, out.String(), err)
		}
	}
}

// Samples that name cubins have a section of their own in the report on everything, and a cubin is no run of a program.
func TestReportOfCubinSamples(t *testing.T) {
	s := querytest.Stalls(t)
	r, err := report.Read(t.Context(), s.Conn, report.Query{Database: s.Opts.Database, Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	if r.Samples != 545 { // of kind stall: numbers without a name are none
		t.Errorf("%d samples, want 545", r.Samples)
	}
	var out bytes.Buffer
	if err := r.Print(&out, report.Style{Width: 120, HTTP: "http://127.0.0.1:8123"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"3 sessions", "and 1 cubin for source lines", "pc_samples 15", "gemm(float const*, float*)",
		"6.4 % of the samples have no source line: not_uploaded 6.4 %", `"warpline report stalls"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	for _, bad := range []string{"cubin:", "_Z4gemm", "stall_reason_7", "\x1b"} {
		if strings.Contains(out.String(), bad) {
			t.Errorf("%q is in\n%s", bad, out.String())
		}
	}
}
