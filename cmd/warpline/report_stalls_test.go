package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/query/querytest"
	"github.com/warpline/warpline/query/report"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestMoments(t *testing.T) {
	for text, want := range map[string]time.Time{
		"": {}, "24h": noon.Add(-24 * time.Hour), "90m": noon.Add(-90 * time.Minute), "7d": noon.AddDate(0, 0, -7), "0s": noon,
		"2026-11-01T10:00:00Z":      time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC),
		"2026-11-01T10:00:00+02:00": time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC),
	} {
		if got, err := parseMoment(&settings{}, "since", text, noon); err != nil || !got.Equal(want) {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"yesterday", "-1h", "1e9d", "99999d", "2026-11-01", "9999999h", "3000-01-01T00:00:00Z"} {
		if got, err := parseMoment(&settings{}, "since", text, noon); err == nil || !strings.Contains(err.Error(), "24h") {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
}

// What shares are compared with is what was selected, at another time or of another build.
func TestWhatStallsAreComparedWith(t *testing.T) {
	day := noon.Add(-24 * time.Hour)
	for _, c := range []struct {
		cmd  reportStallsCmd
		now  report.Selection
		base *report.Selection
	}{
		{reportStallsCmd{}, report.Selection{}, nil},
		{reportStallsCmd{selectionFlags: selectionFlags{App: "a", Build: "x"}, BaseBuild: "y"},
			report.Selection{App: "a", Build: "x"}, &report.Selection{App: "a", Build: "y"}},
		{reportStallsCmd{BaseBuild: "y"}, report.Selection{NotIn: "y"}, &report.Selection{Build: "y"}},
		{reportStallsCmd{selectionFlags: selectionFlags{Since: "24h"}, BaseSince: "48h"},
			report.Selection{Since: day}, &report.Selection{Since: noon.Add(-48 * time.Hour), Until: day}},
		{reportStallsCmd{selectionFlags: selectionFlags{Since: "24h"}, BaseSince: "96h", BaseUntil: "48h"},
			report.Selection{Since: day}, &report.Selection{Since: noon.Add(-96 * time.Hour), Until: noon.Add(-48 * time.Hour)}},
		{reportStallsCmd{selectionFlags: selectionFlags{Since: "24h"}, BaseUntil: "24h"},
			report.Selection{Since: day}, &report.Selection{Until: day}},
	} {
		q, err := c.cmd.query(&settings{}, noon)
		if err != nil || q.Selection != c.now || (q.Base == nil) != (c.base == nil) || q.Base != nil && *q.Base != *c.base {
			t.Errorf("%+v: %+v, base %+v, %v", c.cmd, q.Selection, q.Base, err)
		}
	}
}

// Wrong usage is told before anything is asked; what is right finds that nothing runs, and leaves no file.
func TestStallsAndProfilesSayWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "out.pb.gz")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"report", "stalls", "--since", "soon"}, exitUsage, "--since: \"soon\": write a time as"},
		{[]string{"report", "stalls", "--since", "1h", "--until", "2h"}, exitUsage, "is not before --until"},
		{[]string{"report", "stalls", "--base-since", "1h"}, exitUsage, "say with --since"},
		{[]string{"report", "stalls", "--since", "2h", "--base-since", "1h"}, exitUsage, "give --base-until"},
		{[]string{"report", "stalls", "--build", "a", "--base-build", "a"}, exitUsage, "another build"},
		{[]string{"report", "stalls", "--top", "0"}, exitUsage, "--top"},
		{[]string{"report", "stalls", "--app", "a", "--json"}, exitUnreachable, "no warpline runs on"},
		{[]string{"pprof"}, exitUsage, "out"},
		{[]string{"pprof", "-o", file, "--type", "heap"}, exitUsage, "--type"},
		{[]string{"pprof", "-o", file, "--until", "x"}, exitUsage, "--until"},
		{[]string{"pprof", "-o", file, "--folded"}, exitUnreachable, "no warpline runs on"},
	} {
		got := runIn(t, nil, append(c.args, "--data", filepath.Join(dir, "nothing"))...)
		if got.code != c.code || got.stdout != "" || !strings.Contains(got.stderr, c.want) {
			t.Errorf("%q: exit %d, want %d and %q: %s", c.args, got.code, c.code, c.want, got.stderr)
		}
	}
	if found, err := os.ReadDir(dir); err != nil || len(found) > 0 {
		t.Errorf("left behind: %v, %v", found, err)
	}
}

// A cubin is listed as what it is, not as a run that never began.
func TestCubinsInTheListOfSessions(t *testing.T) {
	line := sessionRow{Tenant: "acme", Session: "cubin:0011", Source: "parca", State: "idle", Events: 1, StartedAt: noon}.line()
	if strings.Contains(line, "idle") || strings.Contains(line, "2026") || !strings.Contains(line, "(cubin)") {
		t.Errorf("it is %q", line)
	}
}

// The commands reach a server and write what was selected; of nothing they say so, and leave no file.
func TestStallsAndProfilesAreWritten(t *testing.T) {
	s := querytest.Stalls(t)
	run := func(args ...string) ran {
		return runIn(t, map[string]string{"WARPLINE_CLICKHOUSE_PASSWORD": s.Engine.Password()}, append(args, "--clickhouse", s.Engine.TCPAddr(),
			"--clickhouse-user", s.Engine.User(), "--clickhouse-database", s.Opts.Database)...)
	}
	got := run("report", "stalls", "--app", "train", "--build", querytest.Known[:8], "--base-build", querytest.Old[:8], "--json")
	if got.code != exitOK ||
		!strings.HasPrefix(got.stdout, "{\n  \"samples\": 100,") || !strings.Contains(got.stdout, `"base_share": 0.25`) {
		t.Errorf("exit %d: %s%s", got.code, got.stdout, got.stderr)
	}
	if got := run("report", "stalls", "--host", "node-2"); got.code != exitOK || !strings.Contains(got.stdout, "35 PC samples") {
		t.Errorf("exit %d: %s%s", got.code, got.stdout, got.stderr)
	}
	if got := run("report", "stalls", "--app", "nosuch"); got.code != exitFailed || got.stdout != "" ||
		!strings.Contains(got.stderr, `no PC samples of app "nosuch"`) {
		t.Errorf("exit %d: %s%s", got.code, got.stdout, got.stderr)
	}
	if got := run("report", "stalls", "--app", "train", "--base-build", "nosuch"); got.code != exitOK ||
		!strings.Contains(got.stdout, "The base has no PC samples") {
		t.Errorf("exit %d: %s%s", got.code, got.stdout, got.stderr)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "out.pb.gz")
	got = run("pprof", "-o", file, "--app", "nosuch")
	if got.code != exitFailed || !strings.Contains(got.stderr, `no PC samples of app "nosuch"`) {
		t.Errorf("exit %d: %s", got.code, got.stderr)
	}
	got = run("pprof", "-o", file, "--app", "train")
	if got.code != exitOK || got.stdout != "" || !strings.Contains(got.stderr, "estimated") {
		t.Errorf("exit %d: %s%s", got.code, got.stdout, got.stderr)
	}
	got = run("pprof", "--folded", "--type=kernels", "-o", "-", "--app", "flight.py")
	if got.code != exitOK || got.stdout != "scan(int*) 500\n" {
		t.Errorf("exit %d: %q %s", got.code, got.stdout, got.stderr)
	}
	if found, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(found) != 1 || found[0] != file {
		t.Errorf("the folder holds %v, %v", found, err)
	}
}
