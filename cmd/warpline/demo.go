package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/cmd/warpline/replay"
	"github.com/warpline/warpline/cmd/warpline/service"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/query/report"
	"github.com/warpline/warpline/testdata"
)

// demoTenant owns what the demo sends.
const demoTenant = "demo"

// demoCmd shows the whole service on real captures.
type demoCmd struct {
	Keep bool          `help:"Go on serving after the report, until Ctrl-C."`
	Wait time.Duration `default:"60s" help:"Longest to wait until everything sent can be read in SQL."`
	Data string        `placeholder:"DIR" help:"Keep everything in this folder; by default a temporary one that is removed."`
}

func (c *demoCmd) check(p *program) error {
	if c.Wait <= 0 {
		return fmt.Errorf("%s: %v: must be above zero", p.Settings.name("wait"), c.Wait)
	}
	return nil
}

// Run starts the service as "up" does, sends what testdata holds, waits until all of it is visible and prints the report.
func (c *demoCmd) Run(ctx context.Context, p *program) (err error) {
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(p.Stderr, "%5.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	dir := c.Data
	if dir == "" {
		dir, err = os.MkdirTemp("", "warpline-demo-")
		if err != nil {
			return fmt.Errorf("folder of the demo: %w: name one that you may write with --data, or a folder for temporary files with TMPDIR", err)
		}
		defer os.RemoveAll(dir)
	}
	layout := broker.DefaultLayout()
	// Small, so that the demo runs on a nearly full disk; what it sends is far smaller.
	layout.IngestMaxBytes, layout.RowsMaxBytes, layout.BucketMaxBytes = 64<<20, 64<<20, 16<<20
	s, err := service.Start(ctx, service.Config{
		Dir: dir, Listen: "127.0.0.1:0", NATSListen: "127.0.0.1:0", ClickHouse: service.ClickHouse{Database: "warpline"}, Layout: layout,
		ChunkAge: 100 * time.Millisecond, SinkInterval: 100 * time.Millisecond, Sources: givenSources(), Version: version(),
		Log: quieter(p), Progress: p.Stderr,
		Step: func(what string) {
			say("%s", map[string]string{"engine": "starting the ClickHouse engine (fetched once, then cached)",
				"nats": "starting NATS with JetStream", "roles": "starting gateway, worker and sink"}[what])
		},
	})
	if err != nil {
		return err
	}
	defer func() {
		stop, cancel := context.WithTimeout(p.Hard, 20*time.Second)
		defer cancel()
		s.Stop(stop, func(part string, _ time.Duration, e error) {
			if e != nil && err == nil && part != "engine" {
				err = fmt.Errorf("stop %s: %w", part, e)
			}
		})
	}()
	secret, _, err := ingest.NewKeys(s.Streams.Keys).Create(ctx, demoTenant, "made by warpline demo", tenant.Limits{}, 0)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	sent, err := c.send(ctx, p, s, secret, say)
	if err != nil {
		return err
	}
	sampled, sampledBytes, err := c.sendFiles(ctx, s, secret, say)
	if err != nil {
		return err
	}
	srv := s.Server
	if err := c.visible(ctx, srv, uint64(sent.Accepted+sent.Rejected)+sampled); err != nil {
		return err
	}
	say("all of it can be read in SQL")
	srv = s.Reader
	r, err := readReport(ctx, srv, report.Query{Database: srv.Database, Tenant: demoTenant, Top: 8})
	if err != nil {
		return err
	}
	if !c.Keep {
		srv.HTTP = "" // what the report proposes to ask would find nobody
	}
	if err := printReport(p, p.Stdout, r, srv, uint64(sent.Bytes)+sampledBytes); err != nil {
		return err
	}
	if err := c.printFiles(ctx, p, srv); err != nil {
		return err
	}
	if !c.Keep {
		left := "nothing is left behind"
		if c.Data != "" {
			left = fmt.Sprintf("what it stored is in %s (\"warpline up --data %s\" serves it)", c.Data, c.Data)
		}
		fmt.Fprintf(p.Stderr, "\nDone in %.1f s, and %s. \"warpline demo --keep\" goes on serving and proposes SQL to ask, \"warpline up\" is "+
			"the real thing.\n",
			time.Since(began).Seconds(), left)
		return nil
	}
	if err := s.Dir.WriteSecret(service.KeyFile, []byte(secret+"\n")); err != nil {
		return err
	}
	fmt.Fprintf(p.Stderr, "\nServing until Ctrl-C.\n  send to     http://%s   (warpline send --url http://%s --data %s FOLDER)\n  ask in "+
		"SQL  %s\n",
		s.Gateway.Addr(), s.Gateway.Addr(), s.Dir.Path, askWith(s.Reader))
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.Failed:
		return err
	}
}

