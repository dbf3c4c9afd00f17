package bench_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/cmd/warpline/bench"
	"github.com/warpline/warpline/sink/engine/enginetest"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// TestRun sends small workloads through a real `warpline up`, built for it, and believes its counts only if SQL repeats them.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts the program")
	}
	enginetest.Need(t)
	binary := filepath.Join(t.TempDir(), "warpline")
	if out, err := exec.Command("go", "build", "-o", binary, "..").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for _, o := range []bench.Options{
		{Config: bench.Config{Workload: bench.Hour, Seed: 1}, Rest: true, Schema: tabletest.Schema()},
		{Config: bench.Config{Workload: bench.Mixed, Kernels: 30_000, Sessions: 3, Seed: 2}, Rate: 20_000, LatencyFor: 2 * time.Second},
	} {
		t.Run(string(o.Config.Workload), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
			defer cancel()
			o.Dir = t.TempDir()
			svc, err := bench.Start(ctx, binary, filepath.Join(o.Dir, "data"))
			if err != nil {
				t.Fatal(err)
			}
			defer svc.Stop()
			r, err := bench.Run(ctx, svc, o)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range r.Wrong {
				t.Error(w)
			}
			if r.KernelsPerSecond <= 0 || len(r.Figures) == 0 {
				t.Errorf("nothing measured: %+v", r)
			}
			if runtime.GOOS == "linux" && (r.Load == nil || r.Load.RolesPeakBytes < 10<<20 || r.Load.EnginePeakBytes < 50<<20 ||
				r.IdleBytes < 50<<20) {
				t.Errorf("memory: idle %d, load %+v", r.IdleBytes, r.Load)
			}
			if o.Rest {
				if r.Rest == nil || r.Rest.KernelRows != bench.HourKernels || r.Rest.Total <= r.Rest.KernelBytes || r.Rest.Coarse <= 0 ||
					r.Rest.Coarse >= r.Rest.Total {
					t.Errorf("at rest: %+v", r.Rest)
				}
			}
			if l := r.Latency; o.Rate > 0 && (l == nil || l.Windows < 9 || l.Visible99 <= 0 || l.Visible99 > l.VisibleMax ||
				l.Visible50 > l.Visible99) {
				t.Errorf("latency: %+v", l)
			}
			if left, err := filepath.Glob(filepath.Join(o.Dir, string(o.Config.Workload)+"-*")); err != nil || len(left) > 0 {
				t.Errorf("windows are left behind: %v %v", left, err)
			}
			if _, err := os.Stat(filepath.Join(o.Dir, "data", "warpline.json")); err != nil {
				t.Errorf("the service is gone: %v", err)
			}
		})
	}
	t.Run("noisy", func(t *testing.T) { noisy(t, binary) })
}

// noisy measures a quiet tenant beside a neighbour, for a moment.
func noisy(t *testing.T, binary string) {
	dir := t.TempDir()
	svc, err := bench.Start(t.Context(), binary, filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	defer svc.Stop()
	if _, err := bench.RunNoisy(t.Context(), svc, bench.NoisyOptions{Only: []string{"calm"}, Dir: dir}); err == nil {
		t.Error("a neighbour that there is not was measured")
	}
	r, err := bench.RunNoisy(t.Context(), svc, bench.NoisyOptions{Seed: 3, For: 2 * time.Second, Dir: dir,
		Only: []string{"rejects", "sessions", "deletions", "sql"}, Sessions: 100, Deletions: 100})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Wrong) > 0 || len(r.Neighbours) != 5 {
		t.Fatalf("%d measured; wrong: %v", len(r.Neighbours), r.Wrong)
	}
	for _, n := range r.Neighbours {
		if n.Quiet.Windows < 4 || n.Quiet.Visible99 <= 0 || n.Quiet.Accepted99 <= 0 || len(n.Refused) > 0 {
			t.Errorf("beside %s: %+v, refused %v", n.Neighbour, n.Quiet, n.Refused)
		}
	}
	for _, n := range r.Neighbours[1:] {
		if n.Neighbour == "deletions" && n.Answers[200] != 100 || n.Answers[200] == 0 && n.Neighbour != "sql" ||
			n.RawSent == 0 && (n.Neighbour == "rejects" || n.Neighbour == "sessions") {
			t.Errorf("the neighbour was silent: %+v", n)
		}
	}
	var table strings.Builder
	if err := r.Print(&table); err != nil || !strings.Contains(table.String(), "\nrejects ") {
		t.Errorf("%v\n%s", err, table.String())
	}
}
