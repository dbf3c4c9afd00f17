package service

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// Who looks for a service that does not run gets an error of its own type, which commands give an exit code; and a folder that
// another process holds, and that does not say where, is asked again later.
func TestNobodyIsUnreachable(t *testing.T) {
	starting := t.TempDir()
	d, err := Hold(starting)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Release()
	for dir, want := range map[string][2]string{
		filepath.Join(t.TempDir(), "none"): {"nothing at", "no warpline runs on"},
		starting:                           {"is starting or stopping: try again", "is starting or stopping: try again"},
	} {
		_, noNATS := Connect(t.Context(), dir, NATS{})
		_, noClickHouse := ReaderOf(dir, "warpline")
		for i, err := range []error{noNATS, noClickHouse} {
			var away Unreachable
			if !errors.As(err, &away) || !strings.Contains(err.Error(), want[i]) {
				t.Errorf("%v, want an Unreachable with %q", err, want[i])
			}
		}
	}
	if _, err := (ClickHouse{Native: "127.0.0.1:1"}).Open(t.Context()); !errors.As(err, new(Unreachable)) {
		t.Errorf("of a ClickHouse that is not there: %v", err)
	}
}
