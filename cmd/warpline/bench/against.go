package bench

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"
)

// Recorded are figures of an earlier run, to compare others with.
type Recorded struct {
	About string `json:"about"` // when, where and of which build
	// Unpack is the speed of the machine then, as Unpack measures it: figures of two machines are compared by it.
	Unpack  float64          `json:"unpack_bytes_per_second"`
	Figures []RecordedFigure `json:"figures"`
}

// RecordedFigure is what one workload came to.
type RecordedFigure struct {
	Workload         Workload `json:"workload"`
	KernelsPerSecond float64  `json:"kernels_per_second"`
	CPUPerKernel     float64  `json:"cpu_ns_per_kernel"` // roles and engine; 0: not known
	PeakBytes        int64    `json:"peak_bytes"`        // 0: not known
}

// ReadRecorded reads a file that Recorded.Write wrote.
func ReadRecorded(path string) (*Recorded, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("recorded figures: %w", err)
	}
	r := &Recorded{}
	if err := json.Unmarshal(b, r); err != nil || r.Unpack <= 0 {
		return nil, fmt.Errorf("recorded figures: %s is not a file of --record: %v", path, err)
	}
	return r, nil
}

// Write writes the file.
func (r *Recorded) Write(path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// Add records a result.
func (r *Recorded) Add(x *Result) {
	f := RecordedFigure{Workload: x.Workload, KernelsPerSecond: x.KernelsPerSecond}
	if x.Load != nil && x.Counts.Kernels > 0 {
		f.CPUPerKernel = float64(x.Load.RolesCPU+x.Load.EngineCPU) / float64(x.Counts.Kernels)
		f.PeakBytes = x.Load.PeakBytes
	}
	r.Figures = append(r.Figures, f)
}

// Unpack measures this machine: bytes a second that the standard library's gzip unpacks on one core. It is work of the kind that Warpline
// does, and no change of Warpline changes it.
func Unpack() (bytesPerSecond float64, err error) {
	var plain, packed bytes.Buffer
	for i := range 100_000 {
		fmt.Fprintf(&plain, "[%d,%d,7,%d,%d,0,32,1],", i*997, i%500, i*31%4096, 100+i)
	}
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(plain.Bytes()); err != nil {
		return 0, err
	}
	if err := z.Close(); err != nil {
		return 0, err
	}
	for range 9 { // the fastest: others share the cores
		began := time.Now()
		for range 5 {
			r, err := gzip.NewReader(bytes.NewReader(packed.Bytes()))
			if err != nil {
				return 0, err
			}
			if _, err := io.Copy(io.Discard, r); err != nil {
				return 0, err
			}
		}
		bytesPerSecond = max(bytesPerSecond, 5*float64(plain.Len())/time.Since(began).Seconds())
	}
	return bytesPerSecond, nil
}

// PrintAgainst writes what now has come to in parts of what was recorded. Figures that depend on the machine's speed are corrected by
// Unpack; noise of 10 % is usual on shared cores.
func PrintAgainst(w io.Writer, now, then *Recorded) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	faster := now.Unpack / then.Unpack
	fmt.Fprintf(t, "AGAINST %s\tNOW\tRECORDED\tRATIO, of %.2f x its machine's speed\n", then.About, faster)
	for _, a := range now.Figures {
		for _, b := range then.Figures {
			if a.Workload != b.Workload {
				continue
			}
			name := string(a.Workload)
			row := func(what, now, then string, ratio float64) {
				fmt.Fprintf(t, "%s, %s\t%s\t%s\t%.2f\n", name, what, now, then, ratio)
			}
			row("kernels, end to end", rate(a.KernelsPerSecond)+"/s", rate(b.KernelsPerSecond)+"/s", a.KernelsPerSecond/b.KernelsPerSecond/faster)
			if a.CPUPerKernel > 0 && b.CPUPerKernel > 0 {
				row("CPU of a kernel", fmt.Sprintf("%.0f ns", a.CPUPerKernel), fmt.Sprintf("%.0f ns", b.CPUPerKernel),
					a.CPUPerKernel/b.CPUPerKernel*faster)
			}
			if a.PeakBytes > 0 && b.PeakBytes > 0 {
				row("peak memory", size(float64(a.PeakBytes)), size(float64(b.PeakBytes)), float64(a.PeakBytes)/float64(b.PeakBytes))
			}
		}
	}
	return t.Flush()
}
