package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/cmd/warpline/admin"
	"github.com/warpline/warpline/cmd/warpline/service"
	"github.com/warpline/warpline/proto/tenant"
)

// askAdmin sends a request to an admin API and returns the answer, which must have the status.
func askAdmin(t *testing.T, addr, key, method, path, body string, status int) (fields map[string]any, raw string) {
	t.Helper()
	req, err := http.NewRequest(method, "http://"+addr+admin.Path+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != status {
		t.Fatalf("%s %s: %d %s %v, want %d", method, path, res.StatusCode, text, err, status)
	}
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatalf("%s %s: %s: %v", method, path, text, err)
	}
	return fields, string(text)
}

// What was refused is sent again by an administrator of its tenant, over the API, and stored once; the books balance. What the API changes
// the commands show, and the other way round.
func TestAdminAPIReplaysRejects(t *testing.T) {
	dir := dataFolder(t)
	up := launch(t, upArgs(dir, "--admin-listen", "127.0.0.1:0")...)
	up.await(t, "msg=ready")
	at := regexp.MustCompile(`msg=ready .* admin=(127\S+)`).FindStringSubmatch(up.words.String())
	r, err := service.ReadRunning(dir)
	if err != nil || at == nil {
		t.Fatal(err, up.words.String())
	}
	sql := asReader(t, dir, r.ClickHouseHTTP)
	run := runAt(t, dir)
	operator := strings.TrimSpace(run(exitOK, "key", "create", "--operator").stdout)
	key := strings.TrimSpace(run(exitOK, "key", "create", "default", "--scope", "admin").stdout)
	askAdmin(t, r.Gateway, operator, "POST", "tenants", `{"name":"default","limit-line":1024}`, 201)
	if got := run(exitOK, "tenant", "show", "default"); !strings.Contains(got.stdout, "line 1KiB") {
		t.Error(got.stdout)
	}
	run(exitFailed, "send", "../../testdata/gpuflight/trace_default")
	const session = "dbca9991-838e-4545-b1e3-570e3dac0e39"
	eventually(t, sql, "SELECT sum(rejected) > 400 FROM warpline.usage", "1")
	settled(t, dir) // rejects may come after that

	order := `{"session_id":"` + session + `","limit":200}`
	outcomes := func(body string) (taken, left, refused int) {
		t.Helper()
		got, raw := askAdmin(t, at[1], key, "POST", "rejects/replay", body, 200)
		all, _ := got["outcomes"].([]any)
		for _, one := range all {
			switch o := one.(map[string]any); {
			case o["taken"] == true:
				taken++
			case o["left"] == true:
				left++
			default:
				refused++
			}
		}
		if len(all) == 0 || got["more"] == true {
			t.Fatal(raw)
		}
		return taken, left, refused
	}
	if taken, left, refused := outcomes(order); taken != 0 || left != 0 || refused == 0 {
		t.Errorf("while the limit holds: %d taken, %d left, %d refused", taken, left, refused)
	}
	run(exitOK, "tenant", "set", "default", "--limit-line", "0")
	if _, raw := askAdmin(t, r.Gateway, key, "GET", "tenants/default", "", 200); strings.Contains(raw, "limit") {
		t.Error(raw)
	}
	for deadline := time.Now().Add(3 * time.Minute); ; {
		if _, _, refused := outcomes(order); refused == 0 { // the gateway knows of the change within 10 s
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("they are refused although the limit is gone")
		}
	}
	eventually(t, sql, "SELECT count() FROM warpline.kernels WHERE session_id = '"+session+"'", "300")
	if taken, left, refused := outcomes(order); taken != 0 || left == 0 || refused != 0 {
		t.Errorf("taken before: %d taken, %d left, %d refused", taken, left, refused)
	}
	eventually(t, sql, "SELECT sum(kernels) FROM warpline.sessions WHERE session_id = '"+session+"'", "300")
	for _, k := range run(exitOK, "key", "list").lines() {
		if strings.Contains(k, "reject replay") && !strings.Contains(k, "revoked") {
			t.Errorf("a key of a replay is left: %s", k)
		}
	}
	balanced(t, "--data", dir)

	// Each change is in admin_log, once, whoever made it, and none of the others.
	id := func(secret string) string { return tenant.ID(secret) }
	eventually(t, sql, "SELECT countIf(action = 'reject replay' AND who = '"+id(key)+"') >= 3, countIf(who = 'cli' AND action = 'key create' "+
		"AND object = '"+id(key)+"'), countIf(who = '"+id(operator)+"' AND action = 'tenant create' AND object = 'default'), "+
		"countIf(who = 'cli' AND action = 'tenant set'), countIf(outcome != 'done'), countIf(object = '"+id(operator)+"' AND tenant = '') "+
		"FROM warpline.admin_log FORMAT CSV", "1,1,1,1,0,1")
	if got := query(t, sql, "SELECT change FROM warpline.admin_log WHERE action = 'tenant set'"); got !=
		`{"limit-line":[1024,null]}` {
		t.Error(got)
	}

	// A purge leaves it, and is in it.
	run(exitOK, "tenant", "purge", "default", "--revoke-keys", "--yes")
	eventually(t, sql, "SELECT countIf(action = 'tenant purge'), countIf(action = 'key revoke') = uniqExactIf(object, action = 'key revoke') "+
		"AND countIf(action = 'key revoke') >= 2, countIf(action = 'tenant set') FROM warpline.admin_log WHERE tenant = 'default' FORMAT CSV",
		"1,1,1")
	if got := query(t, sql, "SELECT count() FROM warpline.kernels"); got != "0" {
		t.Errorf("%s kernels after the purge", got)
	}
	balanced(t, "--data", dir)
}

func (r ran) lines() []string { return strings.Split(strings.TrimSpace(r.stdout), "\n") }

// The page's commands are run as they stand there.
func TestAdminCommandsOfThePage(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl here")
	}
	page, err := os.ReadFile("../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(page), "\n## Admin API\n")
	section, _, end := strings.Cut(section, "\n## ")
	if !ok || !end {
		t.Fatal("docs/operate.md has no section on the admin API")
	}
	dir := dataFolder(t)
	up, r, sql := serving(t, dir)
	assigned := regexp.MustCompile(`^(\w+)=\$\(\./warpline (.*?)\)`)
	plain := regexp.MustCompile(`^(\w+)=(\S+)$`)
	env, ran := os.Environ(), 0
	for line := range strings.Lines(section) {
		line, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
		if !ok {
			continue
		}
		line = strings.ReplaceAll(line, "127.0.0.1:8080", r.Gateway)
		if m := assigned.FindStringSubmatch(line); m != nil {
			got := runIn(t, nil, append(strings.Fields(m[2]), "--data", dir)...)
			if got.code != exitOK {
				t.Fatalf("%s: %+v", line, got)
			}
			env = append(env, m[1]+"="+strings.TrimSpace(got.stdout))
			continue
		}
		if m := plain.FindStringSubmatch(line); m != nil {
			env = append(env, m[1]+"="+m[2])
			continue
		}
		if strings.HasPrefix(line, "SELECT ") { // a question of the page, not a command
			if got := query(t, sql, line); got != "" {
				t.Errorf("%s: %s, and no such tenant was made", line, got)
			}
			continue
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("{")) {
			t.Errorf("%s: %v\n%s", line, err, out)
			for said := range strings.Lines(up.words.String()) {
				if strings.Contains(said, "not answered") {
					t.Log(said)
				}
			}
		}
		ran++
	}
	if ran < 8 {
		t.Errorf("only %d commands were found", ran)
	}
}
