package bench

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/warpline/warpline/proto/parca/parcatest"
)

// PC is program counter samples as Parca's agents send them, in Arrow batches over gRPC.
const PC Workload = "pc"

// PCOptions say what RunPC measures. The zero value is valid but for Dir.
type PCOptions struct {
	Seed uint64
	// Pairs are samples of an instruction for one reason, which is a row, to send with each size of batch (0: 2.5 M in small batches, 5 M in
	// large ones).
	Pairs int
	// Nodes, with Rate and For, asks for a fleet instead: agents that send Rate pairs a second together, each every five seconds.
	Nodes int
	Rate  float64
	For   time.Duration
	// Dir is for the batches, some 30 bytes a pair. The caller removes it.
	Dir string
	// Rest measures bytes at rest; it merges every table.
	Rest bool
	// Progress is called with what is being done and how far it is; it may be nil. It is called from several goroutines.
	Progress func(phase string, done, of int64)
}

// PCResult is what RunPC measured of one size of batch, or of a fleet. Durations are nanoseconds in JSON.
type PCResult struct {
	Workload  Workload `json:"workload"`
	Seed      uint64   `json:"seed"`
	Machine   Machine  `json:"machine"`
	Nodes     int      `json:"nodes"`
	BatchRows int      `json:"batch_rows"`
	Batches   int      `json:"batches"`
	Pairs     int64    `json:"pairs"`
	Bytes     int64    `json:"batch_bytes"` // of the batches, as sent
	Load      *Load    `json:"load,omitempty"`

	Posted         time.Duration `json:"posted_ns"`  // until the last batch was acknowledged
	Visible        time.Duration `json:"visible_ns"` // until SQL counted every pair
	PairsPerSecond float64       `json:"pairs_per_second"`
	Tries          int64         `json:"tries"` // calls, resends included

	// Of a fleet: from a batch's answer until SQL counted its pairs.
	Rate      float64       `json:"rate,omitempty"`
	Seen      int           `json:"seen,omitempty"` // batches whose way was watched
	Visible50 time.Duration `json:"visible_p50_ns,omitempty"`
	Visible99 time.Duration `json:"visible_p99_ns,omitempty"`
	VisibleMx time.Duration `json:"visible_max_ns,omitempty"`

	Buckets     int64       `json:"buckets"`      // rows of pc_buckets_data at rest
	BucketBytes int64       `json:"bucket_bytes"` // what they take
	RestBytes   int64       `json:"rest_bytes"`   // of all tables
	Tables      []TableSize `json:"tables,omitempty"`
	Wrong       []string    `json:"wrong,omitempty"`
}

// PCBatchRows are the sizes of batches of a run without a fleet: what a process makes in five seconds, and a busy node.
var PCBatchRows = []int{500, 5000}

var pcDefaultPairs = map[int]int{500: 2_500_000, 5000: 5_000_000}

// pcAgents is how many agents send in a run without a fleet.
const pcAgents = 64

// agentEvery is how often an agent sends.
const agentEvery = 5 * time.Second

// RunPC makes batches of rows rows, sends them to svc over gRPC and measures; rows is ignored of a fleet.
func RunPC(ctx context.Context, svc *Service, rows int, o PCOptions) (*PCResult, error) {
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	nodes, batches := pcAgents, cmp.Or(o.Pairs, pcDefaultPairs[rows], 2_500_000)/rows
	if o.Nodes > 0 {
		nodes = o.Nodes
		rows = max(1, int(o.Rate*agentEvery.Seconds())/nodes)
		batches = nodes * max(1, int(o.For/agentEvery))
	}
	d, err := generatePC(ctx, o.Seed, nodes, batches, rows, o.Dir, func(done, of int64) { o.Progress("generate", done, of) })
	if err != nil {
		return nil, err
	}
	defer d.close()
	r := &PCResult{Workload: PC, Seed: o.Seed, Machine: thisMachine(), Nodes: nodes, BatchRows: rows, Batches: len(d.batches), Pairs: d.pairs,
		Bytes: d.bytes, Rate: o.Rate}
	if err := pause(ctx, idleFor); err != nil {
		return nil, err
	}
	if err := r.send(ctx, svc, d, o); err != nil {
		return nil, err
	}
	sums, err := pcSums(ctx, svc.Read)
	if err != nil {
		return nil, err
	}
	if want := []int64{d.samples, d.gpuNS, d.pairs}; !slices.Equal(sums, want) {
		r.Wrong = append(r.Wrong, fmt.Sprintf("pc_samples: SQL answers %v, sent %v", sums, want))
	}
	stacks := want{"pc_stacks", "SELECT sum(samples) FROM pc_stacks WHERE reason_kind = 'stall'", []int64{d.stalls}}
	got, equal, err := stacks.ask(ctx, svc.Read)
	if err != nil {
		return nil, err
	}
	if !equal {
		r.Wrong = append(r.Wrong, fmt.Sprintf("%s: SQL answers %v, sent %v", stacks.name, got, stacks.numbers))
	}
	if o.Rest && svc.Write != nil {
		o.Progress("merge everything", 0, 0)
		rest, err := measureRest(ctx, *svc.Write, nil, false)
		if err != nil {
			return nil, err
		}
		r.RestBytes, r.Tables = rest.Total, rest.Tables
		for _, t := range rest.Tables {
			if t.Name == "pc_buckets_data" {
				r.Buckets, r.BucketBytes = t.Rows, t.Bytes
			}
		}
	}
	return r, nil
}

