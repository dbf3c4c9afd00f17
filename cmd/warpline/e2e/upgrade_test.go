package e2e_test

import (
	"context"
	"flag"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/sink/engine"
	"github.com/warpline/warpline/sink/engine/enginetest"
)

var upgradeFrom = flag.String("upgrade-from", "81e88a7", "commits that TestUpgrade begins with, separated by commas; the long form: "+
	"81e88a7,1e9d7da,60a5375,882ac58,8578aa5")

// buildOf builds the binary of an old commit from the repository's history.
func buildOf(t *testing.T, commit string) string {
	t.Helper()
	root, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		t.Skipf("no git repository: %v", err)
	}
	top := strings.TrimSpace(string(root))
	if err := exec.Command("git", "-C", top, "cat-file", "-e", commit+"^{commit}").Run(); err != nil {
		t.Skipf("commit %s is not in this repository's history (a shallow clone?)", commit)
	}
	dir := t.TempDir()
	if out, err := exec.Command("sh", "-c", `git -C "$0" archive "$1" | tar -x -C "$2"`, top, commit, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	old := filepath.Join(dir, "warpline-"+commit)
	build := exec.Command("go", "build", "-buildvcs=false", "-o", old, "./cmd/warpline")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build of %s: %v\n%s", commit, err, out)
	}
	return old
}

// Data that an older version has in NATS and ClickHouse under load, when all of it is killed, is gone on with by this one: what was
// acknowledged before and after is there once, windows that are sent again included.
func TestUpgrade(t *testing.T) {
	enginetest.Need(t)
	for _, commit := range strings.Split(*upgradeFrom, ",") {
		t.Run(commit, func(t *testing.T) {
			c := newClusterOf(t, buildOf(t, commit), 2)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			l := startLoad(ctx, t, c, *loadPause)
			time.Sleep(4 * time.Second)
			eventually(t, 3*time.Minute, "windows are acknowledged before", func() (bool, string) { return l.posted.Load() > 0, "" })
			for _, name := range []string{"worker0", "worker1", "gateway", "sink", "engine", "nats"} {
				c.kill(name)
			}
			before := l.posted.Load()
			c.binary = ""
			c.start("nats")
			c.start("engine")
			c.waitReady("nats", 3*time.Minute)
			c.waitReady("engine", 3*time.Minute)
			for _, name := range []string{"sink", "worker0", "worker1", "gateway"} {
				c.start(name)
				c.waitReady(name, 3*time.Minute)
			}
			time.Sleep(3 * time.Second)
			eventually(t, 3*time.Minute, "windows are acknowledged after", func() (bool, string) { return l.posted.Load() > before, "" })
			want := l.stop()
			check(t, c, "dev", want, 3*time.Minute)
			checkGroups(t, c, "dev", l.oracle.groups)
			eventually(t, 3*time.Minute, "audit", func() (bool, string) {
				out, err := exec.Command(binary, "audit", "--nats", "nats://"+c.natsAddr, "--clickhouse", c.clickTCP, "--clickhouse-user", "warpline",
					"--clickhouse-password", c.secret(engine.WriterSecret)).CombinedOutput()
				return err == nil, string(out)
			})
		})
	}
}
