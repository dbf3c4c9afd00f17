package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/warpline/warpline/cmd/warpline/replay"
	"github.com/warpline/warpline/proto/telemetry"
	"github.com/warpline/warpline/query/report"
)

// telemetryFlags say how telemetry is to be read.
type telemetryFlags struct {
	PermissiveLegacy          bool    `default:"true" help:"${telemetry_permissive_legacy}"`
	EventsKey                 *string `placeholder:"KEY" help:"The key of a top-level object that holds the list of telemetry events."`
	DefaultCollector          string  `placeholder:"NAME" help:"Collector of converted telemetry that nothing else names."`
	DefaultSamplingIntervalMS int64   `name:"default-sampling-interval-ms" placeholder:"MS" help:"${telemetry_default_sampling_interval_ms}"`
	telemetryRules
}

// telemetryRules say whose rules records are judged by, and whose session they are when they name none.
type telemetryRules struct {
	Peer             string `default:"0.4.3" enum:"0.4.3,0.2.9" placeholder:"RELEASE" help:"${telemetry_rules_peer}"`
	DefaultSessionID string `name:"default-session-id" placeholder:"ID" help:"Session of telemetry that names none."`
}

func (c *telemetryRules) peer() telemetry.Peer {
	p, err := telemetry.ParsePeer(c.Peer)
	if err != nil {
		panic("BUG: --peer was not checked: " + err.Error())
	}
	return p
}

func (c *telemetryFlags) options() telemetry.Options {
	return telemetry.Options{Peer: c.peer(), DefaultSessionID: c.DefaultSessionID, RefuseLegacy: !c.PermissiveLegacy, EventsKey: c.EventsKey,
		DefaultCollector: c.DefaultCollector, DefaultSamplingIntervalMS: c.DefaultSamplingIntervalMS}
}

func (c *telemetryFlags) query(f telemetryFile) string {
	if f.summary != nil {
		return "format=json" // ours, whatever the files are
	}
	format := f.format
	q := url.Values{"format": {format}}
	if !c.PermissiveLegacy {
		q.Set("permissive_legacy", "false")
	}
	if c.EventsKey != nil && format == "json" {
		q.Set("events_key", *c.EventsKey)
	}
	if c.DefaultCollector != "" {
		q.Set("default_collector", c.DefaultCollector)
	}
	if c.peer() != telemetry.Peer043 {
		q.Set("peer", c.Peer)
	}
	if session := cmp.Or(c.DefaultSessionID, f.session); session != "" {
		q.Set("default_session_id", session)
	}
	if c.DefaultSamplingIntervalMS != 0 {
		q.Set("default_sampling_interval_ms", strconv.FormatInt(c.DefaultSamplingIntervalMS, 10))
	}
	return q.Encode()
}

