package main

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/warpline/warpline/cmd/warpline/service"
)

// A session is named by what reports show of it, wherever a command reads; and keys say whose they are and what they may do.
func TestSessionPrefixesAndKeys(t *testing.T) {
	dir := dataFolder(t)
	up := launch(t, upArgs(dir)...)
	up.await(t, "msg=ready")
	r, err := service.ReadRunning(dir)
	if err != nil {
		t.Fatal(err)
	}

	t.Run("key create", func(t *testing.T) {
		own := runIn(t, nil, "key", "create", "--data", dir)
		if own.code != exitOK || !strings.Contains(own.stderr, "of tenant default, since none was named") {
			t.Errorf("without a tenant: %+v", own)
		}
		made := runIn(t, nil, "key", "create", "acme", "--data", dir, "--limit-events-per-second", "100000", "--limit-body",
			"64MiB", "--retention-days", "3")
		if made.code != exitOK || !strings.Contains(made.stderr, "of tenant acme; limits: events-per-second 100000, body 64MiB, retention-days "+
			"3;") {
			t.Errorf("%+v", made)
		}
		list := runIn(t, nil, "key", "list", "--data", dir).stdout
		for _, line := range []string{`LIMITS +NOTE\n`, ` default +ingest +valid .* the service's *\n`,
			` acme +ingest +valid .* events-per-second 100000, body 64MiB, retention-days 3 *\n`} {
			if !regexp.MustCompile(line).MatchString(list) {
				t.Errorf("no %s in\n%s", line, list)
			}
		}
	})

	t.Run("tenant and key are changed", func(t *testing.T) {
		for _, c := range []struct {
			args []string
			code int
			says string // on both
		}{
			{[]string{"tenant", "create", "umbra", "--limit-events-per-second", "500", "--note", "trial"}, exitOK, "events-per-second 500; "},
			{[]string{"tenant", "create", "umbra"}, exitFailed, "warpline tenant set umbra"},
			{[]string{"tenant", "set", "umbra", "--limit-body", "1MiB", "--limit-events-per-second", "0"}, exitOK, "limits: body 1MiB;"},
			{[]string{"tenant", "set", "umbra", "--limit-ratio=-1"}, exitUsage, "use a positive number"},
			{[]string{"tenant", "set", "nobody", "--note", "x"}, exitFailed, "warpline tenant create nobody"},
			{[]string{"key", "create", "umbra", "--note", "first"}, exitOK, "of tenant umbra"},
			{[]string{"tenant", "disable", "umbra"}, exitOK, "umbra is disabled"},
			{[]string{"tenant", "show", "umbra"}, exitOK, "disabled since"},
			{[]string{"tenant", "list"}, exitOK, "disabled; body 1MiB"},
			{[]string{"tenant", "enable", "umbra"}, exitOK, "umbra is enabled"},
			{[]string{"tenant", "delete", "umbra"}, exitFailed, "1 valid key"},
			{[]string{"tenant", "show", "nobody"}, exitFailed, "has no record"},
			{[]string{"key", "set", "nosuch", "--note", "x"}, exitFailed, "no key"},
			{[]string{"key", "set", "nosuch", "--expires=-1h"}, exitUsage, "cannot be negative"},
			{[]string{"key", "rotate", "nosuch"}, exitFailed, "no key"},
			{[]string{"key", "create", "penumbra", "--scope", "read"}, exitOK, "of tenant penumbra; scope read;"},
			{[]string{"key", "create", "penumbra", "--scope", "root"}, exitUsage, "use ingest, read or admin"},
			{[]string{"key", "create", "penumbra", "--scope", "read", "--limit-line", "1MiB"}, exitUsage, "limits are for keys of scope ingest"},
			{[]string{"key", "create", "--operator"}, exitOK, "of the operator; scope operator;"},
			{[]string{"key", "create", "penumbra", "--operator"}, exitUsage, "the key has no tenant"},
			{[]string{"key", "create", "--scope", "operator"}, exitUsage, "--operator"},
			{[]string{"key", "list"}, exitOK, "-         operator  valid"},
			{[]string{"tenant", "show", "penumbra"}, exitOK, "scope read"},
		} {
			got := runIn(t, nil, append(c.args, "--data", dir)...)
			if got.code != c.code || !strings.Contains(got.stdout+got.stderr, c.says) {
				t.Errorf("%v: %+v, want %d and %q", c.args, got, c.code, c.says)
			}
		}
		var key struct {
			ID string
		}
		for line := range strings.Lines(runIn(t, nil, "key", "list", "--json", "--data", dir).stdout) {
			if strings.Contains(line, `"umbra"`) {
				if err := json.Unmarshal([]byte(line), &key); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := runIn(t, nil, "key", "set", key.ID, "--limit-line", "1MiB", "--expires", "720h", "--data", dir); got.code != exitOK ||
			!strings.Contains(got.stderr, "limits: line 1MiB;") {
			t.Errorf("%+v", got)
		}
		for _, args := range [][]string{{"key", "show", key.ID}, {"key", "list"}, {"tenant", "show", "umbra"}} {
			got := runIn(t, nil, append(args, "--json", "--data", dir)...)
			if !strings.Contains(got.stdout, `"limit-line":1048576`) || strings.Contains(got.stdout, `"limits"`) {
				t.Errorf("%v: %+v", args, got)
			}
		}
		got := runIn(t, nil, "key", "rotate", key.ID, "--overlap", "1h", "--data", dir)
		if got.code != exitOK || !strings.HasPrefix(got.stdout, "gpfl_") || !strings.Contains(got.stderr, "key "+key.ID+" works until") {
			t.Errorf("%+v", got)
		}
		if shown := runIn(t, nil, "tenant", "show", "umbra", "--data", dir).stdout; strings.Count(shown, "line 1MiB") != 2 {
			t.Error(shown)
		}
	})

	t.Run("purge of keys alone", func(t *testing.T) {
		if got := runIn(t, nil, "tenant", "purge", "acme", "--yes", "--data", dir); got.code != exitFailed ||
			!strings.Contains(got.stderr, "1 valid key: --revoke-keys") {
			t.Errorf("%+v", got)
		}
		if got := runIn(t, nil, "tenant", "purge", "acme", "--revoke-keys", "--yes", "--no-wait", "--data", dir); got.code != exitOK {
			t.Errorf("%+v", got)
		}
		if list := runIn(t, nil, "key", "list", "--data", dir).stdout; !regexp.MustCompile(` acme +ingest +revoked `).MatchString(list) {
			t.Error(list)
		}
		if got := runIn(t, nil, "tenant", "purge", "nosuch", "--revoke-keys", "--yes", "--data", dir); got.code != exitFailed ||
			!strings.Contains(got.stderr, "nothing is known") {
			t.Errorf("%+v", got)
		}
	})

	sent := runIn(t, nil, "send", "../../testdata/gpuflight/trace_default", "../../testdata/telemetry/exports", "--data", dir)
	if sent.code != exitOK {
		t.Fatalf("%+v", sent)
	}
	sql := asReader(t, dir, r.ClickHouseHTTP)
	eventually(t, sql, "SELECT (SELECT sum(kernels) FROM warpline.sessions) + (SELECT uniqExact(session_id) FROM warpline.memory_events)",
		"305")
	settled(t, dir)

	t.Run("a tenant asks in SQL", func(t *testing.T) {
		for _, c := range []struct {
			path, tenant, scope string
			status              int
			says                string
		}{
			{"/clickhouse/", "default", "read", 200, "default"}, {"/clickhouse", "acme", "read", 200, ""},
			{"/clickhouse/", "default", "ingest", 403, "scope ingest"}, {"/clickhouse/", "", "", 401, "a key"},
			{"/", "default", "read", 200, "default"}, // of drivers that know no path
		} {
			secret := "none"
			if c.tenant != "" {
				secret = strings.TrimSpace(runIn(t, nil, "key", "create", c.tenant, "--scope", c.scope, "--data", dir).stdout)
			}
			req, err := http.NewRequest(http.MethodPost, "http://"+r.Gateway+c.path,
				strings.NewReader("SELECT DISTINCT tenant FROM memory_events"))
			if err != nil {
				t.Fatal(err)
			}
			req.SetBasicAuth(c.tenant, secret)
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || res.StatusCode != c.status || !strings.Contains(string(body), c.says) || c.says == "" && len(body) > 0 {
				t.Errorf("%s, scope %s: %d %s %v", c.tenant, c.scope, res.StatusCode, body, err)
			}
		}
	})

	if got := runIn(t, nil, "doctor", "--data", dir); got.code != exitOK || !strings.Contains(got.stdout, "ok  schema") ||
		!strings.Contains(got.stdout, "16 slots for tenants, each sees its own rows of ") ||
		!strings.Contains(got.stdout, "NATS syncs every 10s") {
		t.Errorf("doctor of a healthy service: %+v", got)
	}

	const trace, long = "dbca9991-838e-4545-b1e3-570e3dac0e39", "mem:sim-host:3975:sim-job-7:1"
	for _, c := range []struct {
		asked  string
		found  string // the whole id, "" for several
		memory bool
	}{
		{"dbca", trace, false}, {"sim-host:3975:s", long, true}, {"mem:sim-ho…b-7:1", long, true}, {"mem:sim", "", true},
	} {
		t.Run(c.asked, func(t *testing.T) {
			command := []string{"report"}
			if c.memory {
				command = []string{"report", "memory"}
			}
			got := runIn(t, nil, append(command, "--session", c.asked, "--data", dir, "--json")...)
			var of struct {
				Sessions, Series []struct {
					ID string `json:"session_id"`
				}
			}
			if err := json.Unmarshal([]byte(got.stdout), &of); err != nil || got.code != exitOK {
				t.Fatalf("%v: %+v", err, got)
			}
			ids := map[string]bool{}
			for _, s := range append(of.Sessions, of.Series...) {
				ids[s.ID] = true
			}
			if c.found != "" && (len(ids) != 1 || !ids[c.found]) || c.found == "" && len(ids) < 2 {
				t.Errorf("report shows %v", ids)
			}
			export := runIn(t, nil, "session", "export", "default", c.asked, "--tables", "sessions", "--data", dir)
			if c.found == "" {
				if export.code != exitUsage || export.stdout != "" || !strings.Contains(export.stderr, "write more of it") {
					t.Errorf("%+v", export)
				}
			} else if export.code != exitOK || !strings.Contains(export.stdout, `"`+c.found+`"`) {
				t.Errorf("%+v", export)
			}
		})
	}
	for _, whole := range []string{trace, long} {
		if got := runIn(t, nil, "session", "export", "default", whole, "--tables", "sessions", "--data", dir); got.code != exitOK ||
			!strings.Contains(got.stdout, `"`+whole+`"`) {
			t.Errorf("%+v", got)
		}
	}
	for _, unknown := range []string{"nosuch", "dbca…nosuch", "%", "mem:sim_host"} {
		if got := runIn(t, nil, "session", "export", "default", unknown, "--tables", "sessions", "--data", dir); got.code != exitFailed {
			t.Errorf("%s: %+v", unknown, got)
		}
	}
}
