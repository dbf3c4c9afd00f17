package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"time"

	"github.com/warpline/warpline/cmd/warpline/service"
	"github.com/warpline/warpline/testdata"
)

// demoParca is what the demo sends as Parca's agent would: two batches of samples and, after them, the cubin whose lines they need. That is
// the usual order: the agent uploads a cubin once it has seen samples of it.
var demoParca = []struct{ route, file string }{
	{"/api/v1/parca", "parca/batch1.v2.lz4.arrows"},
	{"/api/v1/parca", "parca/batch2.v2.lz4.arrows"},
	{"/api/v1/cubins", "parca/pc_sample_toy.sm_121.cubin"},
}

// sendParca posts the PC-sampling capture and returns how many events and bytes it comes to.
func (c *demoCmd) sendParca(ctx context.Context, s *service.Stack, secret string, say func(string, ...any)) (events, size uint64,
	err error) {
	say("sending PC samples as Parca's agent sends them, and after them the cubin that has their source lines")
	client := &http.Client{Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	for _, send := range demoParca {
		body, err := fs.ReadFile(testdata.Parca, send.file)
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
