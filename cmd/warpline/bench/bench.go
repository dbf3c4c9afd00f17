// Package bench makes load as GPU Flight clients make it, sends it through a whole Warpline and measures what comes out: rows per
// second until SQL counts them, latency, memory, CPU and bytes at rest. It is what `warpline bench` runs.
//
// Start with Generate, which writes windows to files before any clock runs, and Run, which sends them and measures. What the bench
// data looks like is fixed (500 kernel names of 70 to 90 characters drawn by Zipf(1.1), log-normal durations around each kernel's own
// median, exponential gaps, 4 streams, rising corr ids), so that figures mean the same everywhere; the same Config makes the same bytes.
package bench

import (
	"fmt"
	"time"
)

// Workload names a mix of lines.
type Workload string

const (
	// Columnar is only kernel rows: the 8 columns of the first columnar clients in batches of 512 rows, no details.
	Columnar Workload = "columnar"
	// Full is today's client: 10 columns in batches of 2048 rows and one kernel_detail line a kernel.
	Full Workload = "full"
	// Mixed is Full with memory copies, scopes, PC samples and metrics in the proportions of the reference hour.
	Mixed Workload = "mixed"
	// Hour is exactly the reference hour: one session with 100 000 kernels, 7 200 system samples, 10 000 scope pairs and 50 000 PC-sampling
	// rows over an hour of event time, in the shape of Columnar.
	Hour Workload = "hour"
)

// The reference hour. A system sample is one row of host metrics and one of device metrics.
const (
	HourKernels       = 100_000
	HourSystemSamples = 7_200
	HourScopePairs    = 10_000
	HourPCRows        = 50_000
)

// mixedMemcpys is memory copies per HourKernels kernels in Mixed. The reference hour does not say; an input pipeline with pinned buffers
// makes one copy to twenty kernels.
const mixedMemcpys = 5_000

// WindowBytes is where the client rotates a window, counted before compression and checked before a line is written: a window
// may be longer by one line.
const WindowBytes = 64 << 20

// Names is the number of distinct kernel names, Streams that of streams.
const (
	Names   = 500
	Streams = 4
)

// Sigma is the standard deviation of the logarithm of a kernel's durations.
const Sigma = 0.5

// Durations' medians lie between these, spread evenly on a logarithmic scale.
const (
	MinMedian = 2 * time.Microsecond
	MaxMedian = 2 * time.Millisecond
)

// Config says what to generate. The zero value is not valid: Workload and Kernels are required.
type Config struct {
	Workload Workload
	Kernels  int // in all sessions together; Hour has its own number
	Sessions int // 0: 8; Hour has 1
	// First is how many of the kernels the first session has (0: as many as the others).
	First int
	Seed  uint64
	// Run distinguishes sessions and windows of one seed, so that a service that remembers windows takes them for new ones.
	Run string
	// Start is the time of the first event (zero: a fixed day, so that equal seeds make equal bytes).
	Start time.Time
	// MeanGap is the mean time between kernel starts of one session (0: 100 us, which keeps the four streams busy; Hour has its own).
	MeanGap time.Duration
	// WindowBytes and WindowRows end a window: bytes before compression (0: WindowBytes), kernel rows (0: no such limit).
	WindowBytes int64
	WindowRows  int
}

// defaultStart is the time of the first event if Config does not set one.
var defaultStart = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// normal returns c with defaults filled in, or says what is wrong.
func (c Config) normal() (Config, error) {
	switch c.Workload {
	case Columnar, Full, Mixed:
	case Hour:
		c.Kernels, c.Sessions, c.MeanGap = HourKernels, 1, time.Hour/HourKernels
	default:
		return c, fmt.Errorf("workload %q: use columnar, full, mixed or hour", c.Workload)
	}
	if c.Sessions == 0 {
		c.Sessions = 8
	}
	if c.Sessions < 1 || c.Kernels < c.Sessions {
		return c, fmt.Errorf("%d kernels in %d sessions: each session needs at least one", c.Kernels, c.Sessions)
	}
	if c.First < 0 || c.First > 0 && c.Kernels-c.First < c.Sessions-1 {
		return c, fmt.Errorf("%d kernels in %d sessions, %d in the first: each session needs at least one", c.Kernels, c.Sessions, c.First)
	}
	if c.Start.IsZero() {
		c.Start = defaultStart
	}
	if c.MeanGap <= 0 {
		c.MeanGap = 100 * time.Microsecond
	}
	if c.WindowBytes <= 0 {
		c.WindowBytes = WindowBytes
	}
	return c, nil
}

// kernelsOf is how many kernels a session has, by its place.
func (c Config) kernelsOf(index int) int {
	all, sessions := c.Kernels, c.Sessions
	if c.First > 0 {
		if index == 0 {
			return c.First
		}
		all, sessions, index = all-c.First, sessions-1, index-1
	}
	n := all / sessions
	if index < all%sessions {
		n++
	}
	return n
}

// shape is what a workload's lines look like.
type shape struct {
	batchRows int  // kernel rows per batch
	today     bool // 10 columns rather than 8
	details   bool // a kernel_detail line follows for every row

	// per HourKernels kernels
	memcpys, scopePairs, pcRows, samples int
}

func (w Workload) shape() shape {
	switch w {
	case Full:
		return shape{batchRows: 2048, today: true, details: true}
	case Mixed:
		return shape{batchRows: 2048, today: true, details: true, memcpys: mixedMemcpys,
			scopePairs: HourScopePairs, pcRows: HourPCRows, samples: HourSystemSamples}
	case Hour:
		return shape{batchRows: 512, scopePairs: HourScopePairs, pcRows: HourPCRows, samples: HourSystemSamples}
	}
	return shape{batchRows: 512}
}

// Counts is what was generated, and so what SQL must count.
type Counts struct {
	Kernels    int64 `json:"kernels"`
	Details    int64 `json:"details"`
	Memcpys    int64 `json:"memcpys"`
	ScopePairs int64 `json:"scope_pairs"`
	PCRows     int64 `json:"pc_rows"`
	HostRows   int64 `json:"host_rows"`
	DeviceRows int64 `json:"device_rows"`

	KernelNS  int64 `json:"kernel_ns"`  // sum of kernel durations
	PCSamples int64 `json:"pc_samples"` // sum over PCRows
	Events    int64 `json:"events"`     // as limits count them: batch rows and lines that are not batches
	Lines     int64 `json:"lines"`
	RawBytes  int64 `json:"raw_bytes"` // before compression
	GzBytes   int64 `json:"gz_bytes"`
	Windows   int64 `json:"windows"`
}

// Add adds o to c.
func (c *Counts) Add(o Counts) {
	c.Kernels += o.Kernels
	c.Details += o.Details
	c.Memcpys += o.Memcpys
	c.ScopePairs += o.ScopePairs
	c.PCRows += o.PCRows
	c.HostRows += o.HostRows
	c.DeviceRows += o.DeviceRows
	c.KernelNS += o.KernelNS
	c.PCSamples += o.PCSamples
	c.Events += o.Events
	c.Lines += o.Lines
	c.RawBytes += o.RawBytes
	c.GzBytes += o.GzBytes
	c.Windows += o.Windows
}
