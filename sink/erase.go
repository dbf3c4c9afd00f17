package sink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"golang.org/x/sync/errgroup"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// # Deletions
//
// A chunk can carry deletions. After a chunk with deletions of what may come again, a span does not take more of the same ROWS partition.
// The steps of a span with deletions are: insert, count what
// is to be deleted, write the count to the mark with the note that all is inserted, delete, delete the contents to which no link is left
// (orphans.go), clean the streams and buckets, write the ledger, move the mark. Each step may be repeated, and a successor goes on where
// the mark says. Why no row comes back, and no other session's row is doubled:
//
//   - Deleted rows take their chunk numbers with them, so after the first deletion max(chunk) does not prove anything about this span any
//     more: a sink that looked would find blocks missing and send them again under the next attempt's token, other sessions' rows included.
//     The note in the mark, which is written before the first deletion, keeps it from looking: with the note, nothing is inserted.
//   - Chunks that follow in the span do not hold anything of a session that does not come again: from the tombstone on the worker drops
//     it. Chunks of other partitions in the span do not hold anything of what is deleted: a session's rows come by one partition, and a
//     deletion that is bounded takes rows of its own partition only.
//   - Spans before it are inserted, and the mark has passed them. Spans after it are not recorded before the mark has moved, and do not
//     hold anything of what was deleted, because the worker dropped it. They verify chunk numbers above this span's, which a deletion does
//     not touch.
//   - A zombie may still send an insert of this span. ClickHouse knows its token, as always, with one exception: when a deletion empties a
//     data part, ClickHouse removes it half a minute later and forgets its tokens. Such a data part held only deleted rows, so only they
//     can come back, and a zombie's insert ends within insertTimeout of its begin. So the lane remembers what it deleted and looks again
//     when that time is over (lookAgain).
//   - A zombie's ALTER DELETE selects the same rows, none of which a later chunk brings.
//
// Deletion is ALTER … DELETE, which writes data parts anew without the rows; the old files leave the disk a minute later
// (old_parts_lifetime). A lightweight DELETE would only hide the rows until the next merge.

// erasure is what the mark has of a deletion: what was found before anything was deleted.
type erasure struct {
	Deletion int    `json:"deletion"` // index among the deletions of the span's chunks, in the order of the messages
	Table    string `json:"table"`
	Rows     uint64 `json:"rows"`
}

// removal is what deletions take from one ClickHouse partition of a table.
type removal struct {
	Table         string `json:"table"`
	Day           int32  `json:"day"`
	RetentionDays uint16 `json:"retention_days"`
	Rows          uint64 `json:"rows"`
	Amount        uint64 `json:"amount,omitempty"` // see table.Batch.Amount
	Tenant        string `json:"tenant,omitempty"` // whose rows they were; "" in marks of older versions
}

// erased are a chunk's deletions that were carried out and are to be checked once more.
type erased struct {
	Partition int               `json:"partition"`
	Chunk     uint64            `json:"chunk"`
	Deletes   []stream.Deletion `json:"deletes"`
	Unlinked  []string          `json:"bereft,omitempty"` // tenants that lost links
	At        time.Time         `json:"at"`
}

// erasedToken marks rows of the ledger that count deleted rows. Tokens of inserts are hex.
const erasedToken = "deleted"

// maxErased is how many deletions a lane remembers; beyond it the oldest are checked before their time.
const maxErased = 1024

// mostDeletes is how many deletions a span may have and still take a chunk with more. The mark has a few lines for each of them until they
// are carried out.
const mostDeletes = 2048

// atOnce is how many tables are asked, or deletions cleaned up after, at the same time.
const atOnce = 4

// lookAgainAfter is how long after a deletion no insert can be running any more that was begun before it.
const lookAgainAfter = insertTimeout + time.Minute

// targets translates the deletions of a chunk. Those of a tenant, or of a session that may come back, must not touch what later chunks
// bring.
func (k *Sink) targets(partition int, chunk uint64, deletes []stream.Deletion) []table.Target {
	out := make([]table.Target, len(deletes))
	for i, d := range deletes {
		out[i] = table.Target{Tenant: d.Tenant, Session: d.Session, Partition: partition, Partitions: k.s.Partitions, Chunk: chunk,
			Bounded: d.Bounded()}
	}
	return out
}

