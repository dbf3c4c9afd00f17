package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// pollEvery is how often a starting engine is asked; it decides how soon `up` is ready.
const pollEvery = 20 * time.Millisecond

// awaitReady returns once both protocols let the writer in. Asking as the writer proves that it is
// this engine which answers, and not another process that took the port in between.
func (e *Engine) awaitReady(ctx context.Context) error {
	native, err := clickhouse.Open(&clickhouse.Options{
		Addr: []string{e.TCPAddr()}, Auth: clickhouse.Auth{Username: Writer, Password: e.cfg.Password},
		DialTimeout: time.Second, MaxOpenConns: 1,
	})
	if err != nil {
		return err
	}
	defer native.Close()
	web := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

	last, answered := error(nil), false
	for {
		if !answered {
			last = e.askHTTP(ctx, web)
			if last == nil {
				answered = true
			}
		}
		if answered {
			last = native.Ping(ctx)
			if last == nil {
				return nil
			}
		}
		select {
		case <-e.done:
			if e.err != nil {
				return e.err
			}
			return fmt.Errorf("the child ended before it answered: %s", e.said())
		case <-ctx.Done():
			return fmt.Errorf("%w (last answer: %v; %s)", context.Cause(ctx), last, e.said())
		case <-time.After(pollEvery):
		}
	}
}

// errRefused is an answer other than the expected one.
var errRefused = errors.New("the engine refuses")

func (e *Engine) askHTTP(ctx context.Context, client *http.Client) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.HTTPAddr()+"/?query=SELECT+1", nil)
	if err != nil {
		return err
	}
	req.SetBasicAuth(Writer, e.cfg.Password)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK || strings.TrimSpace(string(body)) != "1" {
		return fmt.Errorf("%w: HTTP %s: %s", errRefused, resp.Status, lastLines(string(body), 2))
	}
	return nil
}
