package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// What was refused is sent again: refused again it keeps its place, and once it can be read it is stored, once, also when two do it at the
// same time. The books balance.
func TestRejectReplay(t *testing.T) {
	dir := dataFolder(t)
	_, _, sql := serving(t, dir)
	run := runAt(t, dir)
	run(exitOK, "tenant", "create", "default", "--limit-line", "1KiB")
	time.Sleep(500 * time.Millisecond) // gateways know within 10 s; a watch is faster
	run(exitFailed, "send", "../../testdata/gpuflight/trace_default")
	const session = "dbca9991-838e-4545-b1e3-570e3dac0e39"
	eventually(t, sql, "SELECT sum(rejected) > 400 FROM warpline.usage", "1")
	settled(t, dir) // rejects may come after that

	type reject struct {
		ID       string `json:"reject_id"`
		Stage    string
		Attempts int
		Events   int
		Taken    bool
	}
	list := func(args ...string) (all []reject) {
		t.Helper()
		got := runIn(t, nil, append(append([]string{"reject"}, args...), "--session", session, "--json", "--data", dir)...)
		for line := range strings.Lines(got.stdout) {
			var one reject
			if err := json.Unmarshal([]byte(line), &one); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			all = append(all, one)
		}
		return all
	}
	before := list("list")
	if len(before) < 10 || before[0].Stage != "door" || before[0].Attempts != 0 {
		t.Fatalf("%d rejects: %+v", len(before), before)
	}
	if got := run(exitOK, "reject", "show", before[0].ID[:8]); !strings.Contains(got.stdout, before[0].ID) ||
		!strings.Contains(got.stdout, `"session_id"`) {
		t.Errorf("%+v", got)
	}
	run(exitUsage, "reject", "replay")
	run(exitUsage, "reject", "show", "no-id")
	run(exitFailed, "reject", "show", "0000")
	run(exitFailed, "reject", "replay", "--session", session)
	again := list("list")
	if len(again) != len(before) {
		t.Errorf("%d rejects after a replay that was refused, before it %d", len(again), len(before))
	}
	for _, one := range again {
		if one.Attempts != 1 {
			t.Errorf("%+v", one)
		}
	}

	run(exitOK, "tenant", "set", "default", "--limit-line", "0")
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); { // until the gateway knows of the change
		var two sync.WaitGroup
		for range 2 {
			two.Go(func() { runIn(t, nil, "reject", "replay", "--session", session, "--data", dir) })
		}
		two.Wait()
		if query(t, sql, "SELECT min(replayed_at) > '2020-01-01' FROM warpline.rejects WHERE session_id = '"+session+"'") == "1" {
			break
		}
	}
	eventually(t, sql, "SELECT sum(kernels) FROM warpline.sessions WHERE session_id = '"+session+"'", "300")
	eventually(t, sql, "SELECT count() FROM warpline.kernels WHERE session_id = '"+session+"'", "300")
	eventually(t, sql, fmt.Sprintf("SELECT uniqExact(reject_id) = %d AND min(attempts) >= 2 AND min(replayed_at) > '2020-01-01' FROM "+
		"warpline.rejects WHERE session_id = '%s'", len(before), session), "1")
	for _, one := range list("replay") {
		if one.Taken {
			t.Errorf("taken twice: %+v", one)
		}
	}
	balanced(t, "--data", dir)
}
