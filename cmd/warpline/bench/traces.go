package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/testdata"
)

// Trace is traces of PyTorch's profiler: real ones, repeated. They go through a gateway of their own, whose memory is measured alone, while
// a session of GPU Flight goes on in the partition of the first.
const Trace Workload = "trace"

const (
	besideRate = 2_000             // kernels a second of the session beside the traces
	besideFor  = 120 * time.Second // for each GiB, at most: it ends with the traces
)

// TraceOptions say what RunTraces measures. Bytes and Sessions are 1 GiB and 4 when 0.
type TraceOptions struct {
	Seed     uint64
	Bytes    int64 // of JSON in all traces together, or a little less
	Sessions int   // a trace is one session
	// Partitions are the service's, so that the session beside can be put next to a trace.
	Partitions int
	Gateway    []string // flags of the traces' gateway
	Rest       bool
	Dir        string // for the traces; the caller removes it
	// Progress is called with what is being done, by several goroutines; it may be nil.
	Progress func(phase string, done, of int64)
}

// TraceResult is what RunTraces measured.
type TraceResult struct {
	Workload Workload    `json:"workload"`
	Seed     uint64      `json:"seed"`
	Machine  Machine     `json:"machine"`
	Sessions int         `json:"sessions"`
	Counts   TraceCounts `json:"counts"`
	RawBytes int64       `json:"raw_bytes"`
	GzBytes  int64       `json:"gz_bytes"`

	Answers []time.Duration `json:"answers_ns"` // of each trace, from its first byte
	Posted  time.Duration   `json:"posted_ns"`  // until the last answer
	Visible time.Duration   `json:"visible_ns"` // until SQL counted all of it
	Retries int64           `json:"retries"`

	GatewayIdle int64    `json:"gateway_idle_bytes,omitempty"` // resident, of the traces' gateway alone
	GatewayLoad *Load    `json:"gateway_load,omitempty"`
	Load        *Load    `json:"load,omitempty"` // of all other roles, and the engine
	Beside      *Latency `json:"beside"`         // the session of GPU Flight

	Tables []TableSize `json:"tables,omitempty"` // at rest, with what the session beside left
	Rest   int64       `json:"rest_bytes,omitempty"`
	Wrong  []string    `json:"wrong,omitempty"`
}

// traceFile is a trace as it is sent.
type traceFile struct {
	session, path string
	raw, packed   int64
}