// send replays the embedded captures, all sessions at once, as several agents would.
func (c *demoCmd) send(ctx context.Context, p *program, s *service.Stack, secret string, say func(string, ...any)) (replay.Result, error) {
	sessions, err := replay.Folders(testdata.GPUFlight, "")
	if err != nil {
		return replay.Result{}, err
	}
	if len(sessions) == 0 {
		panic("BUG: no captures are embedded")
	}
	var total int64
	for i := range sessions {
		total += sessions[i].Bytes()
	}
	say("replaying %d captured sessions through http://%s", len(sessions), s.Gateway.Addr())
	bar := newBar(p, total, "sending")
	var once sync.Once
	agent := &replay.Sender{
		URL: "http://" + s.Gateway.Addr(), Key: secret, Host: "demo-host", Retry: time.Second, Attempts: 10,
		HTTP: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}, Sent: func(n int64) { bar.Add64(n) },
		Waiting: func(w replay.Window, err error) {
			once.Do(func() { fmt.Fprintf(p.Stderr, "%s: %v; trying again\n", w.Path, err) })
		},
	}
	var mu sync.Mutex
	var sum replay.Result
	var errs []error
	var wg sync.WaitGroup
	for i := range sessions {
		wg.Go(func() {
			r, err := agent.Send(ctx, sessions[i:i+1])
			mu.Lock()
			defer mu.Unlock()
			sum.Windows += r.Windows
			sum.Acknowledged += r.Acknowledged
			sum.Accepted += r.Accepted
			sum.Rejected += r.Rejected
			sum.Bytes += r.Bytes
			sum.Skipped = append(sum.Skipped, r.Skipped...)
			if err != nil {
				errs = append(errs, err)
			}
		})
	}
	wg.Wait()
	bar.Finish()
	if ctx.Err() != nil {
		return sum, ctx.Err()
	}
	agent.HTTP.CloseIdleConnections()
	if len(sum.Skipped) > 0 {
		errs = append(errs, fmt.Errorf("the gateway refused %s, the first: %v", plural(int64(len(sum.Skipped)), "window"), sum.Skipped[0]))
	}
	if err := errors.Join(errs...); err != nil {
		return sum, fmt.Errorf("replay: %w", err)
	}
	say("%d windows taken: %d events", sum.Windows, sum.Accepted+sum.Rejected)
	return sum, nil
}

// visible waits until SQL accounts for all events: as received, and the kernels among them in raw rows and rollups alike.
func (c *demoCmd) visible(ctx context.Context, srv service.ClickHouse, events uint64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Wait, errors.New("not everything became visible in time: raise --wait"))
	defer cancel()
	conn, err := srv.Open(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	db := "`" + srv.Database + "`."
	var received, kernels, rows, calls uint64
	for {
		err = conn.QueryRow(ctx, "SELECT (SELECT sum(events) FROM "+db+"usage), (SELECT sum(kernels) FROM "+db+"sessions), (SELECT count() FROM "+
			db+"kernels), (SELECT sum(calls + synthetic_calls + disturbed_calls) FROM "+db+"kernel_stats)").
			Scan(&received, &kernels, &rows, &calls)
		if err == nil && received == events && rows == kernels && calls == kernels {
			return nil
		}
		select {
		case <-ctx.Done():
			if err == nil {
				err = fmt.Errorf("%d of %d events, %d kernels in raw rows and %d in rollups of %d", received, events, rows, calls, kernels)
			}
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(25 * time.Millisecond):
		}
	}
}
