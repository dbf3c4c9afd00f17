package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/cmd/warpline/proof"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/sink"
)

// What goes and comes of audits and replays.
type (
	// audited is what `warpline audit --json` prints, and in words what is wrong.
	audited struct {
		proof.Proof
		Problems []string `json:"problems"`
		// Cut says that a list is not whole: of long lists what is wrong comes first.
		Cut bool `json:"cut"`
	}
	restoreOrder struct {
		Tenant string `json:"tenant"`
		Table  string `json:"table"`
		From   string `json:"from"`
		To     string `json:"to"`
		DryRun bool   `json:"dry_run"`
	}
)

// audit makes an audit. One of a tenant has no number that others have a part in.
func (c *call) audit() (any, error) {
	deep, err := c.truth("deep")
	if err != nil {
		return nil, err
	}
	of, err := c.scope(c.param("tenant"), c.param("from"), c.param("to"))
	if err != nil {
		return nil, err
	}
	if deep {
		if err := c.who.operate("to compare every row with the ledger (deep), which is all tenants'"); err != nil {
			return nil, err
		}
	}
	var p proof.Proof
	err = c.work(Audit, func(ctx context.Context) error {
		conn, err := c.ask()
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := c.fewTenants(ctx, conn, of); err != nil {
			return err
		}
		p, err = proof.Make(ctx, c.api.Streams, conn, c.api.Schema, of, deep)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := audited{Proof: p, Problems: p.Problems()}
	if out.Problems == nil {
		out.Problems = []string{}
	}
	out.Problems = cut(out.Problems, &out.Cut, nil)
	out.Usage = cut(out.Usage, &out.Cut, func(u *sink.UsageReport) bool { return u.Problem != "" })
	out.Books = cut(out.Books, &out.Cut, func(b *sink.BookReport) bool { return b.Problem != "" })
	out.Rollups = cut(out.Rollups, &out.Cut, nil)
	return out, nil
}

// Bounds of what an audit or replay looks at, and of the lists that they answer with.
const (
	tenantsMost = 1000
	listMost    = 10_000
)

// fewTenants returns an error where the books of all tenants are asked for and there are too many to be held in a gateway's memory.
func (c *call) fewTenants(ctx context.Context, conn driver.Conn, of sink.Scope) error {
	if of.Tenant != "" {
		return nil
	}
	var n uint64
	err := conn.QueryRow(ctx, fmt.Sprintf("SELECT uniqExact(tenant) FROM `%s`.books_data", c.api.Database)).Scan(&n)
	if err != nil {
		return fmt.Errorf("count tenants: %w", err)
	}
	if n > tenantsMost {
		return bad(fmt.Errorf("tenant: there are %d of them, and at most %d are looked at together here: name one, or use the command", n,
			tenantsMost))
	}
	return nil
}

// cut shortens a list, from which what is wrong is not left out before what is well.
func cut[T any](all []T, was *bool, wrong func(*T) bool) []T {
	if len(all) <= listMost {
		return all
	}
	if *was = true; wrong != nil {
		slices.SortStableFunc(all, func(a, b T) int {
			switch x, y := wrong(&a), wrong(&b); {
			case x == y:
				return 0
			case x:
				return -1
			}
			return 1
		})
	}
	return all[:listMost]
}

// restore brings rows back.
func (c *call) restore() (any, error) {
	var in restoreOrder
	if err := decode(c.body, &in); err != nil {
		return nil, err
	}
	of, err := c.scope(in.Tenant, in.From, in.To)
	if err != nil {
		return nil, err
	}
	if in.Table != "" && c.api.Schema.Table(in.Table) == nil {
		return nil, bad(fmt.Errorf("table: there is no table %.60q: the audit names tables as they are", in.Table))
	}
	scope := sink.ReplayScope{Scope: of, Table: in.Table, DryRun: in.DryRun, LeaveLedger: !c.who.all}
	if in.Table == "ledger" {
		if err := c.who.operate("the ledger"); err != nil {
			return nil, err
		}
	}
	var out sink.ReplayReport
	err = c.work(Repair, func(ctx context.Context) error {
		r, err := c.repair()
		if err != nil {
			return err
		}
		defer r.Conn.Close()
		if err := c.fewTenants(ctx, r.Conn, of); err != nil {
			return err
		}
		replay := func() (err error) {
			out, err = r.Replay(ctx, scope)
			return err
		}
		if in.DryRun {
			return replay()
		}
		return c.api.Desk.Restore(ctx, c.who, of.Tenant, in.Table, replay)
	})
	if err != nil {
		return nil, err
	}
	out.Left = cut(out.Left, new(bool), nil)
	if !c.who.all { // how many chunks there are is how much all tenants send
		out.Chunks = 0
		for i := range out.Tables {
			out.Tables[i].Chunks = 0
		}
		for i := range out.Beyond {
			out.Beyond[i].Chunks = 0
		}
	}
	return out, nil
}

// repair connects to ClickHouse as a user who may write. The caller closes the connection.
func (c *call) repair() (sink.Replayer, error) {
	if c.api.Repair == nil {
		return sink.Replayer{}, noClickHouse
	}
	r, err := c.api.Repair(c.ctx)
	if err != nil {
		return r, clickHouseAway(err)
	}
	return r, nil
}

// work does what takes long, in a turn that the whole service has one of. Whoever administers one tenant leaves the next to others that
// were refused meanwhile, for as long as it took.
func (c *call) work(of Work, do func(ctx context.Context) error) error {
	whose := c.who.key.Tenant // "" is the operator
	if left := c.api.resting(whose); left > 0 {
		return &ingest.Refusal{Status: http.StatusTooManyRequests, Code: "others_first", RetryAfter: left,
			Detail: fmt.Sprintf("an audit, replay or drop of this tenant took long just now, and others come first: ask again in %s",
				max(left.Round(time.Second), time.Second))}
	}
	ctx, end, err := TakeTurn(c.ctx, c.api.Streams, of)
	c.api.waiting(whose, errors.As(err, new(UnderWay)))
	if err != nil {
		return err
	}
	defer end()
	began := time.Now()
	defer func() { c.api.rest(whose, time.Since(began)) }()
	err = do(ctx)
	switch {
	case err == nil:
	case c.r.Context().Err() != nil:
		return &ingest.Refusal{Status: statusGone, Code: "client_gone", Detail: "the client went away: ask again, what was done stays done",
			Cause: err}
	case errors.Is(context.Cause(ctx), errTurnLost):
		return errTurnLost
	case ctx.Err() != nil:
		return &ingest.Refusal{Status: http.StatusServiceUnavailable, Code: "took_too_long", RetryAfter: retry, Cause: err,
			Detail: fmt.Sprintf("it is not done after %s: ask for fewer days or one table, or use the command; what was done stays done",
				repairTime)}
	}
	return err
}

// statusGone is what logs and metrics have for a client that did not wait for the answer.
const statusGone = 499

// waitFor is for how long somebody who was refused is taken to want a turn still.
const waitFor = time.Minute

// waiting notes that somebody was refused a turn, or got one.
func (a *API) waiting(whose string, refused bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if delete(a.waits, whose); refused {
		a.waits[whose] = time.Now()
	}
}

// resting is for how long administrators of a tenant leave turns to others that want one.
func (a *API) resting(whose string) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	for other, at := range a.waits {
		if time.Since(at) > waitFor {
			delete(a.waits, other)
		}
	}
	_, own := a.waits[whose]
	if others := len(a.waits) > 1 || len(a.waits) == 1 && !own; !others {
		return 0
	}
	return time.Until(a.rests[whose])
}

// rest notes that long work of a tenant's administrator is over.
func (a *API) rest(whose string, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if delete(a.rests, whose); whose != "" {
		a.rests[whose] = time.Now().Add(took)
	}
}
