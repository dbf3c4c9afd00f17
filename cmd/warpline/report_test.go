package main

import (
	"strings"
	"testing"
)

func TestReportMemoryRefusesRanks(t *testing.T) {
	for _, ranks := range []string{"7-4", "x", "-1"} {
		got := runIn(t, nil, "report", "memory", "--rank="+ranks, "--data", t.TempDir())
		if got.code != exitUsage || got.stdout != "" || !strings.Contains(got.stderr, "--rank: ") {
			t.Errorf("--rank=%s: exit %d, %s", ranks, got.code, got.stderr)
		}
	}
}

// Both reports say that nothing runs; flags of the one without a name still stand behind "report".
func TestReportsReachNothing(t *testing.T) {
	for _, args := range [][]string{{"report", "--top", "3"}, {"report", "all"}, {"report", "memory", "--job", "j", "--rank", "0,2-4"},
		{"report", "trace"}, {"report", "trace", "--job", "night", "--against", "before"}} {
		if got := runIn(t, nil, append(args, "--data", t.TempDir())...); got.code != exitUnreachable ||
			!strings.Contains(got.stderr, "no warpline runs on") {
			t.Errorf("%v: exit %d, %s", args, got.code, got.stderr)
		}
	}
}

func TestReportTraceSaysWhatIsMissing(t *testing.T) {
	for _, c := range []struct {
		args []string
		say  string
	}{{[]string{"--against", "before"}, "--against compares two traces: say with --session"},
		{[]string{"--top", "0"}, "--top: 0 is outside"}} {
		got := runIn(t, nil, append([]string{"report", "trace", "--data", t.TempDir()}, c.args...)...)
		if got.code != exitUsage || !strings.Contains(got.stderr, c.say) {
			t.Errorf("%v: exit %d, %s", c.args, got.code, got.stderr)
		}
	}
}
