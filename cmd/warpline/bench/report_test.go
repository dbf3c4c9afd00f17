package bench

import (
	"strings"
	"testing"
	"time"
)

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		f    Figure
		want string
	}{
		{Figure{Value: 2e6, Floor: 1e6, Goal: 2e6}, "goal"},
		{Figure{Value: 1.5e6, Floor: 1e6, Goal: 2e6}, "floor"},
		{Figure{Value: 1e6, Floor: 1e6, Goal: 2e6}, "floor"},
		{Figure{Value: 0.9e6, Floor: 1e6, Goal: 2e6}, "below"},
		{Figure{Value: 1, Floor: 5, Goal: 1.5, LessGood: true}, "goal"},
		{Figure{Value: 1.5, Floor: 5, Goal: 1.5, LessGood: true}, "goal"},
		{Figure{Value: 4, Floor: 5, Goal: 1.5, LessGood: true}, "floor"},
		{Figure{Value: 5.1, Floor: 5, Goal: 1.5, LessGood: true}, "below"},
		{Figure{Value: 7}, ""},
	} {
		if got := c.f.Verdict(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.f, got, c.want)
		}
	}
}

func TestRankIsNearest(t *testing.T) {
	var v []time.Duration
	if rank(v, 0.5) != 0 {
		t.Error("percentile of nothing")
	}
	for i := range 100 {
		v = append(v, time.Duration(i+1))
	}
	for q, want := range map[float64]time.Duration{0.5: 50, 0.99: 99, 0.991: 100, 1: 100, 0.001: 1} {
		if got := rank(v, q); got != want {
			t.Errorf("rank %v of 1 to 100 is %d, want %d", q, got, want)
		}
	}
}

func TestFiguresOfAWorkload(t *testing.T) {
	r := Result{Workload: Columnar, KernelsPerSecond: 1.7e6, IdleBytes: 300e6, IdleFiles: 200e6,
		Load: &Load{RolesPeakBytes: 2e9, EnginePeakBytes: 1e9, PeakBytes: 3e9, FileBytes: 250e6}, Ready: 2 * time.Second,
		Latency: &Latency{Rate: 0.75e6, Visible99: 6 * time.Second}, Rest: &Rest{KernelRows: 10, KernelBytes: 55}, Visible: time.Second,
		Counts: Counts{Kernels: 10}}
	r.Figures = r.figures()
	var b strings.Builder
	if err := r.Print(&b); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"memory peak: roles 2.00 GB, engine 1.00 GB; 250.00 MB of it are pages of files, above all code; idle: 300.00 MB, 200.00 MB of it",
		"columnar kernel rows, end to end  1.70 M/s 1.65 M/s 2.00 M/s floor",
		"accepted to visible in SQL, p99 at 750 k rows/s 6.00 s 3.00 s 1.00 s below",
		"bytes at rest per kernel row (kernels_data) 5.50 B 6.60 B 5.50 B goal",
		"memory of up, idle (engine included) 300.00 MB 350.00 MB 300.00 MB goal",
		"memory of up, peak at full load (engine included) 3.00 GB 1.30 GB 1.00 GB below",
		"up ready, library cached, empty folder 2.00 s 3.00 s 1.00 s floor",
	} {
		if !strings.Contains(strings.Join(strings.Fields(b.String()), " "), strings.Join(strings.Fields(line), " ")) {
			t.Errorf("no line %q in\n%s", line, b.String())
		}
	}
	shortOnes := Result{Workload: Columnar, Sessions: 10000, KernelsPerSecond: 250e3, Counts: Counts{Kernels: 4e6, Windows: 40000},
		Load: &Load{RolesCPU: 20 * time.Second, EngineCPU: 10 * time.Second}}
	for i, want := range []string{"columnar kernel rows in short sessions, end to end 250 k/s below", "CPU for each window 0.75 ms floor"} {
		if f := shortOnes.figures()[i]; f.Name+" "+f.show(f.Value)+" "+f.Verdict() != want {
			t.Errorf("%+v, want %q", f, want)
		}
	}
	r.Latency.Rate = 1.4e6 // nearly full load: the floor is for half of it
	for _, f := range r.figures() {
		if strings.Contains(f.Name, "p99") && f.Verdict() != "" {
			t.Error("a verdict on latency at another load than half")
		}
	}
}

func TestPriceOfFsync(t *testing.T) {
	os := &Result{Workload: Full, KernelsPerSecond: 800e3, Posted: 2 * time.Second, Visible: 4 * time.Second,
		Load: &Load{RolesCPU: 3 * time.Second, EngineCPU: time.Second}}
	fsync := &Result{Workload: Full, KernelsPerSecond: 200e3, Posted: 3 * time.Second, Visible: 16 * time.Second,
		Load:    &Load{RolesCPU: 4 * time.Second, EngineCPU: time.Second},
		Latency: &Latency{Visible99: time.Second}}
	var b strings.Builder
	if err := PrintPrice(&b, os, fsync); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"PRICE OF FSYNC, full", "800 k rows/s", "200 k rows/s", "-75 %", "+50 %", "+300 %", "+25 %"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "p99") {
		t.Errorf("a latency that one of them lacks is compared:\n%s", b.String())
	}
}
