package service

import (
	"context"
	"errors"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/cenkalti/backoff/v5"
)

// patience is how long a command goes on asking a ClickHouse whose readers are many.
const patience = 30 * time.Second

// What a query is answered before anything of it was done: ClickHouse's TOO_MANY_SIMULTANEOUS_QUERIES and USER_SESSION_LIMIT_EXCEEDED.
const (
	tooManyQueries  = 202
	tooManySessions = 700
)

// patient is a connection whose queries wait for their turn where a user may run only so many at once.
type patient struct{ driver.Conn }

func isTooMany(err error) bool {
	var e *clickhouse.Exception
	return errors.As(err, &e) && (e.Code == tooManyQueries || e.Code == tooManySessions)
}

// inTurn repeats ask, which runs a query, until it is let in.
func inTurn(ctx context.Context, ask func() error) error {
	pause := &backoff.ExponentialBackOff{InitialInterval: 20 * time.Millisecond, RandomizationFactor: 0.5, Multiplier: 1.5,
		MaxInterval: time.Second}
	pause.Reset()
	for deadline := time.Now().Add(patience); ; {
		err := ask()
		if !isTooMany(err) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause.NextBackOff()):
		}
	}
}

// Query is driver.Conn's.
func (p patient) Query(ctx context.Context, query string, args ...any) (rows driver.Rows, err error) {
	err = inTurn(ctx, func() error {
		rows, err = p.Conn.Query(ctx, query, args...)
		return err
	})
	return rows, err
}

// QueryRow is driver.Conn's.
func (p patient) QueryRow(ctx context.Context, query string, args ...any) (row driver.Row) {
	_ = inTurn(ctx, func() error { // the row brings its error along
		row = p.Conn.QueryRow(ctx, query, args...)
		return row.Err()
	})
	return row
}

// Select is driver.Conn's.
func (p patient) Select(ctx context.Context, dest any, query string, args ...any) error {
	return inTurn(ctx, func() error { return p.Conn.Select(ctx, dest, query, args...) })
}
