package enginetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/warpline/warpline/sink/engine"
)

// Switch is the environment variable that says what tests that need ClickHouse do: "off" skips them, "on" makes them fail if they cannot
// have it. Unset, the library comes from the cache, WARPLINE_LIBCHDB or npm, and without all three those tests are skipped.
const Switch = "WARPLINE_TEST_ENGINE"

// verdict is why tests that need ClickHouse are skipped in this test binary, or why they fail.
var verdict = sync.OnceValues(func() (skip, fail error) {
	v := os.Getenv(Switch)
	switch v {
	case "off":
		skip = fmt.Errorf("%s=off: skipped, since it needs ClickHouse", Switch)
	case "", "on":
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // the first ever fetches the library
		defer cancel()
		_, err := engine.Locate(ctx, os.Stderr)
		if v == "" && absent(err) {
			skip = fmt.Errorf("skipped, since it needs ClickHouse: %w; %s=on makes this a failure", err, Switch)
		} else if err != nil {
			fail = fmt.Errorf("no ClickHouse engine for this test: %w; %s=off skips it", err, Switch)
		}
	default:
		fail = fmt.Errorf("%s=%q: say on or off, or unset it", Switch, v)
	}
	if skip != nil {
		fmt.Fprintln(os.Stderr, "tests that need ClickHouse:", skip)
	}
	return skip, fail
})

// absent reports whether this machine has none of the three ways to the library. If it has one and that is broken, tests fail.
func absent(err error) bool {
	_, npm := exec.LookPath("npm")
	return errors.Is(err, engine.ErrLibrary) && os.Getenv(engine.LibraryEnv) == "" && npm != nil
}

// Need skips a test that needs ClickHouse, or fails it, where Switch or the machine says so. Start and Shared call it; a test that starts
// an engine by other means calls it first. Safe for concurrent use.
func Need(t testing.TB) {
	t.Helper()
	skip, fail := verdict()
	if skip != nil {
		t.Skip(skip)
	}
	if fail != nil {
		t.Fatal(fail)
	}
}
