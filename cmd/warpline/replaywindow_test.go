package main

import (
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/cmd/warpline/service"
	"github.com/warpline/warpline/proto/stream"
)

// The replay window is a promise. While less than half of it is there the audit fails and the doctor looks, both with what to do; a person
// accepts that, and a later cut is told again. More than half is a note.
func TestBrokenReplayWindowIsAFinding(t *testing.T) {
	dir := dataFolder(t)
	up := launch(t, upArgs(dir)...)
	up.await(t, "msg=ready")
	if _, err := service.ReadRunning(dir); err != nil {
		t.Fatal(err)
	}
	conn, err := (reachFlags{Data: dir}).connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	streams, err := conn.Streams(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// What an owner of another time notes, of a lane and a partition that no process of today has.
	rows := broker.NewWindows(streams.Marks, stream.RowsStream, 24*time.Hour, "sink", nil)
	ingest := broker.NewWindows(streams.Marks, stream.IngestStream, 24*time.Hour, "worker", nil)
	run := func(what string, code int, args ...string) ran {
		t.Helper()
		if code == exitOK && len(args) == 1 { // a plain audit may look while something is on its way
			return balanced(t, "--data", dir)
		}
		got := runIn(t, nil, append(args, "--data", dir)...)
		if got.code != code {
			t.Fatalf("%s: %v: %+v, want exit %d", what, args, got, code)
		}
		return got
	}
	doctor := func() string {
		t.Helper()
		for line := range strings.Lines(runIn(t, nil, "doctor", "--data", dir).stdout) {
			if strings.Contains(line, "replay-window") {
				return strings.Fields(line)[0]
			}
		}
		t.Fatal("the doctor says nothing of the replay window")
		return ""
	}
	run("nothing was cut", exitOK, "audit")
	if err := ingest.Cut(t.Context(), 99, time.Now().Add(-13*time.Hour)); err != nil {
		t.Fatal(err)
	}
	got := run("more than half is there", exitOK, "audit")
	if !strings.Contains(got.stderr, "note: INGEST has what was settled in the last 13h") || !strings.Contains(got.stdout, "SHORT") {
		t.Errorf("%+v", got)
	}
	if said := doctor(); said != "ok" {
		t.Errorf("the doctor says %s of more than half", said)
	}
	if err := rows.Cut(t.Context(), 99, time.Now().Add(-11*time.Hour)); err != nil {
		t.Fatal(err)
	}
	got = run("less than half is there", exitUnbalanced, "audit")
	if !strings.Contains(got.stderr, "replay window: ROWS has what was settled in the last 11h") ||
		!strings.Contains(got.stderr, "--rows-max") || strings.Contains(got.stderr, "note: ROWS") {
		t.Errorf("%+v", got)
	}
	if got := run("as JSON", exitUnbalanced, "audit", "--json"); !strings.Contains(got.stdout, `"Broken": true`) {
		t.Errorf("%+v", got)
	}
	if said := doctor(); said != "LOOK" {
		t.Errorf("the doctor says %s of less than half", said)
	}
	run("the books of a tenant are another thing", exitOK, "audit", "--tenant", "default")
	if got := run("accepted", exitOK, "audit", "--accept"); !strings.Contains(got.stderr, "accepted: replay window: ROWS has ") {
		t.Errorf("%+v", got)
	}
	if got := run("after that", exitOK, "audit"); !strings.Contains(got.stderr, "note: ROWS has what was settled in the last 11h") {
		t.Errorf("%+v", got)
	}
	if err := rows.Cut(t.Context(), 99, time.Now()); err != nil {
		t.Fatal(err)
	}
	run("cut again", exitUnbalanced, "audit")
}
