package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// ReadOptions say what is asked. The zero value is not valid: Config and Questions are required.
type ReadOptions struct {
	Config    Config
	Questions []ReadQuestion
	Times     int    // how often each is asked (0: 5)
	Dir       string // for windows; the caller removes it
	Progress  func(phase string, done, of int64)
}

// ReadQuestion is SQL that is asked. Of each table that it names as warpline.NAME, Session asks only one session's rows.
type ReadQuestion struct {
	About string `json:"question"`
	SQL   string `json:"sql"`
}

// Reading is how long questions took: of a service that holds one session, and of the same when it holds all. Durations are nanoseconds in
// JSON.
type Reading struct {
	Workload Workload `json:"workload"`
	Machine  Machine  `json:"machine"`
	Sessions int      `json:"sessions"`
	Counts   Counts   `json:"counts"`
	First    Counts   `json:"first"` // of the session that is asked for
	Answers  []Answer `json:"answers"`
}

// Answer is how one question did.
type Answer struct {
	Question string `json:"question"`
	// All asks all sessions, One the first session among all, Alone the same session while the service had no other.
	All   *Took `json:"all,omitempty"`
	One   *Took `json:"one,omitempty"`
	Alone *Took `json:"alone,omitempty"`
}

// Took is what several askings of one question took.
type Took struct {
	P50   time.Duration `json:"p50_ns"`
	P99   time.Duration `json:"p99_ns"`    // of few askings the slowest
	Rows  int64         `json:"rows_read"` // 0: not known
	Error string        `json:"error,omitempty"`
}

// reportQuestion is the whole of `warpline report`.
const reportQuestion = "warpline report"

