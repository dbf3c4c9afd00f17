package report

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// What a report shows of a session's id tells it from others.
func TestShortIDs(t *testing.T) {
	for id, want := range map[string]string{
		"fa3a65b5-560d-4f0e-965c-9c772b615472":     "fa3a65b5",
		"mem:fa3a65b5-560d-4f0e-965c-9c772b615472": "mem:fa3a65b5",
		"mem:gpu-node-1-rack-2:77:job:0":           "mem:gpu-no…job:0",
		"train-2026-11-22-run-7":                   "train-2026…run-7",
		"short":                                    "short",
	} {
		if got := short(id); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}

// A question that is too large leaves its section out; any other error is one.
func TestWhatIsTooLarge(t *testing.T) {
	for err, want := range map[error]bool{
		&clickhouse.Exception{Code: 241, Message: "Query memory limit exceeded"}:   true,
		&clickhouse.Exception{Code: 159, Message: "Timeout exceeded"}:              true,
		fmt.Errorf("read: %w", &clickhouse.Exception{Code: 241}):                   true,
		&clickhouse.Exception{Code: 202, Message: "Too many simultaneous queries"}: false,
		&clickhouse.Exception{Code: 60, Message: "Unknown table"}:                  false,
		errors.New("code: 241"): false,
		nil:                     false,
	} {
		if got := TooLarge(err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}
