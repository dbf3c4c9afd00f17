package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Noisy is a quiet tenant beside others that do all they can, one after the other.
const Noisy Workload = "noisy"

// What the quiet tenant sends, in all its sessions: of each a window each half second. There are enough windows for a 99th percentile.
const (
	quietRate     = 4_000 // kernel rows a second
	quietSessions = 8
)

// NoisyOptions say what RunNoisy measures. The zero value measures every neighbour.
type NoisyOptions struct {
	Seed uint64
	// For is how long the quiet tenant sends beside each neighbour (0: 20 s).
	For time.Duration
	// Only are the neighbours to measure, by name; none: all.
	Only []string
	// Sessions are those that neighbour sessions has before (0: 20,000), Deletions those that neighbour deletions deletes (0: 10,000).
	Sessions, Deletions int

	Dir string // for windows; the caller removes it
	// Progress is called with what is being done; it may be nil.
	Progress func(phase string, done, of int64)
}

// NoisyResult is what RunNoisy measured.
type NoisyResult struct {
	Workload   Workload `json:"workload"`
	Seed       uint64   `json:"seed"`
	Machine    Machine  `json:"machine"`
	Neighbours []Beside `json:"neighbours"` // the first is none: the quiet tenant alone
	Wrong      []string `json:"wrong,omitempty"`
}

// Beside is what the quiet tenant saw beside one neighbour, and what the neighbour sent meanwhile.
type Beside struct {
	Neighbour string   `json:"neighbour"`
	Quiet     *Latency `json:"quiet"`
	// Refused are answers to the quiet tenant that were no success, by HTTP status; 0: none came.
	Refused map[int]int `json:"refused,omitempty"`
	Answers map[int]int `json:"answers,omitempty"` // to the neighbour, by HTTP status
	RawSent int64       `json:"raw_bytes_sent"`    // by the neighbour, before compression
	Did     string      `json:"did,omitempty"`     // what the neighbour did, where answers do not say it

	sent Counts // of the quiet tenant
}

// Neighbours are the names that NoisyOptions.Only takes.
func Neighbours() (names []string) {
	for i := range neighbours {
		names = append(names, neighbours[i].name)
	}
	return names
}

