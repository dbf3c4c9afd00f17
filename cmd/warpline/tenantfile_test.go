package main

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/cmd/warpline/admin"
)

// A file declares tenants: within seconds they are as it says, a bad one changes nothing, and what it leaves out stays as it was.
func TestTenantFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "tenants.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	data := dataFolder(t)
	write("tenants:\n  acme:\n    note: build farm\n    limit-line: 1MiB\n    quota-policy: drop\n    limit-events-per-second: 500\n" +
		"  globex: {}\n")
	up := launch(t, append(upArgs(data), "--tenants", file)...)
	up.await(t, "msg=ready")
	shows := func(tenant, says string) {
		t.Helper()
		var got string
		for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
			got = runIn(t, nil, "tenant", "show", tenant, "--data", data).stdout
			if strings.Contains(got, says) {
				return
			}
		}
		t.Errorf("tenant %s:\n%s\nwant %q", tenant, got, says)
	}
	shows("acme", "limits    events-per-second 500, line 1MiB, quota-policy drop")
	shows("globex", "declared  in the file of --tenants")
	for _, args := range [][]string{{"set", "acme", "--note", "x"}, {"disable", "acme"}, {"delete", "globex"}} {
		got := runIn(t, nil, append([]string{"tenant", args[0], args[1], "--data", data}, args[2:]...)...)
		if got.code != exitFailed || !strings.Contains(got.stderr, "is declared in the file") {
			t.Errorf("%v: %+v", args, got)
		}
	}

	write("tenants:\n  acme:\n    disabled: true\n  initech:\n    limit-names: 10\n")
	shows("acme", "state     disabled since")
	shows("initech", "limits    names 10")
	if got := runIn(t, nil, "tenant", "set", "globex", "--note", "free again", "--data", data); got.code != exitOK {
		t.Errorf("of what the file leaves out: %+v", got)
	}

	write("tenants:\n  acme:\n    limit-lines: 1MiB\n")
	up.await(t, "is bad; what it said before holds")
	shows("acme", "state     disabled since")
	write("tenants:\n  acme: {limit-line: 2MiB, raw-rows: off}\n")
	shows("acme", "limits    line 2MiB, raw-rows off")
	shows("acme", "state     enabled")
}

// What is wrong with a file is said before anything starts.
func TestBadTenantFiles(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"empty":             {"", `no list "tenants:"`},
		"no YAML":           {"tenants: [", "yaml"},
		"another key":       {"tenant:\n  acme: {}\n", "tenant"},
		"a list":            {"tenants: [acme]\n", "yaml"},
		"a bad name":        {"tenants:\n  No Such: {}\n", "use 1 to 63"},
		"an unknown limit":  {"tenants:\n  acme: {limit-lines: 1}\n", "tenant acme: unknown flag --limit-lines"},
		"a bad number":      {"tenants:\n  acme: {limit-names: many}\n", "tenant acme: --limit-names"},
		"a negative number": {"tenants:\n  acme: {limit-ratio: -1}\n", "use a positive number"},
		"a policy":          {"tenants:\n  acme: {quota-policy: maybe}\n", "use hold or drop"},
		"two values":        {"tenants:\n  acme:\n    limit-line: [1, 2]\n", "line 3"},
		"twice":             {"tenants:\n  acme: {}\n  acme: {}\n", "already defined"},
		"two documents":     {"tenants: {}\n---\ntenants:\n  acme: {}\n", "something follows the list"},
		"a note with signs": {"tenants:\n  acme: {note: \"a\\e[2J\"}\n", "line 2, note: "},
		"raw rows":          {"tenants:\n  acme: {raw-rows: 1}\n", "--raw-rows: \"1\": use on or off"},
		"another flag":      {"tenants:\n  acme: {help: true}\n", "tenant acme"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "tenants.yaml")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got := runIn(t, nil, append(upArgs(t.TempDir()), "--tenants", file)...)
			if got.code != exitUsage || !strings.Contains(got.stderr, c.says) {
				t.Errorf("%+v, want %q", got, c.says)
			}
		})
	}
	if got := runIn(t, nil, append(upArgs(t.TempDir()), "--tenants", filepath.Join(t.TempDir(), "none"))...); got.code != exitUsage {
		t.Errorf("no file: %+v", got)
	}
}

// In JSON limits have the names that flags and the file of tenants have, each of them.
func TestLimitsInJSONAreNamedAsFlags(t *testing.T) {
	names := func(of reflect.Type, tag string) (all []string) {
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get(tag), ",")
			all = append(all, name)
		}
		slices.Sort(all)
		return all
	}
	flags := append(names(reflect.TypeFor[changeLimitFlags](), "name"), "retention-class", "no-launch-stacks")
	slices.Sort(flags)
	if got := names(reflect.TypeFor[admin.Limits](), "json"); !slices.Equal(got, flags) {
		t.Errorf("JSON has %v, flags are %v", got, flags)
	}
}
