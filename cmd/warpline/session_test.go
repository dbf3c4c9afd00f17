package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warpline/warpline/cmd/warpline/rejects"
)

// What is wrong is told before anything is asked or touched, with what to do.
func TestDeletionsRefuseWrongInput(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "nothing")
	long := strings.Repeat("x", 257)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"session", "delete", "acme", "s"}, exitUsage, "--yes"},
		{[]string{"tenant", "purge", "acme"}, exitUsage, "--yes"},
		{[]string{"session", "delete", "acme", "s", "--yes", "--data", dir}, exitUnreachable, "no warpline runs"},
		{[]string{"session", "delete", "acme", "s", "--yes", "--force", "--data", dir}, exitUnreachable, "nothing at"},
		{[]string{"tenant", "purge", "acme", "--yes", "--data", dir}, exitUnreachable, "no warpline runs"},
		{[]string{"session", "delete", "ACME", "s", "--yes"}, exitUsage, "a-z"},
		{[]string{"tenant", "purge", "a.b", "--yes"}, exitUsage, "a-z"},
		{[]string{"tenant", "purge", "*", "--yes"}, exitUsage, "a-z"},
		{[]string{"session", "delete", "acme", "", "--yes"}, exitUsage, "empty"},
		{[]string{"session", "delete", "acme", long, "--yes"}, exitUsage, "256"},
		{[]string{"session", "delete", "acme", long[:200] + "," + long[:200], "--yes"}, exitUsage, "this one 401"}, // one id, not two
		{[]string{"session", "delete", "acme", "a\nb", "--yes"}, exitUsage, "control"},
		{[]string{"session", "delete", "acme", "--yes"}, exitUsage, "session"},
		{[]string{"session", "delete", "acme", "s", "--yes", "--wait", "0s"}, exitUsage, "positive"},
		{[]string{"session", "export", "acme", "s", "--data", dir}, exitUnreachable, "no warpline runs"},
		{[]string{"session", "export", "acme", ""}, exitUsage, "empty"},
		{[]string{"session", "list", "--limit", "0"}, exitUsage, "at least 1"},
		{[]string{"tenant", "list", "--data", dir}, exitUnreachable, "no warpline runs"},
	} {
		r := runIn(t, nil, c.args...)
		if r.code != c.code || !strings.Contains(r.stderr, c.want) || r.stdout != "" {
			t.Errorf("%q: exit %d, want %d and %q: %s", c.args, r.code, c.code, c.want, r.stderr)
		}
	}
}

// Only a clear yes deletes.
func TestDeletionAsks(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "YES\n": true, "n\n": false, "\n": false, "": false, "yep\n": false} {
		p := &program{Stdin: strings.NewReader(answer), Stderr: io.Discard}
		if ok, err := ask(t.Context(), p, "Delete?"); ok != want || err != nil {
			t.Errorf("%q: %t, %v", answer, ok, err)
		}
	}
}

// What clients send is shown and steers nothing: no colours, no lines or cells of its own.
func TestListsShowTextAsText(t *testing.T) {
	const sent = "\x1b[2J\x1b[31mroot\nDONE\tall is well\x9b\u202e"
	for name, line := range map[string]string{
		"session": sessionRow{Tenant: "acme", Session: sent, App: sent, Host: sent}.line(),
		"reject":  rejectLine(&rejects.Reject{Tenant: "acme", Session: sent, Type: sent, Detail: sent}),
	} {
		if strings.ContainsAny(line, "\x1b\n\u009b\u202e") || strings.Count(line, "root") != 3 {
			t.Errorf("%s: %q", name, line)
		}
		if want := map[string]int{"session": 8, "reject": 9}[name]; strings.Count(line, "\t") != want {
			t.Errorf("%s has %d cells, want %d: %q", name, strings.Count(line, "\t")+1, want+1, line)
		}
	}
}
