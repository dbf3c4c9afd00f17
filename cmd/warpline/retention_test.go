package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/cmd/warpline/service"
)

// Tenants and keys are given retention classes that the gateway has, and what they send is stored as their class says.
func TestRetentionClassesOfTenants(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "tenants.yaml")
	if err := os.WriteFile(file, []byte("tenants:\n  initech:\n    retention-class: long\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	data := dataFolder(t)
	up := launch(t, append(upArgs(data), "--retention-class", "short=1d/30d", "--retention-class", "long=30/800", "--tenants", file)...)
	up.await(t, "msg=ready")
	for _, c := range []struct {
		args []string
		code int
		says string // on both
	}{
		{[]string{"tenant", "create", "acme", "--retention-class", "short"}, exitOK, "retention-class short;"},
		{[]string{"tenant", "create", "globex", "--retention-class", "none"}, exitFailed,
			"use one of default=7d/395d, short=1d/30d, long=30d/800d"},
		{[]string{"tenant", "create", "globex", "--retention-class", "long", "--rollup-days", "3"}, exitUsage, "--rollup-days out"},
		{[]string{"tenant", "create", "globex", "--rollup-days", "500"}, exitOK, "rollup-days 500;"},
		{[]string{"tenant", "set", "globex", "--retention-class", "none"}, exitFailed, "use one of default="},
		{[]string{"tenant", "set", "globex", "--retention-class", "long", "--retention-days", "3"}, exitUsage, "--retention-days"},
		{[]string{"tenant", "set", "globex", "--retention-class", "long"}, exitOK, "limits: retention-class long;"},
		{[]string{"tenant", "set", "globex", "--note", "kept"}, exitOK, "limits: retention-class long;"},
		{[]string{"tenant", "set", "globex", "--retention-days", "3"}, exitOK, "limits: retention-days 3, rollup-days 800;"},
		{[]string{"tenant", "set", "globex", "--retention-class="}, exitOK, "limits: the service's;"},
		{[]string{"tenant", "show", "initech"}, exitOK, "limits    retention-class long"},
		{[]string{"tenant", "set", "initech", "--retention-class", "short"}, exitFailed, "is declared in the file"},
		{[]string{"key", "create", "acme", "--retention-class", "none"}, exitFailed, "use one of default="},
		{[]string{"key", "create", "acme", "--retention-class", "short", "--scope", "read"}, exitUsage, "leave it out"},
		{[]string{"key", "create", "globex", "--retention-class", "long"}, exitOK, "limits: retention-class long;"},
		{[]string{"tenant", "retain", "acme", "none"}, exitFailed, "use one of default="},
		{[]string{"tenant", "retain", "nobody", "long", "--dry-run"}, exitOK, "has no rows that would be kept"},
		{[]string{"tenant", "retain", "nobody", "long", "--no-wait"}, exitOK, "tenant nobody has no record"},
		{[]string{"tenant", "retain", "No Such", "long"}, exitUsage, "use 1 to 63"},
		{[]string{"doctor"}, exitOK, "default=7d/395d, short=1d/30d, long=30d/800d; 0 other pairs"},
	} {
		got := runIn(t, nil, append(c.args, "--data", data)...)
		if got.code != c.code || !strings.Contains(got.stdout+got.stderr, c.says) {
			t.Errorf("%v: %+v, want %d and %q", c.args, got, c.code, c.says)
		}
	}
	if got := runIn(t, nil, "tenant", "retain", "acme", "long", "--dry-run", "--data", data); got.code != exitOK ||
		got.stdout != "TABLE  CAME IN  ROWS  DAYS  WOULD BE\n" {
		t.Errorf("of a tenant without rows: %+v", got)
	}
	// What variables and the file of --config say of a service is not what a command is to do.
	ofService := map[string]string{"WARPLINE_RETENTION_CLASS": "short=1d/30d", "WARPLINE_LIMIT_REQUESTS_PER_SECOND": "7"}
	config := filepath.Join(dir, "warpline.yaml")
	if err := os.WriteFile(config, []byte("limit-names: 100\nretention-days: 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"tenant", "set", "acme", "--note", "x"}, "limits: retention-class short;"},
		{[]string{"tenant", "create", "hooli"}, "limits, for all its keys together: the service's;"},
		{[]string{"key", "create", "acme"}, "limits: the service's;"},
		{[]string{"key", "create", "acme", "--limit-requests-per-second", "5"}, "limits: requests-per-second 5;"},
	} {
		if got := runIn(t, ofService, append(c.args, "--data", data, "--config", config)...); got.code != exitOK || !strings.Contains(got.stderr,
			c.says) {
			t.Errorf("%v: %+v, want %q", c.args, got, c.says)
		}
	}
	if err := os.WriteFile(file, []byte("tenants:\n  initech:\n    retention-class: none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	up.await(t, "is bad; what it said before holds")

	r, err := service.ReadRunning(data)
	if err != nil {
		t.Fatal(err)
	}
	sql := asReader(t, data, r.ClickHouseHTTP)
	secret := strings.TrimSpace(runIn(t, nil, "key", "create", "acme", "--data", data).stdout)
	if sent := runIn(t, nil, "send", "../../testdata/gpuflight/trace_default", "--data", data, "--key", secret); sent.code != exitOK {
		t.Fatalf("%+v", sent)
	}
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		got := query(t, sql, "SELECT (SELECT groupUniqArray(retention_days) FROM warpline.kernels_data WHERE tenant = 'acme'), "+
			"(SELECT groupUniqArray(retention_days) FROM warpline.kernel_stats_data WHERE tenant = 'acme'), "+
			"(SELECT groupUniqArray(retention_days) FROM warpline.launches WHERE tenant = 'acme')")
		if got == "[1]\t[30]\t[30]" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("rows of acme are kept %s", got)
		}
	}
	// A bill of the tenant reckons with the days of its class, of all and of one without a class with those of class default, and with those
	// that are given.
	for days, args := range map[string][]string{
		"days            1 of raw rows, 30 of rollups: class short of tenant acme\n": {"--tenant", "acme"},
		"days            7 of raw rows, 395 of rollups: class default\n":             {},
		"days            1 of raw rows, 9 of rollups: as given\n":                    {"--tenant", "acme", "--rollup-days", "9"},
	} {
		for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(100 * time.Millisecond) { // usage follows the rows
			got := runIn(t, nil, append([]string{"cost", "--events-per-second", "100", "--data", data}, args...)...)
			if got.code == exitOK && strings.Contains(got.stdout, days) {
				break
			}
			if time.Now().After(deadline) {
				t.Errorf("cost %v: %+v, want %q", args, got, days)
				break
			}
		}
	}
	dry := runIn(t, nil, "tenant", "retain", "acme", "long", "--dry-run", "--data", data)
	if dry.code != exitOK || !regexp.MustCompile(`kernels_data +\d{4}-\d\d-\d\d +\d+ +1 +30\n`).MatchString(dry.stdout) ||
		!regexp.MustCompile(`kernel_stats_data +\d{4}-\d\d +\d+ +30 +800\n`).MatchString(dry.stdout) ||
		strings.Contains(dry.stdout, "cubin_lines") {
		t.Errorf("%+v", dry)
	}
	if got := runIn(t, nil, "tenant", "retain", "acme", "long", "--no-wait", "--data", data); got.code != exitOK ||
		!strings.Contains(got.stderr, "what tenant acme sends from now on is not of class long") {
		t.Errorf("%+v", got)
	}
}

// What is wrong with the classes of a service is said before anything starts.
func TestBadRetentionClasses(t *testing.T) {
	for says, args := range map[string][]string{
		"--retention-class: \"short\": write NAME=RAW/ROLLUP": {"--retention-class", "short"},
		"given twice":      {"--retention-class", "a=1/2,a=1/3"},
		"--retention-days": {"--retention-class", "default=1/2"},
		"at most 8":        {"--retention-class", "a=1/1,b=1/2,c=1/3,d=1/4,e=1/5,f=1/6,g=1/7,h=1/8"},
	} {
		if got := runIn(t, nil, append(upArgs(t.TempDir()), args...)...); got.code != exitUsage || !strings.Contains(got.stderr, says) {
			t.Errorf("%v: %+v, want %q", args, got, says)
		}
	}
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("nats: nats://x\nretention-class: [short=1d/30d, long=30d/800d]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := runIn(t, nil, "gateway", "--config", file, "--print-config"); got.code != exitOK ||
		!strings.Contains(got.stdout, "retention-class: short=1d/30d,long=30d/800d  # ") {
		t.Errorf("%+v", got)
	}
}
