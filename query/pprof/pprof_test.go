package pprof_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/warpline/warpline/query/pprof"
	"github.com/warpline/warpline/query/querytest"
	"github.com/warpline/warpline/query/report"
	"github.com/warpline/warpline/sink/table/tabletest"
)

func write(t *testing.T, s *tabletest.Store, q pprof.Query) ([]byte, pprof.Totals) {
	t.Helper()
	q.Database = s.Opts.Database
	var out bytes.Buffer
	totals, err := pprof.Write(t.Context(), s.Conn, &out, q)
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), totals
}

func parse(t *testing.T, data []byte) *profile.Profile {
	t.Helper()
	p, err := profile.ParseData(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.CheckValid(); err != nil {
		t.Fatal(err)
	}
	return p
}

// stacks are the samples of a profile as text, innermost frame first, sorted.
func stacks(p *profile.Profile) string {
	var all []string
	for _, s := range p.Sample {
		var b strings.Builder
		for _, loc := range s.Location {
			for _, l := range loc.Line {
				fmt.Fprintf(&b, "%s %s:%d < ", l.Function.Name, l.Function.Filename, l.Line)
			}
		}
		why := strings.TrimPrefix(strings.Join(s.Label["stall_reason"], ","), "smsp__pcsamp_warps_issue_stalled_")
		fmt.Fprintf(&b, "%s %s %v", why, strings.Join(s.Label["sass"], ","), s.Value)
		all = append(all, b.String())
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func TestProfileOfSamples(t *testing.T) {
	s := querytest.Stalls(t)
	for name, c := range map[string]struct {
		of   report.Selection
		want string
	}{
		// What no stack accounts for has none, and a stack never has more than there is.
		"a session with launch stacks": {report.Selection{Build: querytest.Known, Tenant: "acme"},
			`gemm(float const*, float*) gemm.cu:42 < launch launch.cc:9 < <module> main.py:3 < long_scoreboard LDG [30 30000]
gemm(float const*, float*) gemm.cu:42 < libcuda.so+0x1234 :0 < <module> main.py:4 < long_scoreboard LDG [20 20000]
gemm(float const*, float*) gemm.cu:42 < long_scoreboard LDG [10 10000]
load(float const*) load.cuh:7 < gemm(float const*, float*) gemm.cu:43 < launch launch.cc:9 < <module> main.py:3 < barrier BAR [20 20000]
load(float const*) load.cuh:7 < gemm(float const*, float*) gemm.cu:43 < selected BAR [10 10000]
load(float const*) load.cuh:7 < gemm(float const*, float*) gemm.cu:43 < selected FFMA [10 10000]`},
		"GPU Flight": {report.Selection{App: "flight.py"}, `scan(int*) :0 < barrier  [3 0]
scan(int*) scan.cu:5 < wait  [7 0]`},
	} {
		data, _ := write(t, s, pprof.Query{Type: pprof.PC, Selection: c.of})
		if got := stacks(parse(t, data)); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
	data, _ := write(t, s, pprof.Query{Type: pprof.PC, Selection: report.Selection{Build: querytest.Known, Tenant: "acme"}})
	p := parse(t, data)
	if f := p.Sample[0].Location[0].Line[0].Function; f.SystemName != "_Z4gemmPKfPf" || p.Mapping[0].BuildID != querytest.Known ||
		p.SampleType[0].Type != "samples" || p.SampleType[1].Unit != "nanoseconds" || !strings.Contains(p.Comments[0], "estimate") {
		t.Errorf("the profile is\n%s", p)
	}
}

func TestProfileOfKernels(t *testing.T) {
	s := querytest.Stalls(t)
	data, _ := write(t, s, pprof.Query{Type: pprof.Kernels, Selection: report.Selection{Tenant: "acme"}})
	got, long := stacks(parse(t, data)), strings.Count
	for _, want := range []string{
		"gemm(float const*, float*) :0 < launch launch.cc:9 < <module> main.py:3 <   [2 700]", "gemm(float const*, float*) :0 <   [1 300]",
		"scan(int*) :0 <   [1 500]",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if long(got, "\n") != 4 {
		t.Errorf("it has %d stacks, want 5:\n%s", long(got, "\n")+1, got)
	}
}

// What is written adds up to what SQL says, in either form and of every selection.
func TestSumsAreThoseOfSQL(t *testing.T) {
	s := querytest.Stalls(t)
	for _, c := range []struct {
		of    report.Selection
		where string
	}{
		{report.Selection{}, "1"}, {report.Selection{Tenant: "acme"}, "tenant = 'acme'"},
		{report.Selection{Session: "parca:node-1"}, "session_id LIKE 'parca:node-1%'"},
		{report.Selection{Session: "flight"}, "session_id = 'flight'"},
	} {
		for kind, sql := range map[pprof.Type]string{
			pprof.PC:      "SELECT sum(samples), sum(gpu_ns) FROM {db}.pc_lines WHERE reason_kind = 'stall' AND ",
			pprof.Kernels: "SELECT sum(calls), sum(total_ns) FROM {db}.kernel_stats WHERE ",
		} {
			want := s.Query(sql + c.where)
			data, totals := write(t, s, pprof.Query{Type: kind, Selection: c.of})
			var sums [2]int64
			for _, x := range parse(t, data).Sample {
				sums[0], sums[1] = sums[0]+x.Value[0], sums[1]+x.Value[1]
			}
			if got := fmt.Sprintf("%d\t%d", sums[0], sums[1]); got != want || fmt.Sprintf("%d\t%d", totals.Count, totals.NS) != want {
				t.Errorf("%s of %+v: the profile has %s, the totals are %+v, SQL says %s", kind, c.of, got, totals, want)
			}
			text, _ := write(t, s, pprof.Query{Type: kind, Selection: c.of, Folded: true})
			var sum int64
			for line := range strings.Lines(string(text)) {
				var n int64
				if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' '):], &n); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				sum += n
			}
			column := 0
			if kind == pprof.Kernels {
				column = 1
			}
			if fmt.Sprint(sum) != strings.Split(want, "\t")[column] {
				t.Errorf("%s of %+v: folded stacks have %d, SQL says %s", kind, c.of, sum, want)
			}
		}
	}
}

func TestFoldedStacks(t *testing.T) {
	s := querytest.Stalls(t)
	text, _ := write(t, s, pprof.Query{Type: pprof.PC, Folded: true, Selection: report.Selection{Tenant: "acme"}})
	for _, want := range []string{
		"<module> (main.py:3);launch (launch.cc:9);gemm(float const*, float*) (gemm.cu:43);load(float const*) (load.cuh:7);[barrier] 20\n",
		"<module> (main.py:4);libcuda.so+0x1234;gemm(float const*, float*) (gemm.cu:42);[long_scoreboard] 20\n",
		"\nevil·[31m:·name;[wait] 30\n", // a hostile name is one frame
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

func TestNothingIsWrittenOfNothing(t *testing.T) {
	s := querytest.Stalls(t)
	for _, folded := range []bool{true, false} {
		if out, totals := write(t, s, pprof.Query{Type: pprof.PC, Folded: folded, Selection: report.Selection{App: "nosuch"}}); len(out) > 0 ||
			totals != (pprof.Totals{}) {
			t.Errorf("folded %t: %d bytes, %+v", folded, len(out), totals)
		}
	}
}

// Go's own tool reads what is written.
func TestGoToolReadsProfiles(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command on PATH")
	}
	s := querytest.Stalls(t)
	for kind, wants := range map[pprof.Type][]string{
		pprof.PC:      {"Type: samples", "gemm(float const*, float*)", "load(float const*) (inline)", "launch", "<module>"},
		pprof.Kernels: {"Type: duration", "gemm(float const*, float*)", "scan(int*)"},
	} {
		data, _ := write(t, s, pprof.Query{Type: kind, Selection: report.Selection{Tenant: "acme"}})
		file := filepath.Join(t.TempDir(), "out.pb.gz")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), goTool, "tool", "pprof", "-top", "-nodecount=100", file)
		cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, want := range wants {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: %q is missing in\n%s", kind, want, out)
			}
		}
		if strings.ContainsRune(string(out), '\x1b') {
			t.Errorf("a client's escape sequence got through:\n%q", out)
		}
	}
}
