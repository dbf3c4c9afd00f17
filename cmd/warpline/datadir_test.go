package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a killed process wrote of itself leads nobody astray once the next one has the folder.
func TestStaleAddressesGoWithTheLock(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "warpline.json")
	if err := os.WriteFile(stale, []byte(`{"pid":1,"nats":"nats://127.0.0.1:1","clickhouse":"127.0.0.1:1","clickhouse_http":"127.0.0.1:1"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := runIn(t, nil, "report", "--data", dir); got.code != exitUnreachable || !strings.Contains(got.stderr, "no warpline runs on") {
		t.Errorf("with nobody there: %+v", got)
	}
	d, err := holdDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(stale); err == nil {
		t.Error("warpline.json of the killed process is still there")
	}
	for _, args := range [][]string{{"report"}, {"audit"}, {"key", "list"}, {"reject", "list"}} {
		got := runIn(t, nil, append(args, "--data", dir)...)
		if got.code != exitUnreachable || !strings.Contains(got.stderr, "is starting or stopping: try again") {
			t.Errorf("%v while it starts: %+v", args, got)
		}
	}
	d.release()
	if isHeld(dir) {
		t.Error("the folder is still held")
	}
}

func TestUnwritableFoldersAreNoWrongUsage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got := runIn(t, nil, upArgs(filepath.Join(file, "data"))...)
	if got.code != exitFailed || !strings.Contains(got.stderr, "that you may write with --data") || strings.Contains(got.stderr, "--help") {
		t.Errorf("%+v", got)
	}
	t.Setenv("TMPDIR", filepath.Join(file, "tmp"))
	got = runIn(t, nil, "demo")
	if got.code != exitFailed || !strings.Contains(got.stderr, "TMPDIR") || !strings.Contains(got.stderr, "--data") {
		t.Errorf("%+v", got)
	}
}

// send finds the gateway of the data folder that it takes the key from.
func TestGatewayOfADataFolder(t *testing.T) {
	const byDefault = "http://127.0.0.1:8080"
	d, err := holdDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if got, runs := gatewayURL(d.path); got != byDefault || runs {
		t.Errorf("before it has started: %s", got)
	}
	for _, c := range []struct {
		listens string
		tls     bool
		want    string
	}{
		{"127.0.0.1:18080", false, "http://127.0.0.1:18080"}, {"10.0.0.7:443", true, "https://10.0.0.7:443"},
		{"0.0.0.0:80", false, "http://127.0.0.1:80"}, {"[::]:80", false, "http://localhost:80"}, {"", false, byDefault},
	} {
		if err := d.publish(running{Gateway: c.listens, GatewayTLS: c.tls}); err != nil {
			t.Fatal(err)
		}
		if got, _ := gatewayURL(d.path); got != c.want {
			t.Errorf("listening on %q, TLS %t: %s, want %s", c.listens, c.tls, got, c.want)
		}
	}
	d.lock.Close() // killed: what it wrote is still there
	if got, runs := gatewayURL(d.path); got != byDefault || runs {
		t.Errorf("of a killed one: %s", got)
	}
}

// A secret survives in its file; an empty file, as a power cut left of one that was not synced, is replaced.
func TestSecretsOfTheFirstStart(t *testing.T) {
	d := &dataDir{path: t.TempDir()}
	first, err := d.secret("nats-token")
	if err != nil || len(first) < 20 {
		t.Fatalf("%q, %v", first, err)
	}
	if again, err := d.secret("nats-token"); err != nil || again != first {
		t.Errorf("%q became %q, %v", first, again, err)
	}
	for _, left := range []string{"", "\n"} {
		if err := os.WriteFile(d.file("nats-token"), []byte(left), 0o600); err != nil {
			t.Fatal(err)
		}
		made, err := d.secret("nats-token")
		if err != nil || len(made) < 20 || made == first {
			t.Errorf("in place of %q: %q, %v", left, made, err)
		}
	}
	info, err := os.Stat(d.file("nats-token"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(d.file("*.new")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// The first key's file is empty after a power cut of an older build: another key is made, and opens.
func TestFirstKeyIsMadeAnew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "key"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	up := launch(t, upArgs(dir)...)
	up.await(t, "msg=ready")
	key, err := os.ReadFile(filepath.Join(dir, "key"))
	if err != nil || len(strings.TrimSpace(string(key))) < 8 {
		t.Errorf("key: %q, %v", key, err)
	}
}