// RunNoisy measures the quiet tenant alone, and then beside each neighbour, on a service of the bench's own.
func RunNoisy(ctx context.Context, svc *Service, o NoisyOptions) (*NoisyResult, error) {
	if svc.cmd == nil {
		return nil, errors.New("neighbours are measured on a service of the bench's own")
	}
	if o.For <= 0 {
		o.For = 20 * time.Second
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	o.Sessions, o.Deletions = cmp.Or(o.Sessions, defaultSessions), cmp.Or(o.Deletions, defaultDeletions)
	r := &NoisyResult{Workload: Noisy, Seed: o.Seed, Machine: thisMachine()}
	quiet := *svc
	var err error
	if quiet.Key, err = svc.newKey(ctx, "quiet"); err != nil {
		return nil, err
	}
	for _, name := range append([]string{""}, o.Only...) {
		if i := slices.IndexFunc(neighbours, func(n neighbour) bool { return n.name == name }); name != "" && i < 0 {
			return nil, fmt.Errorf("neighbour %q: use one of %s", name, strings.Join(Neighbours(), ", "))
		}
	}
	var sent Counts
	run := func(n *neighbour) error {
		b, err := o.beside(ctx, &quiet, n)
		if err != nil {
			return fmt.Errorf("beside %s: %w", n.name, err)
		}
		r.Neighbours = append(r.Neighbours, *b)
		r.Wrong = append(r.Wrong, b.wrong()...)
		sent.Add(b.sent)
		o.Progress("count: "+n.name, 0, 0)
		for _, check := range []func() error{func() error { return quiet.exact(ctx, sent) }, func() error { return quiet.books(ctx) }} {
			err := check()
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				r.Wrong = append(r.Wrong, fmt.Sprintf("beside %s: %v", n.name, err))
			}
		}
		return nil
	}
	if err := run(&neighbour{name: "alone"}); err != nil {
		return nil, err
	}
	for i := range neighbours {
		n := &neighbours[i]
		if len(o.Only) > 0 && !slices.Contains(o.Only, n.name) {
			continue
		}
		if err := pause(ctx, settleFor); err != nil { // what the one before left
			return nil, err
		}
		if err := run(n); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// wrong says what no neighbour may cause.
func (b *Beside) wrong() (out []string) {
	if n := b.Refused[503]; n > 0 {
		out = append(out, fmt.Sprintf("beside %s the quiet tenant got 503 %d times", b.Neighbour, n))
	}
	return out
}

// beside measures the quiet tenant while a neighbour is at work. That all of its rows are counted is what ends the measurement.
func (o NoisyOptions) beside(ctx context.Context, quiet *Service, n *neighbour) (*Beside, error) {
	dir, err := os.MkdirTemp(o.Dir, "neighbour-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	o.Progress("generate: "+n.name, 0, 0)
	d, err := Generate(ctx, latencyConfig(Config{Workload: Columnar, Sessions: quietSessions, Seed: o.Seed, Run: "quiet/" + n.name},
		quietRate, o.For), dir, nil)
	if err != nil {
		return nil, err
	}
	noise, err := o.noise(ctx, quiet, n, dir)
	if err != nil {
		return nil, err
	}
	if n.before != nil {
		o.Progress("prepare: "+n.name, 0, 0)
		if err := n.before(ctx, noise); err != nil {
			return nil, err
		}
		noise.sender.answers = nil
		noise.raw.Store(0)
	}
	o.Progress("measure: "+n.name, 0, 0)
	loud, stop := context.WithCancel(ctx)
	defer stop()
	var at sync.WaitGroup
	var failed error
	if n.load != nil {
		at.Go(func() {
			if err := n.load(loud, noise); err != nil && loud.Err() == nil {
				failed = err
			}
		})
		if err := pause(ctx, time.Second); err != nil { // it is in full swing when the quiet tenant begins
			return nil, err
		}
	}
	b := &Beside{Neighbour: n.name, sent: d.Counts}
	b.Quiet, b.Refused, err = runQuiet(ctx, quiet, d)
	stop()
	at.Wait()
	if err == nil {
		err = failed
	}
	if err == nil && n.after != nil {
		o.Progress("wait: "+n.name, 0, 0)
		err = n.after(ctx, noise)
	}
	if noise != nil {
		b.Answers, b.RawSent, b.Did = noise.sender.answers, noise.raw.Load(), noise.said
		noise.sender.close()
	}
	return b, err
}

// runQuiet sends d and measures; refused are the answers that were no success.
func runQuiet(ctx context.Context, quiet *Service, d *Data) (l *Latency, refused map[int]int, err error) {
	l, answers, err := sendLatency(ctx, quiet, d, quietRate, func(int64, int64) {})
	refused = map[int]int{}
	for status, n := range answers {
		if status/100 != 2 {
			refused[status] = n
		}
	}
	return l, refused, err
}

// exact waits until SQL says of the quiet tenant what was sent, in rows and in the rollup, and fails if it does not.
func (s *Service) exact(ctx context.Context, sent Counts) error {
	for began := time.Now(); ; {
		got, err := s.Read.numbers(ctx, "SELECT (SELECT count() FROM kernels_data WHERE tenant = 'quiet'), "+
			"(SELECT toUInt64(sum(duration_ns)) FROM kernels_data WHERE tenant = 'quiet'), "+
			"(SELECT toUInt64(sum(calls)) FROM kernel_stats_data WHERE tenant = 'quiet')")
		if err != nil {
			return err
		}
		if want := []int64{sent.Kernels, sent.KernelNS, sent.Kernels}; !slices.Equal(got, want) {
			if time.Since(began) < rollupsWithin {
				if err := pause(ctx, 200*time.Millisecond); err != nil {
					return err
				}
				continue
			}
			return fmt.Errorf("SQL counts %v of the quiet tenant (kernels, their ns, kernels in the rollup), and %v were sent", got, want)
		}
		return nil
	}
}

// rollupsWithin is how long rollups may take after their rows, booksWithin how long the service may take to come to rest.
const rollupsWithin, booksWithin = time.Minute, 3 * time.Minute

// books fails unless the audit of all tenants holds once the service is at rest. That a flood cut the replay window is what a flood does.
func (s *Service) books(ctx context.Context) error {
	for began := time.Now(); ; {
		err := s.warpline(ctx, "audit")
		if err == nil || windowsAlone(err.Error()) {
			return nil
		}
		if time.Since(began) > booksWithin || ctx.Err() != nil {
			return err
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

// windowsAlone reports whether all that an audit says is wrong are replay windows.
func windowsAlone(said string) bool {
	_, wrong, found := strings.Cut(said, "the books do not balance")
	_, wrong, _ = strings.Cut(strings.TrimSpace(wrong), "\n")
	for line := range strings.Lines(wrong) {
		found = found && strings.HasPrefix(strings.TrimSpace(line), "replay window: ")
	}
	return found && wrong != ""
}

// warpline runs a command on the service's folder.
func (s *Service) warpline(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, s.cmd.Path, append(args, "--data", filepath.Dir(s.log))...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("warpline %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