// RunRead fills svc, which must be empty and the bench's own, with one session, asks for it, adds the others and asks for all.
func RunRead(ctx context.Context, svc *Service, o ReadOptions) (*Reading, error) {
	if svc.cmd == nil {
		return nil, errors.New("questions are measured with a service of the bench's own")
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	if o.Times < 1 {
		o.Times = 5
	}
	d, err := Options{Config: o.Config, Dir: o.Dir, Progress: o.Progress}.generate(ctx, o.Config, "generate")
	if err != nil {
		return nil, err
	}
	first, rest := *d, *d
	first.Sessions, first.Counts = d.Sessions[:1], d.Sessions[0].Counts
	rest.Sessions = d.Sessions[1:]
	r := &Reading{Workload: d.Config.Workload, Machine: thisMachine(), Sessions: len(d.Sessions), Counts: d.Counts, First: first.Counts}
	asks := &asker{svc: svc, session: d.Sessions[0].ID, times: o.Times, progress: o.Progress, of: int64(3 * (len(o.Questions) + 1))}
	if err := fill(ctx, svc, &first, first.Counts, o.Progress); err != nil {
		return nil, err
	}
	if asks.tables, err = ofSessions(ctx, svc.Read); err != nil {
		return nil, err
	}
	r.Answers = make([]Answer, len(o.Questions)+1)
	each := func(ask func(a *Answer, q *ReadQuestion)) error {
		for i := range r.Answers {
			q := &ReadQuestion{About: reportQuestion}
			if i > 0 {
				q = &o.Questions[i-1]
			}
			r.Answers[i].Question = q.About
			if ask(&r.Answers[i], q); ctx.Err() != nil {
				return ctx.Err()
			}
		}
		return nil
	}
	if err := each(func(a *Answer, q *ReadQuestion) { a.Alone = asks.ask(ctx, q, true) }); err != nil {
		return nil, err
	}
	if len(rest.Sessions) > 0 {
		if err := fill(ctx, svc, &rest, d.Counts, o.Progress); err != nil {
			return nil, err
		}
	}
	removeWindows(d)
	if err := pause(ctx, settleFor); err != nil {
		return nil, err
	}
	err = each(func(a *Answer, q *ReadQuestion) {
		a.One, a.All = asks.ask(ctx, q, true), asks.ask(ctx, q, false)
	})
	return r, err
}

// fill sends sessions and waits until SQL counts all that was ever sent.
func fill(ctx context.Context, svc *Service, d *Data, all Counts, progress func(string, int64, int64)) error {
	sender := &sender{url: svc.URL, key: svc.Key}
	if err := sender.send(ctx, d); err != nil {
		return err
	}
	return wait(ctx, svc, polls(all, ""), map[string]int64{}, func(n int64) { progress("count", n, all.Kernels) })
}

// asker asks questions and takes the time.
type asker struct {
	svc      *Service
	session  string
	tables   map[string]bool // that have a session_id
	times    int
	done, of int64
	progress func(string, int64, int64)
}

// named is a table in a question.
var named = regexp.MustCompile(`\bwarpline\.(\w+)`)

// ofSessions are the tables whose rows belong to sessions.
func ofSessions(ctx context.Context, read SQL) (map[string]bool, error) {
	rows, err := read.rows(ctx, "SELECT table FROM system.columns WHERE database = currentDatabase() AND name = 'session_id'")
	if err != nil {
		return nil, err
	}
	tables := map[string]bool{}
	for _, row := range rows {
		tables[row[0]] = true
	}
	return tables, nil
}

// onlySession makes a question one about a session, "" when it cannot be: where no table that it names is of sessions.
func onlySession(sql, session string, ofSessions map[string]bool) string {
	any := false
	out := named.ReplaceAllStringFunc(sql, func(name string) string {
		if !ofSessions[strings.TrimPrefix(name, "warpline.")] {
			return name
		}
		any = true
		return "(SELECT * FROM " + name + " WHERE session_id = '" + session + "')"
	})
	if !any {
		return ""
	}
	return out
}

func (a *asker) ask(ctx context.Context, q *ReadQuestion, one bool) *Took {
	a.done++
	a.progress("ask", a.done, a.of)
	var once func() (int64, error)
	if q.About == reportQuestion {
		args := []string{"report", "--data", filepath.Dir(a.svc.log), "--json"}
		if one {
			args = append(args, "--session", a.session)
		}
		once = func() (int64, error) {
			var said strings.Builder
			cmd := exec.CommandContext(ctx, a.svc.cmd.Path, args...)
			cmd.Stderr = &said
			if err := cmd.Run(); err != nil {
				return 0, fmt.Errorf("%w: %.200s", err, strings.TrimSpace(said.String()))
			}
			return 0, nil
		}
	} else {
		sql := q.SQL
		if one {
			sql = onlySession(sql, a.session, a.tables)
		}
		if sql == "" {
			return nil
		}
		once = func() (int64, error) { return a.svc.Read.rowsRead(ctx, sql+" FORMAT Null") }
	}
	var took []time.Duration
	t := &Took{}
	for range a.times {
		began := time.Now()
		rows, err := once()
		if err != nil {
			t.Error = err.Error()
			break
		}
		took = append(took, time.Since(began))
		t.Rows = rows
		if len(took) == 2 && took[0] > 5*time.Second {
			break // it is slow, and that is known now
		}
	}
	slices.Sort(took)
	t.P50, t.P99 = rank(took, 0.5), rank(took, 0.99)
	return t
}

// rowsRead runs a query and says how many rows ClickHouse read for it.
func (s SQL) rowsRead(ctx context.Context, query string) (int64, error) {
	resp, err := s.post(ctx, query)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, fmt.Errorf("clickhouse: %w", err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("X-ClickHouse-Exception-Code") != "" {
		return 0, fmt.Errorf("clickhouse answers %s to %.120q: %.400s", resp.Status, query, strings.TrimSpace(string(body)))
	}
	var summary struct {
		Rows int64 `json:"read_rows,string"`
	}
	if err := json.Unmarshal([]byte(resp.Header.Get("X-ClickHouse-Summary")), &summary); err != nil {
		return 0, fmt.Errorf("clickhouse does not say what it read: %w", err)
	}
	return summary.Rows, nil
}