// telemetryAnswer is the gateway's word on a file.
type telemetryAnswer struct {
	Accepted  int64 `json:"accepted"`
	Rejected  int64 `json:"rejected"`
	Duplicate bool  `json:"duplicate"`
	Sessions  int64 `json:"sessions"`
	Errors    []struct {
		Index   int    `json:"index"`
		Offset  *int64 `json:"offset"` // of a trace, in place of Index
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"errors"`
}

// shownRefusals is how many refusals of a file are printed; all of them are in the table rejects.
const shownRefusals = 3

// sendTelemetry posts files one after the other and says of each what the gateway made of it. A file that is refused whole does not stop
// the others.
func (c *sendCmd) sendTelemetry(ctx context.Context, p *program, s *replay.Sender, files []telemetryFile, out *sendResult,
	waiting func(name string, err error)) error {
	for _, f := range files {
		a, err := c.postUntilTaken(ctx, s, f, waiting)
		var status *replay.StatusError
		switch {
		case err == nil:
		case ctx.Err() == nil && errors.As(err, &status) && !hopeless(err) && status.Status/100 == 4 && !comesRight(status.Status):
			fmt.Fprintf(p.Stderr, "%s (%s): refused: %v\n", f.path, f.format, err)
			out.Refused = append(out.Refused, newRefusal(f.path, status))
			continue
		default:
			return fmt.Errorf("%s: %w", f.path, err)
		}
		s.Sent(f.size)
		out.Files++
		out.Bytes += f.size
		codes := make([]string, len(a.Errors))
		for i := range a.Errors {
			codes[i] = a.Errors[i].Code
		}
		out.door.add(a.Accepted, a.Rejected, codes)
		if f.summary != nil {
			fmt.Fprintf(p.Stderr, "%s: session %s is %s\n", f.path, report.Printable(f.summary.SessionID), f.summary.Status)
			continue
		}
		before := ""
		if a.Duplicate {
			before = "; all of it was stored before"
		}
		fmt.Fprintf(p.Stderr, "%s (%s): %s of %s stored, %d refused%s\n", f.path, f.format, plural(a.Accepted, "record"),
			plural(a.Sessions, "session"), a.Rejected, before)
		for i, e := range a.Errors {
			if i == shownRefusals {
				fmt.Fprintf(p.Stderr, "  and %d more: \"warpline reject list\" has them\n", a.Rejected-shownRefusals)
				break
			}
			at := fmt.Sprintf("record %d", e.Index)
			if e.Offset != nil {
				at = fmt.Sprintf("byte %d", *e.Offset)
			}
			fmt.Fprintf(p.Stderr, "  %s: %s (%s)\n", at, report.Printable(e.Message), e.Code)
		}
	}
	return nil
}

// comesRight reports whether the same bytes may be taken later.
func comesRight(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}

// postUntilTaken posts a file until the answer is one that trying again would not change.
func (c *sendCmd) postUntilTaken(ctx context.Context, s *replay.Sender, f telemetryFile, waiting func(string, error)) (*telemetryAnswer,
	error) {
	ask := s.Question.Begin()
	defer ask.End(nil)
	for n := 1; ; n++ {
		a, err := c.postTelemetry(ctx, s.HTTP, f, ask)
		var status *replay.StatusError
		if err == nil || ctx.Err() != nil || hopeless(err) || errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) ||
			errors.As(err, &status) && status.Status/100 == 4 && !comesRight(status.Status) || c.Attempts > 0 && n >= c.Attempts {
			return a, err
		}
		waiting(f.path, err)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(c.Retry):
		}
	}
}

func (c *sendCmd) postTelemetry(ctx context.Context, client *http.Client, f telemetryFile, ask *replay.Attempt) (*telemetryAnswer, error) {
	var body io.Reader
	size, contentType := f.size, ""
	if f.body != nil {
		body = bytes.NewReader(f.body)
	} else if f.format == "oom" {
		b, err := bundleBody(f.path, c.Host)
		if err != nil {
			return nil, err
		}
		body, size = bytes.NewReader(b), int64(len(b))
	} else if f.format == formatCapture {
		form, of, err := captureBody(f.path)
		if err != nil {
			return nil, err
		}
		defer form.Close()
		body, size, contentType = form, -1, of
	} else {
		file, err := os.Open(f.path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil {
			return nil, err
		}
		// A tracker may still be writing: what is there now goes, and what comes while it goes is for the next time.
		size = info.Size()
		body = io.LimitReader(file, size)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(c.URL, "/")+c.route(f), body)
	if err != nil {
		return nil, err
	}
	req.ContentLength = size
	req.Header.Set("User-Agent", "warpline-send")
	if f.gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if c.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.Key)
	}
	ask.Ask(req.Header)
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, &replay.StatusError{Status: resp.StatusCode, Body: string(text[:min(len(text), 2000)])}
	}
	ask.End(resp.Header)
	a := &telemetryAnswer{}
	if err := json.Unmarshal(text, a); err != nil {
		return nil, fmt.Errorf("the answer is not the gateway's: %w", err)
	}
	if f.format == formatCapture || f.format == formatRegions || f.format == formatTrace {
		a.Sessions = 1 // a launch is a session, and so is a trace
	}
	return a, nil
}