// pcSums adds up samples, gpu_ns and hits of the view pc_samples, minute by minute: the view makes a row for each bucket, and those of a
// fleet are more than a question may hold in memory.
func pcSums(ctx context.Context, sql SQL) ([]int64, error) {
	minutes, err := sql.rows(ctx, "SELECT toUnixTimestamp(bucket) AS minute FROM pc_buckets_data GROUP BY minute ORDER BY minute")
	if err != nil {
		return nil, fmt.Errorf("minutes of pc_buckets_data: %w", err)
	}
	sums := make([]int64, 3)
	for _, m := range minutes {
		got, err := sql.numbers(ctx,
			"SELECT sum(samples), sum(gpu_ns), sum(hits) FROM pc_samples WHERE bucket = toDateTime64("+m[0]+", 9, 'UTC')")
		if err != nil {
			return nil, fmt.Errorf("pc_samples: %w", err)
		}
		for i, n := range got {
			sums[i] += n
		}
	}
	return sums, nil
}

// send has every node's agent send its batches, at once or at its own five seconds, and waits until SQL counts them.
func (r *PCResult) send(ctx context.Context, svc *Service, d *pcData, o PCOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := measure(ctx, svc.PID)
	watch := newPCWatch(d, o.Nodes > 0)
	began := time.Now()
	if o.Nodes > 0 {
		began = began.Add(time.Second)
	}
	var tries atomic.Int64
	g, inner := errgroup.WithContext(ctx)
	for node := range d.nodes {
		g.Go(func() error {
			a, err := parcatest.Dial(svc.GRPC, svc.Key)
			if err != nil {
				return err
			}
			defer a.Close()
			defer func() { tries.Add(a.Tries.Load()) }()
			for n, i := range d.nodes[node] {
				if o.Nodes > 0 {
					due := began.Add(time.Duration(n)*agentEvery + agentEvery*time.Duration(node)/time.Duration(len(d.nodes)))
					if err := pause(inner, time.Until(due)); err != nil {
						return err
					}
				}
				b, err := d.read(i)
				if err != nil {
					return err
				}
				if err := a.WriteArrow(inner, b); err != nil {
					return fmt.Errorf("WriteArrow: %w", err)
				}
				watch.acked(node, d.batches[i].rows)
			}
			return nil
		})
	}
	var sendErr error
	var wg sync.WaitGroup
	wg.Go(func() {
		if sendErr = g.Wait(); sendErr != nil {
			cancel()
		}
		r.Posted = time.Since(began)
	})
	wg.Go(func() { watch.run(ctx, svc.Read) })
	list := []want{{"pc_samples", "SELECT sum(hits) FROM pc_buckets_data", []int64{d.pairs}}}
	if o.Nodes > 0 {
		if err := pause(ctx, time.Until(began.Add(o.For))); err != nil { // counting everything costs what is being measured
			wg.Wait()
			return cmp.Or(sendErr, err)
		}
	}
	err := wait(ctx, svc, list, map[string]int64{}, func(int64) {})
	r.Visible = time.Since(began)
	watch.stop()
	if err != nil {
		cancel()
	}
	wg.Wait()
	r.Load, r.Tries = stop(), tries.Load()
	r.PairsPerSecond = float64(d.pairs) / r.Visible.Seconds()
	r.Seen, r.Visible50, r.Visible99, r.VisibleMx = watch.percentiles()
	return cmp.Or(sendErr, err)
}

// pcData is generated batches, in one file.
type pcData struct {
	file    *os.File
	batches []pcBatch
	nodes   [][]int // by node, its batches
	pids    int

	pairs, bytes, samples, gpuNS, stalls int64
}

type pcBatch struct {
	at   int64 // in the file
	n    int
	rows int64
}

func (d *pcData) read(i int) ([]byte, error) {
	b := make([]byte, d.batches[i].n)
	if _, err := d.file.ReadAt(b, d.batches[i].at); err != nil {
		return nil, fmt.Errorf("batch: %w", err)
	}
	return b, nil
}

func (d *pcData) close() {
	d.file.Close()
	os.Remove(d.file.Name())
}

func newPCFile(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("folder for batches: %w", err)
	}
	f, err := os.Create(filepath.Join(dir, "pc.batches"))
	if err != nil {
		return nil, fmt.Errorf("folder for batches: %w", err)
	}
	return f, nil
}
