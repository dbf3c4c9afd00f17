package table

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/zeebo/xxh3"
)

// historyDDL makes the table that says which schemas this database had, and since when.
const historyDDL = "CREATE TABLE IF NOT EXISTS %s.schema_history%s (fingerprint String, " +
	"applied_at DateTime64(3, 'UTC') DEFAULT now64(3)) " +
	"ENGINE = %s ORDER BY applied_at SETTINGS non_replicated_deduplication_window = 100"

// Fingerprint identifies a version of the whole schema, views included.
func (s *Schema) Fingerprint(o Options) string {
	h := xxh3.New()
	for _, t := range s.tables {
		fmt.Fprintln(h, t.DDL(o))
	}
	for _, v := range s.Views(o) {
		fmt.Fprintln(h, v.Body)
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// Ensure brings the database to this program's schema: it creates what is missing, adds columns and indexes that older versions did not
// have, gives columns this version's codecs, and replaces views whose text changed. It never drops or rewrites a table. Each step may be
// repeated, so that it is safe to run again, by several processes at once, and after it was killed half-way. conn is used by one goroutine
// and stays open.
func (s *Schema) Ensure(ctx context.Context, conn driver.Conn, o Options) error {
	var err error
	o.lacks, err = probe(ctx, conn)
	if err != nil {
		return err
	}
	db := ident(o.database())
	run := func(what, sql string) error {
		if err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("schema: %s: %w; the user needs the right to create and alter in database %s", what, err, o.database())
		}
		return nil
	}
	if err := run("create database", "CREATE DATABASE IF NOT EXISTS "+db+o.onCluster()); err != nil {
		return err
	}
	if err := run("create schema_history", fmt.Sprintf(historyDDL, db, o.onCluster(), o.engine("MergeTree"))); err != nil {
		return err
	}
	for _, t := range s.tables {
		if err := run("create "+t.Name, t.DDL(o)); err != nil {
			return err
		}
	}
	if err := s.addColumns(ctx, conn, o, run); err != nil {
		return err
	}
	if err := s.addSkips(ctx, conn, o, run); err != nil {
		return err
	}
	if err := s.recode(ctx, conn, o, run); err != nil {
		return err
	}
	if err := s.replaceViews(ctx, conn, o, run); err != nil {
		return err
	}
	return s.record(ctx, conn, o)
}

// probe returns which of the lean settings the server does not know.
func probe(ctx context.Context, conn driver.Conn) (lacks []string, err error) {
	have, err := pairs(ctx, conn, "SELECT name, '' FROM system.merge_tree_settings")
	if err != nil {
		return nil, err
	}
	for _, l := range append(slices.Clip(lean), leanOfFew) {
		if !have[[2]string{l[0], ""}] {
			lacks = append(lacks, l[0])
		}
	}
	return lacks, nil
}

// addColumns adds to each table the columns that it does not have yet, each after the one that precedes it here. Old rows
// then show the type's zero: a new column that takes a minimum needs a new table instead, or 0 stays the minimum.
func (s *Schema) addColumns(ctx context.Context, conn driver.Conn, o Options, run func(what, sql string) error) error {
	have, err := pairs(ctx, conn, "SELECT table, name FROM system.columns WHERE database = $1", o.database())
	if err != nil {
		return err
	}
	for _, t := range s.tables {
		for i := range t.Columns {
			c := &t.Columns[i]
			if have[[2]string{t.Name, c.Name}] {
				continue
			}
			place := "FIRST"
			if i > 0 {
				place = "AFTER " + ident(t.Columns[i-1].Name)
			}
			sql := fmt.Sprintf("ALTER TABLE %s.%s%s ADD COLUMN IF NOT EXISTS %s %s", ident(o.database()), ident(t.Name), o.onCluster(),
				c.definition(), place)
			if err := run("add column "+t.Name+"."+c.Name, sql); err != nil {
				return err
			}
		}
	}
	return nil
}

// addSkips adds to each table the indexes that it does not have yet. Data parts that are there get them when they are merged; until then
// they are read as before.
func (s *Schema) addSkips(ctx context.Context, conn driver.Conn, o Options, run func(what, sql string) error) error {
	have, err := pairs(ctx, conn, "SELECT table, name FROM system.data_skipping_indices WHERE database = $1", o.database())
	if err != nil {
		return err
	}
	for _, t := range s.tables {
		for _, column := range t.Skips {
			if have[[2]string{t.Name, column}] {
				continue
			}
			sql := fmt.Sprintf("ALTER TABLE %s.%s%s ADD INDEX IF NOT EXISTS %s", ident(o.database()), ident(t.Name), o.onCluster(), skip(column))
			if err := run("add index "+t.Name+"."+column, sql); err != nil {
				return err
			}
		}
	}
	return nil
}

// recode gives columns and tables the codecs and the lean settings of this version. Nothing is rewritten: data parts that are there stay as
// they are until they are merged, and are read as before.
func (s *Schema) recode(ctx context.Context, conn driver.Conn, o Options, run func(what, sql string) error) error {
	codecs, err := pairs(ctx, conn, "SELECT concat(table, '.', name), compression_codec FROM system.columns WHERE database = $1", o.database())
	if err != nil {
		return err
	}
	few, err := pairs(ctx, conn, "SELECT name, '' FROM system.tables WHERE database = $1 AND engine_full LIKE $2", o.database(),
		"%"+leanOfFew[0]+" = "+leanOfFew[1]+"%")
	if err != nil {
		return err
	}
	for _, t := range s.tables {
		var changes []string
		for i := range t.Columns {
			c := &t.Columns[i]
			if !codecs[[2]string{t.Name + "." + c.Name, c.storedCodec()}] {
				changes = append(changes, fmt.Sprintf("MODIFY COLUMN %s CODEC(%s)", ident(c.Name), c.Codec))
			}
		}
		if t.few && !slices.Contains(o.lacks, leanOfFew[0]) && !few[[2]string{t.Name, ""}] {
			changes = append(changes, "MODIFY SETTING "+leanOfFew[0]+" = "+leanOfFew[1])
		}
		if changes == nil {
			continue
		}
		sql := fmt.Sprintf("ALTER TABLE %s.%s%s %s", ident(o.database()), ident(t.Name), o.onCluster(), strings.Join(changes, ", "))
		if err := run("codecs of "+t.Name, sql); err != nil {
			return err
		}
	}
	return nil
}

// replaceViews replaces views, except those whose comment says that they have this program's text.
func (s *Schema) replaceViews(ctx context.Context, conn driver.Conn, o Options, run func(what, sql string) error) error {
	have, err := pairs(ctx, conn, "SELECT name, comment FROM system.tables WHERE database = $1", o.database())
	if err != nil {
		return err
	}
	for _, v := range s.Views(o) {
		if have[[2]string{v.Name, v.mark()}] {
			continue
		}
		if err := run("create view "+v.Name, v.DDL(o)); err != nil {
			return err
		}
	}
	return nil
}

// record notes the schema, once for each change.
func (s *Schema) record(ctx context.Context, conn driver.Conn, o Options) error {
	want := s.Fingerprint(o)
	db := ident(o.database())
	var last string
	if err := conn.QueryRow(ctx, "SELECT argMax(fingerprint, applied_at) FROM "+db+".schema_history").Scan(&last); err != nil {
		return fmt.Errorf("schema: read schema_history: %w", err)
	}
	if last == want {
		return nil
	}
	// Two processes that get here together write the same: the token makes it one row.
	sql := fmt.Sprintf("INSERT INTO %s.schema_history (fingerprint) SETTINGS insert_deduplication_token = %s, async_insert = 0 VALUES (%s)",
		db, Quote(last+">"+want), Quote(want))
	if err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("schema: write schema_history: %w", err)
	}
	return nil
}

// pairs reads two columns of strings as a set.
func pairs(ctx context.Context, conn driver.Conn, sql string, args ...any) (map[[2]string]bool, error) {
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	set := map[[2]string]bool{}
	for rows.Next() {
		var p [2]string
		err = rows.Scan(&p[0], &p[1])
		if err != nil {
			break
		}
		set[p] = true
	}
	if err := errors.Join(err, rows.Err(), rows.Close()); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return set, nil
}