// erase carries out the deletions of the span's chunks, all of them with one statement a table. All of the span is inserted.
func (l *lane) erase(ctx context.Context, s *span) error {
	chunks := s.deletions()
	var targets []table.Target
	var deletes []stream.Deletion
	for _, c := range chunks {
		targets = append(targets, l.k.targets(c.Partition, c.Number, c.Deletes)...)
		deletes = append(deletes, c.Deletes...)
	}
	if !l.marks.mark.Pending.Inserted {
		next := l.marks.mark.clone()
		next.Pending.Inserted = true
		err := l.persist(ctx, "count what is to be deleted", func(ctx context.Context) (err error) {
			next.Pending.Erased, next.Pending.Removed, err = l.k.countTargets(ctx, targets)
			return err
		})
		if err != nil {
			return err
		}
		if err := l.marks.write(ctx, next); err != nil {
			return err
		}
		if err := l.durable(ctx); err != nil {
			return err
		}
	}
	if err := l.step("erase"); err != nil {
		return err
	}
	began := time.Now()
	if err := l.persist(ctx, "delete rows", func(ctx context.Context) error {
		return l.k.deleteTargets(ctx, targets, l.marks.mark.Pending.Removed)
	}); err != nil {
		return err
	}
	if err := l.persist(ctx, "forget what a purged tenant had stored", func(ctx context.Context) error {
		return l.k.forgetStored(ctx, deletes)
	}); err != nil {
		return err
	}
	if err := l.step("erased"); err != nil {
		return err
	}
	orphans := map[string]map[string]uint64{}
	for _, tenant := range l.k.unlinked(deletes, l.marks.mark.Pending.Erased) {
		orphans[tenant] = map[string]uint64{}
		if err := l.persist(ctx, "delete contents", func(ctx context.Context) error {
			return l.k.deleteOrphans(ctx, tenant, orphans[tenant])
		}); err != nil {
			return err
		}
	}
	if err := l.step("swept"); err != nil {
		return err
	}
	records := make([]stream.DeletionRecord, 0, len(deletes))
	for _, c := range chunks {
		for _, d := range c.Deletes {
			records = append(records, stream.DeletionRecord{ID: d.ID, Tenant: d.Tenant, Token: d.Token(),
				Partition: c.Partition, Rows: map[string]uint64{}})
		}
	}
	var rows uint64
	for _, e := range l.marks.mark.Pending.Erased {
		if e.Deletion < len(records) {
			records[e.Deletion].Rows[e.Table] = e.Rows
			rows += e.Rows
		}
	}
	for i := range records { // it does not matter whose contents they were: they are counted in the first deletion's record
		r := &records[i]
		for name, n := range orphans[r.Tenant] {
			r.Rows[name] += n
			rows += n
		}
		delete(orphans, r.Tenant)
	}
	if err := l.persist(ctx, "clean the streams", func(ctx context.Context) error {
		return l.k.cleanStreams(ctx, chunks, records)
	}); err != nil {
		return err
	}
	l.k.met.deletions.Add(float64(len(deletes)))
	for i := range records {
		if r := &records[i]; i < 10 {
			l.log.Info("deleted", "tenant", r.Tenant, "session_token", r.Token, "messages", r.Messages, "keys", r.Keys, "objects", r.Objects)
		}
	}
	l.log.Info("deletions are carried out", "deletions", len(deletes), "rows", rows, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// erasedOf returns what is to be checked once more after the span's deletions are carried out.
func (l *lane) erasedOf(s *span) (out []erased) {
	first := 0
	for _, c := range s.deletions() {
		var own []erasure
		for _, e := range l.marks.mark.Pending.Erased {
			e.Deletion -= first
			if e.Deletion >= 0 && e.Deletion < len(c.Deletes) {
				own = append(own, e)
			}
		}
		out = append(out, erased{Partition: c.Partition, Chunk: c.Number, Deletes: c.Deletes, Unlinked: l.k.unlinked(c.Deletes, own),
			At: time.Now().UTC()})
		first += len(c.Deletes)
	}
	return out
}

// persist tries until f succeeds, or until the lane is asked to stop between two tries.
func (l *lane) persist(ctx context.Context, what string, f func(context.Context) error) error {
	pause := newPause(5 * time.Second)
	for {
		err := f(ctx)
		if err == nil {
			l.k.health.ok(l.n)
			return nil
		}
		reason := l.retry(what, err)
		wait := pause.next()
		if reason == reasonRefused {
			wait = 30 * time.Second
		}
		if l.stopping() || !sleep(l.ctx, wait) {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}

// countTargets returns how many rows each deletion will take from each table, and how many all take from each ClickHouse partition.
func (k *Sink) countTargets(ctx context.Context, targets []table.Target) (each []erasure, all []removal, err error) {
	tables := k.cfg.Schema.Tables()
	held, found := make([][]removal, len(tables)), make([][]erasure, len(tables))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(k.atOnce())
	for i, t := range tables {
		g.Go(func() (err error) {
			if held[i], err = k.heldOf(ctx, t, targets); err != nil || len(held[i]) == 0 {
				return err
			}
			found[i], err = k.countIn(ctx, t, targets)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, nil, err
	}
	all = []removal{} // not nil: it is known which
	return slices.Concat(found...), append(all, slices.Concat(held...)...), nil
}

// heldOf returns what a table has of targets, by tenant and ClickHouse partition.
func (k *Sink) heldOf(ctx context.Context, t *table.Table, targets []table.Target) (out []removal, err error) {
	where := t.ConditionSQL(targets)
	if where == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	if k.cfg.Replicated {
		if err := k.native.Exec(ctx, "SYSTEM SYNC REPLICA "+name(k.cfg.Database)+"."+name(t.Name)); err != nil {
			return nil, fmt.Errorf("wait for the replica: %w", err)
		}
	}
	rows, err := k.native.Query(longSQL(ctx), t.HeldByTenantSQL(k.options(), where))
	if err != nil {
		return nil, fmt.Errorf("count in %s: %w", t.Name, err)
	}
	defer rows.Close()
	for rows.Next() {
		r := removal{Table: t.Name}
		if err := rows.Scan(&r.Tenant, &r.Day, &r.RetentionDays, &r.Rows, &r.Amount); err != nil {
			return nil, fmt.Errorf("count in %s: %w", t.Name, err)
		}
		out = append(out, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("count in %s: %w", t.Name, err)
	}
	return out, nil
}

// countIn returns how many rows each deletion will take from a table.
func (k *Sink) countIn(ctx context.Context, t *table.Table, targets []table.Target) (out []erasure, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, err := k.native.Query(longSQL(ctx), t.CountSQL(k.options(), targets))
	if err != nil {
		return nil, fmt.Errorf("count in %s: %w", t.Name, err)
	}
	defer rows.Close()
	for rows.Next() {
		var i int64
		e := erasure{Table: t.Name}
		if err := rows.Scan(&i, &e.Rows); err != nil {
			return nil, fmt.Errorf("count in %s: %w", t.Name, err)
		}
		e.Deletion = int(i)
		out = append(out, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("count in %s: %w", t.Name, err)
	}
	return out, nil
}

// atOnce is how many tables are asked at the same time. Replicas are asked through one connection.
func (k *Sink) atOnce() int {
	if k.cfg.Replicated {
		return 1
	}
	return atOnce
}

// longSQL lets a statement name hundreds of sessions by their ids.
func longSQL(ctx context.Context) context.Context {
	return clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"max_query_size": 16 << 20, "max_ast_elements": 1 << 20,
		"max_expanded_ast_elements": 1 << 20}))
}

func (k *Sink) options() table.Options {
	return table.Options{Database: k.cfg.Database, Replicated: k.cfg.Replicated, Cluster: k.cfg.Cluster}
}

var errRewriting = errors.New("clickhouse is still writing data parts anew without the deleted rows")

// deleteTargets returns nil when no table has rows of targets any more. It does not start a second rewrite while one is running, and
// returns errRewriting when that takes long: then it is called again. known is what was found before, which it begins with; nil: nobody
// has looked.
func (k *Sink) deleteTargets(ctx context.Context, targets []table.Target, known []removal) error {
	deadline := time.Now().Add(queryTimeout)
	for round := 0; ; round++ {
		if err := k.awaitMutations(ctx, deadline); err != nil {
			return err
		}
		some := round == 0 && known != nil && k.cfg.Cluster == ""
		var left atomic.Int64
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(k.atOnce())
		for _, t := range k.cfg.Schema.Tables() {
			if some && !slices.ContainsFunc(known, func(r removal) bool { return r.Table == t.Name }) {
				continue
			}
			g.Go(func() error {
				began, err := k.deleteIn(ctx, t, targets, round == 0)
				if began {
					left.Add(1)
				}
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		if left.Load() == 0 && !some {
			return nil
		}
		if round > 3 {
			return errors.New("clickhouse says that it has deleted the rows, and still has them: was the mutation killed? see system.mutations")
		}
	}
}

// deleteIn begins to delete the rows of targets from a table, and reports whether there are any.
func (k *Sink) deleteIn(ctx context.Context, t *table.Table, targets []table.Target, first bool) (bool, error) {
	sql := t.DeleteSQL(k.options(), targets)
	if sql == "" {
		return false, nil
	}
	found, err := k.heldOf(ctx, t, targets)
	if err != nil {
		return false, err
	}
	// Another server of the cluster may have rows that this one does not: there the statement is sent once for every table.
	if len(found) == 0 && (k.cfg.Cluster == "" || !first) {
		return false, nil
	}
	try, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	if err := k.native.Exec(longSQL(try), sql); err != nil {
		return true, fmt.Errorf("delete from %s: %w", t.Name, err)
	}
	return true, nil
}

// awaitMutations waits until no deletion is being carried out in the database.
func (k *Sink) awaitMutations(ctx context.Context, deadline time.Time) error {
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		var running uint64
		var table, failed string
		ask, cancel := context.WithTimeout(ctx, queryTimeout)
		err := k.native.QueryRow(ask, "SELECT count(), any(table), max(latest_fail_reason) FROM system.mutations WHERE database = ? AND NOT "+
			"is_done AND position(command, 'DELETE WHERE') > 0", k.cfg.Database).Scan(&running, &table, &failed)
		cancel()
		switch {
		case err != nil:
			return fmt.Errorf("look at mutations: %w", err)
		case running == 0:
			return nil
		case failed != "" && time.Now().After(deadline):
			return fmt.Errorf("%w: %d tables, %s among them: %s", errRewriting, running, table, failed)
		case time.Now().After(deadline):
			return fmt.Errorf("%w: %d tables, %s among them", errRewriting, running, table)
		}
		if !sleep(ctx, wait) {
			return ctx.Err()
		}
	}
}

// lookAgain checks deletions whose time has come, see above. A failure is tried again the next time.
func (l *lane) lookAgain(ctx context.Context) {
	for ctx.Err() == nil {
		due := dueAgain(l.marks.mark.Erased, time.Now(), l.k.again)
		if due == 0 {
			return
		}
		var targets []table.Target
		var deletes []stream.Deletion
		var unlinked []string
		for _, e := range l.marks.mark.Erased[:due] {
			targets = append(targets, l.k.targets(e.Partition, e.Chunk, e.Deletes)...)
			deletes, unlinked = append(deletes, e.Deletes...), append(unlinked, e.Unlinked...)
		}
		found, _, err := l.k.countTargets(ctx, targets)
		if err == nil && len(found) > 0 {
			l.log.Warn("rows of a deleted session came back by an insert that was on its way; deleting them again", "tables", len(found))
			err = l.k.deleteTargets(ctx, targets, nil)
		}
		unlinked = append(unlinked, l.k.unlinked(deletes, found)...)
		slices.Sort(unlinked)
		for _, tenant := range slices.Compact(unlinked) {
			if err == nil {
				err = l.k.deleteOrphans(ctx, tenant, map[string]uint64{})
			}
		}
		if err != nil {
			l.log.Debug("look after a deletion", "err", err)
			return
		}
		next := l.marks.mark.clone()
		next.Erased = slices.Clone(next.Erased[due:])
		if l.marks.write(ctx, next) != nil {
			return // the next step of the lane fails in the same way
		}
	}
}

// dueAgain is how many of the oldest deletions, by chunk, are to be checked together now: those whose time is over; and when there are too
// many, as many as leave half of the room, so that the next ones fit.
func dueAgain(all []erased, now time.Time, after time.Duration) (n int) {
	total := 0
	for i := range all {
		total += len(all[i].Deletes)
	}
	most := maxErased
	if total > most {
		most /= 2
	}
	for of := 0; n < len(all) && of <= mostDeletes && (now.Sub(all[n].At) >= after || total > most); n++ {
		of += len(all[n].Deletes)
		total -= len(all[n].Deletes)
	}
	return n
}
