// Package enginetest gives tests a real ClickHouse engine.
package enginetest

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/warpline/warpline/sink/engine"
)

// Start runs an engine of the test's own in a temporary folder and stops it when the test ends.
// See Need for tests that cannot have the library.
func Start(t testing.TB) *engine.Engine {
	t.Helper()
	Need(t)
	e := start(t, t.TempDir(), false)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		defer cancel()
		_ = e.Stop(ctx) // a test may have killed it on purpose
	})
	return e
}

var (
	sharedOnce   sync.Once
	sharedEngine *engine.Engine
)

// Shared is one engine for all tests of a test binary, started by the first that asks. Tests that
// share it use databases of their own. It ends with the process, whose death closes its stdin, and
// removes its folder as it ends. What a killed engine left (warpline-engine-* in the system's
// temporary folder) the next Shared removes.
func Shared(t testing.TB) *engine.Engine {
	t.Helper()
	Need(t)
	sharedOnce.Do(func() {
		sweep()
		dir, err := os.MkdirTemp("", sharedPrefix)
		if err != nil {
			t.Fatal(err)
		}
		sharedEngine = start(t, dir, true)
	})
	if sharedEngine == nil {
		t.Fatal("the shared ClickHouse engine did not start; the first test that asked for it says why")
	}
	return sharedEngine
}

func start(t testing.TB, dir string, temporary bool) *engine.Engine {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // the first start ever fetches the library
	defer cancel()
	e, err := engine.Start(ctx, engine.Config{Dir: dir, Temporary: temporary, Readable: "*", Progress: os.Stderr})
	if err != nil {
		t.Fatalf("no ClickHouse engine for this test: %v", err)
	}
	return e
}
