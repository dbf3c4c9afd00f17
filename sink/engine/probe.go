package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// An engine whose threads all wait for each other still accepts connections and answers /ping. So it is asked, as the writer, a query that
// costs nothing, over both protocols and on new connections. These numbers bound how long rows can wait for a restart: a little under 20 s
// in the worst case, and a start takes two or three. One late answer is not enough: the machine may have been asleep.
const (
	probeEvery   = 3 * time.Second
	probeWithin  = 8 * time.Second
	probeSilence = 2 // unanswered probes in a row
)

// watch probes the engine until unwatch is called or it ends. silent delivers once, when the engine lives and does not answer.
func (e *Engine) watch() (silent <-chan error, unwatch func()) {
	ctx, cancel := context.WithCancel(context.Background())
	told := make(chan error, 1)
	go func() {
		unanswered, answered := 0, time.Now()
		for {
			if unanswered == 0 {
				select {
				case <-ctx.Done():
					return
				case <-e.done:
					return
				case <-time.After(probeEvery):
				}
			}
			err := e.probe(ctx)
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				unanswered, answered = 0, time.Now()
				continue
			}
			if unanswered++; unanswered >= probeSilence {
				told <- fmt.Errorf("engine: child %d runs and has not answered SELECT 1 for %v: %w", e.pid, time.Since(answered).Round(time.Second),
					err)
				return
			}
			select { // an engine that refuses at once is not asked again at once
			case <-ctx.Done():
				return
			case <-e.done:
				return
			case <-time.After(time.Second):
			}
		}
	}()
	return told, cancel
}

// probe asks the engine once. An error that ClickHouse itself words is an answer.
func (e *Engine) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, probeWithin, fmt.Errorf("no answer within %v", probeWithin))
	defer cancel()
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if err := e.askHTTP(ctx, web); err != nil && !errors.Is(err, errRefused) {
		return fmt.Errorf("HTTP: %w", err)
	}
	native, err := clickhouse.Open(&clickhouse.Options{
		Addr: []string{e.TCPAddr()}, Auth: clickhouse.Auth{Username: Writer, Password: e.cfg.Password}, DialTimeout: probeWithin, MaxOpenConns: 1,
	})
	if err != nil {
		return fmt.Errorf("native: %w", err)
	}
	defer native.Close()
	var one uint8
	var refused *clickhouse.Exception
	if err := native.QueryRow(ctx, "SELECT 1").Scan(&one); err != nil && !errors.As(err, &refused) {
		return fmt.Errorf("native: %w", err)
	}
	return nil
}
