// Package proof puts together what an audit looks at. `warpline audit` and the admin API share it.
package proof

import (
	"context"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/table"
)

// Proof is all that an audit found.
type Proof struct {
	sink.Report
	// Usage says what became of accepted events; PendingMore that more is pending than was counted.
	Usage       []sink.UsageReport
	PendingMore bool `json:",omitempty"`
	// LostParts are uploads that have to be sent again.
	LostParts []ingest.LostPart `json:",omitempty"`
	Books     []sink.BookReport
	Rollups   []sink.RollupReport
	Deep      *sink.Deep `json:",omitempty"` // if it was asked for
}

// BrokenWindows are the replay windows of which less than half of what was promised is there, in one line each, unless a person has read
// it. Nothing is missing yet: it is a promise that is not kept.
func (p *Proof) BrokenWindows() (all []string) {
	for _, w := range p.Windows {
		if w.Broken && !w.Accepted {
			all = append(all, "replay window: "+w.Found+"; "+w.Fix)
		}
	}
	return all
}

// maxLostParts is how many uploads that lack parts are named, a line each.
const maxLostParts = 50

// Problems lists what is wrong, in one line each.
func (p *Proof) Problems() []string {
	all := append(p.Report.Problems(), p.BrokenWindows()...)
	for i, l := range p.LostParts {
		if i == maxLostParts {
			all = append(all, fmt.Sprintf("%d more uploads lack parts: --json names them", len(p.LostParts)-i))
			break
		}
		all = append(all, l.String())
	}
	for _, u := range p.Usage {
		if u.Problem != "" {
			all = append(all, u.String())
		}
	}
	for _, b := range p.Books {
		if b.Problem != "" {
			all = append(all, b.String())
		}
	}
	for _, r := range p.Rollups {
		all = append(all, r.String())
	}
	if p.Deep != nil {
		for _, d := range p.Deep.Wrong {
			all = append(all, d.String())
		}
		all = append(all, p.Deep.Chunks...)
	}
	return all
}

// Make looks at the books of a scope, and without one at streams and lanes too. deep compares every row with the ledger, whoever's it is.
// conn's database is Warpline's.
func Make(ctx context.Context, streams *broker.Streams, conn driver.Conn, schema *table.Schema, of sink.Scope, deep bool) (
	p Proof, err error) {
	if of == (sink.Scope{}) {
		if p.Report, err = sink.Audit(ctx, streams, conn, schema); err != nil {
			return p, fmt.Errorf("audit: %w", err)
		}
		uploads, err := ingest.AuditUploads(ctx, streams, p.Found)
		if err != nil {
			return p, fmt.Errorf("audit: %w", err)
		}
		for _, l := range uploads {
			p.Lost = append(p.Lost, l.String())
		}
		p.LostParts, err = ingest.AuditParts(ctx, streams)
		if err != nil {
			return p, fmt.Errorf("audit: %w", err)
		}
	}
	if err := p.look(ctx, streams, conn, schema, of, deep); err != nil {
		return p, fmt.Errorf("audit: %w", err)
	}
	return p, nil
}

// look reads the books of the scope.
func (p *Proof) look(ctx context.Context, streams *broker.Streams, conn driver.Conn, schema *table.Schema, of sink.Scope, deep bool) error {
	usage, whole, err := sink.AuditUsage(ctx, streams, conn, of)
	if err != nil {
		return err
	}
	p.Usage, p.PendingMore = usage, !whole
	p.Books, err = sink.AuditBooks(ctx, conn, schema, of)
	if err != nil {
		return err
	}
	p.Rollups, err = sink.AuditRollups(ctx, conn, of)
	if err != nil || !deep {
		return err
	}
	d, err := sink.AuditDeep(ctx, conn, schema, of, p.Books)
	p.Deep = &d
	return err
}
