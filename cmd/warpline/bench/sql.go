package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// SQL asks ClickHouse over HTTP. It is safe for concurrent use. The zero value is not valid: Addr is required.
type SQL struct {
	Addr           string // host:port, or a URL
	User, Password string
	Database       string // "" means warpline
}

var sqlHTTP = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}

func (s SQL) database() string {
	if s.Database == "" {
		return "warpline"
	}
	return s.Database
}

// maxAnswer bounds what is read of an answer; the bench asks for little.
const maxAnswer = 16 << 20

// rows runs a query and returns its rows as text. Cells hold no tabs or newlines in what the bench asks for.
func (s SQL) rows(ctx context.Context, query string) ([][]string, error) {
	resp, err := s.post(ctx, query)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("clickhouse: %w", err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("X-ClickHouse-Exception-Code") != "" {
		return nil, fmt.Errorf("clickhouse answers %s to %.120q: %.400s", resp.Status, query, strings.TrimSpace(string(body)))
	}
	var out [][]string
	for line := range strings.Lines(string(body)) {
		out = append(out, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return out, nil
}

// usualQuery is near the longest query, in bytes, that ClickHouse reads without being told to; a read-only user cannot tell it.
const usualQuery = 200_000

// post sends a query. The caller closes the answer's body.
func (s SQL) post(ctx context.Context, query string) (*http.Response, error) {
	base := s.Addr
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	v := url.Values{"database": {s.database()}, "default_format": {"TabSeparated"}}
	if len(query) > usualQuery { // it names thousands of sessions
		v.Set("max_query_size", strconv.Itoa(2*len(query)))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/?"+v.Encode(), strings.NewReader(query))
	if err != nil {
		return nil, fmt.Errorf("clickhouse: %w", err)
	}
	if s.User != "" {
		req.Header.Set("X-ClickHouse-User", s.User)
		req.Header.Set("X-ClickHouse-Key", s.Password)
	}
	resp, err := sqlHTTP.Do(req)
	if err != nil {
		return nil, fmt.Errorf("clickhouse: %w: is %s its HTTP port?", err, s.Addr)
	}
	return resp, nil
}

// numbers runs a query that answers one row of integers.
func (s SQL) numbers(ctx context.Context, query string) ([]int64, error) {
	rows, err := s.rows(ctx, query)
	if err != nil {
		return nil, err
	}
	if len(rows) != 1 {
		return nil, fmt.Errorf("clickhouse answers %d rows to %.120q, want one", len(rows), query)
	}
	out := make([]int64, len(rows[0]))
	for i, c := range rows[0] {
		out[i], err = strconv.ParseInt(c, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("clickhouse answers %q to %.120q: %w", c, query, err)
		}
	}
	return out, nil
}

func (s SQL) do(ctx context.Context, query string) error {
	_, err := s.rows(ctx, query)
	return err
}

// pause waits for d, or less when ctx ends, which it reports.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
