package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"time"

	"github.com/warpline/warpline/cmd/warpline/service"
	"github.com/warpline/warpline/query/report"
	"github.com/warpline/warpline/testdata"
)

// demoFiles are single files that the demo sends. As Parca's agent would: two batches of samples and, after them, the cubin whose lines
// they need, which is the usual order, since the agent uploads a cubin once it has seen samples of it. What each warp did in one launch.
// And a training step as PyTorch's profiler saw it.
var demoFiles = []struct {
	route string
	from  embed.FS
	file  string
}{
	{"/api/v1/parca", testdata.Parca, "parca/batch1.v2.lz4.arrows"},
	{"/api/v1/parca", testdata.Parca, "parca/batch2.v2.lz4.arrows"},
	{"/api/v1/cubins", testdata.Parca, "parca/pc_sample_toy.sm_121.cubin"},
	{"/api/v1/intrakernel?session=gemm&kernel=gemm&host=demo-host", testdata.IntraKernel, "intrakernel/samples/gemm_trace.json.gz"},
	{"/api/v1/traces?session=alexnet&job=demo&host=demo-host", testdata.Traces, demoTrace},
}

// demoTrace is a trace that is also in the repository, below testdata.
const demoTrace = "traces/real/HTA_critical_path__alexnet__benchmark_result_2869224_1695835535_trace.json.gz"

// sendFiles posts them and returns how many events and bytes they come to.
func (c *demoCmd) sendFiles(ctx context.Context, s *service.Stack, secret string, say func(string, ...any)) (events, size uint64,
	err error) {
	say("sending PC samples as Parca's agent does, the cubin with their source lines, an intra-kernel trace, and one of PyTorch")
	client := &http.Client{Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	for _, send := range demoFiles {
		body, err := fs.ReadFile(send.from, send.file)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		n, err := post(ctx, client, "http://"+s.Gateway.Addr()+send.route, secret, body)
		if err != nil {
			return 0, 0, fmt.Errorf("send %s: %w", send.file, err)
		}
		events, size = events+n, size+uint64(len(body))
	}
	return events, size, nil
}

// printFiles prints what warps did inside the kernel, and where the time of PyTorch's trace went.
func (c *demoCmd) printFiles(ctx context.Context, p *program, srv service.ClickHouse) error {
	conn, err := srv.Open(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	r, err := report.ReadRegions(ctx, conn, report.RegionsQuery{Database: srv.Database, Tenant: demoTenant, Top: 5})
	if err != nil {
		return err
	}
	width, colour := p.look(p.Stdout)
	style := report.Style{Width: width, Colour: colour}
	if err := r.Print(p.Stdout, style); err != nil {
		return err
	}
	trace, err := report.ReadTrace(ctx, conn, report.TraceQuery{Database: srv.Database, Tenant: demoTenant, Session: "trace:alexnet", Top: 5})
	if err != nil {
		return err
	}
	if err := trace.Print(p.Stdout, style); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Stdout, "\nThe same trace in Perfetto, every arrow on its slices:\n  warpline trace open testdata/%s\n", demoTrace)
	return err
}

// post sends one body and returns how many events of it were taken or refused.
func post(ctx context.Context, client *http.Client, url, key string, body []byte) (uint64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	answer, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err != nil {
		return 0, err
	}
	var of struct {
		Accepted uint64 `json:"accepted"`
		Rejected uint64 `json:"rejected"`
	}
	if answer.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("the gateway answers %s: %.200s", answer.Status, text)
	}
	if err := json.Unmarshal(text, &of); err != nil {
		return 0, fmt.Errorf("the gateway's answer: %w", err)
	}
	return of.Accepted + of.Rejected, nil
}
