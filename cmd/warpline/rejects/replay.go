package rejects

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/cmd/warpline/replay"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/reject"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// Outcome is what became of a reject that was to be sent again.
type Outcome struct {
	Reject
	// Taken says that all of it is stored now. Else Why says why not: it was left, or refused again.
	Taken bool   `json:"taken"`
	Left  bool   `json:"left"` // it was not sent
	Why   string `json:"why,omitempty"`
}

// Replayer sends rejects again. Its fields must not change while it works.
type Replayer struct {
	URL      string       // of a gateway
	HTTP     *http.Client // nil: the default
	Keys     *ingest.Keys
	Conn     driver.Conn
	Database string
	// Wait is how long it waits for SQL to say what became of what was sent.
	Wait time.Duration
	// Sent, unless it is nil, is called after each.
	Sent func()
}

// keyTime is how long the key for a replay works if it is not revoked at the end.
const keyTime = time.Hour

// keyNote is what the list of keys says of it.
const keyNote = "warpline reject replay"

var (
	several = regexp.MustCompile(`^\d+ rejects like this one`)
	some    = regexp.MustCompile(`^\d+ of the \d+ rows of the line are `)
)

// left says why a reject cannot be sent again, "" if it can.
func left(r *Reject) string {
	switch {
	case !r.ReplayedAt.IsZero():
		return "it was taken at " + r.ReplayedAt.UTC().Format(time.DateTime)
	case r.Source != string(stream.KindGPUFlight):
		return "of " + r.Source + " only whole uploads can be sent again: send the file"
	case r.Session == "":
		return "its session is not known"
	case several.MatchString(r.Detail):
		return fmt.Sprintf("it stands for %d events, and the first alone was kept", r.Events)
	case some.MatchString(r.Detail):
		return "other rows of its line are stored, so it would be taken for what came before"
	case r.Reason == gpuflight.ReasonArtifactTooLarge && r.Stage == "fold",
		r.Reason == reject.DictionaryFull && r.Type != gpuflight.DictionaryUpdate.String():
		return "its session remembers the line, so it would be taken for what came before"
	case r.Stage == "fold" && r.Ref != "" && uint64(len(r.Payload)) >= r.Bytes:
		return "it is a row of a line whose other rows are stored, so it would be taken for what came before"
	case uint64(len(r.Payload)) < r.Bytes:
		return fmt.Sprintf("%d of its %d bytes were kept", len(r.Payload), r.Bytes)
	case len(r.Payload) == 0:
		return "no bytes of it were kept"
	}
	return ""
}

// Replay sends rejects again, as their tenants, and says what became of each. It may be killed and run again, or twice at once: an attempt
// has a name of its own, by which the gateway knows it, so nothing counts twice. An error ends it; what was sent until then counts.
func (p *Replayer) Replay(ctx context.Context, all []Reject) ([]Outcome, error) {
	dir, err := os.MkdirTemp("", "warpline-replay-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	secrets := map[string]string{}
	defer func() {
		for _, secret := range secrets {
			try, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			_, _ = p.Keys.Revoke(try, secret) // it ends by itself
			cancel()
		}
	}()
	out := make([]Outcome, len(all))
	waiting := map[string]int{} // by id
	for i := range all {
		r := &all[i]
		out[i].Reject = *r
		if out[i].Why = left(r); out[i].Why != "" {
			out[i].Left = true
			continue
		}
		if secrets[r.Tenant] == "" {
			secret, _, err := p.Keys.Make(ctx, tenant.Key{Tenant: r.Tenant, Note: keyNote}, keyTime)
			if err != nil {
				return out, fmt.Errorf("a key for tenant %s: %w", r.Tenant, err)
			}
			secrets[r.Tenant] = secret
		}
		if err := p.send(ctx, dir, secrets[r.Tenant], r); err != nil {
			var no *replay.StatusError
			if !errors.As(err, &no) || no.Status >= 500 || no.Status == 401 {
				return out, fmt.Errorf("reject %s: %w", r.ID, err)
			}
			out[i].Why = no.Error()
			continue
		}
		waiting[r.ID] = i
		if p.Sent != nil {
			p.Sent()
		}
	}
	return out, p.await(ctx, out, waiting)
}

// send posts one reject as a window.
func (p *Replayer) send(ctx context.Context, dir, secret string, r *Reject) error {
	name := r.ID + ".log"
	if err := os.WriteFile(filepath.Join(dir, name), []byte(r.Payload), 0o600); err != nil {
		return err
	}
	defer os.Remove(filepath.Join(dir, name))
	var final *replay.StatusError
	s := replay.Sender{URL: p.URL, HTTP: p.HTTP, Key: secret, Retry: time.Second, Attempts: 30, GiveUp: func(err error) bool {
		return errors.As(err, &final) && final.Status < 500 && final.Status != 429
	}}
	got, err := s.Send(ctx, []replay.Session{{ID: r.Session, Channels: map[string][]replay.Window{stream.ReplayChannel: {{
		FS: os.DirFS(dir), Path: name, Size: int64(len(r.Payload)), Sidecar: &replay.Sidecar{
			WindowID: stream.ReplayWindow(r.ID, r.Attempts+1), Session: r.Session, Channel: stream.ReplayChannel, Sequence: r.Attempts + 1,
			Bytes: int64(len(r.Payload)), CRC32: crc32.ChecksumIEEE([]byte(r.Payload)),
		},
	}}}}})
	if err == nil && len(got.Skipped) > 0 {
		return got.Skipped[0].Status
	}
	return err
}

// await waits until SQL says what became of what was sent.
func (p *Replayer) await(ctx context.Context, out []Outcome, waiting map[string]int) error {
	for deadline := time.Now().Add(p.Wait); len(waiting) > 0; {
		rows, err := p.Conn.Query(ctx, fmt.Sprintf("SELECT reject_id, toString(tenant), count(), argMax(refused, at) FROM "+
			"`%s`.reject_replays_data GROUP BY reject_id, tenant", p.Database))
		if err != nil {
			return fmt.Errorf("what became of them: %w", err)
		}
		for rows.Next() {
			var id, of string
			var attempts, refused uint64
			if err := rows.Scan(&id, &of, &attempts, &refused); err != nil {
				rows.Close()
				return fmt.Errorf("what became of them: %w", err)
			}
			i, ok := waiting[id]
			if !ok || out[i].Tenant != of || attempts <= out[i].Attempts {
				continue
			}
			out[i].Attempts = attempts
			if out[i].Taken = refused == 0; !out[i].Taken {
				out[i].Why = "refused again: " + out[i].Reason
			}
			delete(waiting, id)
		}
		rows.Close()
		if err := rows.Err(); err != nil {
			return fmt.Errorf("what became of them: %w", err)
		}
		if time.Now().After(deadline) {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
	for _, i := range waiting {
		out[i].Why = "sent, and SQL does not say yet what became of it: look again with \"warpline reject show " + out[i].ID + "\""
	}
	return nil
}