// RunTraces makes traces, sends them to a gateway beside svc, which is the bench's own, and measures.
func RunTraces(ctx context.Context, svc *Service, o TraceOptions) (*TraceResult, error) {
	if svc.cmd == nil {
		return nil, errors.New("traces are measured on a service of the bench's own")
	}
	if o.Bytes == 0 {
		o.Bytes = 1 << 30
	}
	if o.Sessions == 0 {
		o.Sessions = 4
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	r := &TraceResult{Workload: Trace, Seed: o.Seed, Machine: thisMachine(), Sessions: o.Sessions}
	files, err := o.generate(ctx, r)
	if err != nil {
		return nil, err
	}
	beside, err := o.beside(ctx, files[0].session)
	if err != nil {
		return nil, err
	}
	o.Progress("start a gateway of the traces' own", 0, 0)
	door, err := svc.StartGateway(ctx, filepath.Join(o.Dir, "gateway"), o.Gateway...)
	if err != nil {
		return nil, err
	}
	defer door.Stop()
	if err := pause(ctx, idleFor); err != nil {
		return nil, err
	}
	if u, err := processUsage(door.PID); err == nil {
		r.GatewayIdle = u.ownBytes
	}
	if err := r.send(ctx, svc, door, files, beside, o.Progress); err != nil {
		return nil, err
	}
	if o.Rest && svc.Write != nil {
		o.Progress("merge everything", 0, 0)
		rest, err := measureRest(ctx, *svc.Write, nil, false)
		if err != nil {
			return nil, err
		}
		r.Tables, r.Rest = rest.Tables, rest.Total
	}
	return r, nil
}

// generate writes the traces into files, on all cores.
func (o *TraceOptions) generate(ctx context.Context, r *TraceResult) ([]traceFile, error) {
	m, err := newTraceMould(testdata.Traces, "traces/real")
	if err != nil {
		return nil, err
	}
	longest := m.append(nil, m.body, 9999) // numbers grow
	rounds := max(1, (o.Bytes/int64(o.Sessions)-int64(len(m.append(nil, m.head, 0))))/int64(len(longest)))
	files := make([]traceFile, o.Sessions)
	var done atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range files {
		files[i] = traceFile{session: fmt.Sprintf("bench-%d-%d", o.Seed, i), path: filepath.Join(o.Dir, fmt.Sprintf("trace-%d.json.gz", i))}
		g.Go(func() error {
			return m.write(ctx, &files[i], i, o.Sessions, rounds, func() {
				o.Progress("generate", done.Add(1), rounds*int64(o.Sessions))
			})
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i := range files {
		r.RawBytes, r.GzBytes = r.RawBytes+files[i].raw, r.GzBytes+files[i].packed
		r.Counts.add(&m.once, 1)
		r.Counts.add(&m.each, rounds)
	}
	return files, nil
}

// beside is the load of GPU Flight in the partition of a trace.
func (o *TraceOptions) beside(ctx context.Context, of string) (*Data, error) {
	want := stream.Partition(devTenant, "trace:"+of, o.Partitions)
	length := max(20*time.Second, time.Duration(float64(besideFor)*float64(o.Bytes)/(1<<30)))
	for try := range 64 * o.Partitions {
		cfg := latencyConfig(Config{Workload: Columnar, Sessions: 1, Seed: o.Seed, Run: fmt.Sprint("beside traces ", try)}, besideRate, length)
		if stream.Partition(devTenant, uuid("session", cfg.Seed, cfg.Run, 0), o.Partitions) != want {
			continue
		}
		o.Progress("generate the session beside", 0, 0)
		dir, err := os.MkdirTemp(o.Dir, "beside-")
		if err != nil {
			return nil, err
		}
		return Generate(ctx, cfg, dir, nil)
	}
	return nil, fmt.Errorf("no session falls into partition %d of %d", want, o.Partitions)
}

// send sends all traces at once, and the session beside until SQL counts them.
func (r *TraceResult) send(ctx context.Context, svc, door *Service, files []traceFile, beside *Data,
	progress func(string, int64, int64)) error {
	ended := make(chan struct{})
	stopped := sync.OnceFunc(func() { close(ended) })
	defer stopped()
	all, inner := errgroup.WithContext(ctx)
	all.Go(func() (err error) {
		r.Beside, _, err = sendLatencyUntil(inner, svc, beside, besideRate, func(int64, int64) {}, ended)
		return err
	})
	all.Go(func() error {
		defer stopped()
		if err := pause(inner, 2*time.Second); err != nil { // the session beside is under way
			return err
		}
		progress("send", 0, 0)
		stop, stopDoor := measure(inner, svc.PID), measure(inner, door.PID)
		began := time.Now()
		r.Answers = make([]time.Duration, len(files))
		g, posts := errgroup.WithContext(inner)
		var retries, accepted atomic.Int64
		for i := range files {
			g.Go(func() error {
				answered, n, err := files[i].post(posts, door)
				r.Answers[i] = time.Since(began)
				retries.Add(n)
				accepted.Add(answered)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return fmt.Errorf("%w; the gateway's last words:\n%s", err, door.lastWords())
		}
		r.Posted, r.Retries, r.GatewayLoad = time.Since(began), retries.Load(), stopDoor()
		if n := accepted.Load(); n != r.Counts.Events {
			r.Wrong = append(r.Wrong, fmt.Sprintf("the gateway took %d events, %d were sent", n, r.Counts.Events))
		}
		progress("wait for SQL", 0, 0)
		const of = " WHERE startsWith(session_id, 'trace:')"
		err := wait(inner, svc, []want{
			{"trace_slices", "SELECT count() FROM trace_slices_data" + of, []int64{r.Counts.Slices}},
			{"trace_flow_ends", "SELECT count() FROM trace_flow_ends_data" + of, []int64{r.Counts.Flows}},
			{"trace_stats", "SELECT sum(calls) FROM trace_stats_data" + of, []int64{r.Counts.Calls}},
			{"kernels", "SELECT count() FROM kernels_data" + of, []int64{r.Counts.Kernels}},
		}, map[string]int64{}, func(int64) {})
		r.Visible, r.Load = time.Since(began), stop()
		return err
	})
	return all.Wait()
}

// post sends a trace, again as long as the gateway has no room, and returns how many events were accepted.
func (f *traceFile) post(ctx context.Context, door *Service) (accepted, retries int64, err error) {
	for ; ; retries++ {
		status, text, err := f.try(ctx, door)
		var answer struct {
			Accepted int64
			Complete bool
		}
		switch {
		case err != nil:
			return 0, retries, fmt.Errorf("send %s: %w", f.session, err)
		case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
			if err := pause(ctx, time.Second); err != nil {
				return 0, retries, err
			}
			continue
		case status != http.StatusOK || json.Unmarshal(text, &answer) != nil || !answer.Complete:
			return 0, retries, fmt.Errorf("send %s: %d: %.1000s", f.session, status, text)
		}
		return answer.Accepted, retries, nil
	}
}

func (f *traceFile) try(ctx context.Context, door *Service) (status int, text []byte, err error) {
	body, err := os.Open(f.path)
	if err != nil {
		return 0, nil, err
	}
	defer body.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, door.URL+"/api/v1/traces?session="+f.session, body)
	if err != nil {
		return 0, nil, err
	}
	req.ContentLength = f.packed
	req.Header.Set("Authorization", "Bearer "+door.Key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	text, err = io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return res.StatusCode, text, err
}
