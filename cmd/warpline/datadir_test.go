package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warpline/warpline/cmd/warpline/service"
)

// What a killed process wrote of itself leads nobody astray once the next one has the folder.
func TestStaleAddressesGoWithTheLock(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "warpline.json")
	if err := os.WriteFile(stale, []byte(`{"pid":1,"nats":"nats://127.0.0.1:1","clickhouse":"127.0.0.1:1","clickhouse_http":"127.0.0.1:1"}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	if got := runIn(t, nil, "report", "--data", dir); got.code != exitUnreachable || !strings.Contains(got.stderr, "no warpline runs on") {
		t.Errorf("with nobody there: %+v", got)
	}
	d, err := service.Hold(dir)
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
	d.Release()
	if service.Held(dir) {
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
