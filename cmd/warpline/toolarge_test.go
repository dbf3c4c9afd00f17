package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// Who asks for too much is told how to ask for less.
func TestQuestionsThatAreTooLarge(t *testing.T) {
	for err, hint := range map[error]bool{
		fmt.Errorf("read pc: %w", &clickhouse.Exception{Code: 241, Message: "Query memory limit exceeded"}): true,
		errors.New("read pc: connection refused"):                                                           false,
	} {
		var out bytes.Buffer
		if code := (&program{Stderr: &out}).fail(err); code != exitFailed || !strings.Contains(out.String(), "warpline: read pc: ") ||
			strings.Contains(out.String(), "ask for less (--session") != hint {
			t.Errorf("%v: code %d:\n%s", err, code, out.String())
		}
	}
}
