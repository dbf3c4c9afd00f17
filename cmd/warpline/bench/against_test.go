package bench_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/cmd/warpline/bench"
)

// Figures of a machine that is twice as fast are halved before they are compared.
func TestFiguresAreComparedByTheMachinesSpeed(t *testing.T) {
	then := &bench.Recorded{About: "then", Unpack: 100e6}
	then.Add(&bench.Result{Workload: bench.Columnar, KernelsPerSecond: 1e6, Counts: bench.Counts{Kernels: 1e6},
		Load: &bench.Load{RolesCPU: time.Second, PeakBytes: 1e9}})
	path := filepath.Join(t.TempDir(), "figures.json")
	if err := then.Write(path); err != nil {
		t.Fatal(err)
	}
	then, err := bench.ReadRecorded(path)
	if err != nil {
		t.Fatal(err)
	}
	now := &bench.Recorded{Unpack: 200e6}
	now.Add(&bench.Result{Workload: bench.Columnar, KernelsPerSecond: 1.5e6, Counts: bench.Counts{Kernels: 1e6},
		Load: &bench.Load{RolesCPU: time.Second, PeakBytes: 1.1e9}})
	now.Add(&bench.Result{Workload: bench.Full, KernelsPerSecond: 1})
	var b strings.Builder
	if err := bench.PrintAgainst(&b, now, then); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2.00 x", "1.50 M/s  1.00 M/s  0.75", "1000 ns   1000 ns   2.00", "1.10 GB   1.00 GB   1.10"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "full") {
		t.Error("a workload is compared that was not recorded")
	}
	if _, err := bench.ReadRecorded(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there is read")
	}
	if n, err := bench.Unpack(); err != nil || n < 1e6 {
		t.Errorf("the machine unpacks %v bytes a second: %v", n, err)
	}
}

// The figures that CI compares with are there.
func TestRecordedFigures(t *testing.T) {
	r, err := bench.ReadRecorded("figures.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Figures) < 2 {
		t.Errorf("%d workloads are recorded", len(r.Figures))
	}
}
