package bench

import (
	"context"
	"fmt"
	"strconv"

	"github.com/warpline/warpline/sink/table"
)

// Rest is what data takes on disk after everything has merged: bytes_on_disk of active data parts.
type Rest struct {
	Total       int64       `json:"total_bytes"`
	KernelRows  int64       `json:"kernel_rows"`
	KernelBytes int64       `json:"kernel_bytes"` // of kernels_data
	Tables      []TableSize `json:"tables"`
	// Coarse is the total once raw rows have expired and minutes have become hours; -1: not measured.
	Coarse       int64       `json:"coarse_bytes"`
	CoarseTables []TableSize `json:"coarse_tables,omitempty"`
}

// TableSize is one table at rest.
type TableSize struct {
	Name    string       `json:"name"`
	Rows    int64        `json:"rows"`
	Bytes   int64        `json:"bytes"`
	Columns []ColumnSize `json:"columns,omitempty"`
}

// ColumnSize is one column of it in a file of its own, marks included. In small data parts, which have one file, columns together weigh
// less.
type ColumnSize struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// Databases of the bench's own: where rollups are aged, and where tables are copied to weigh their columns. Both are dropped again.
const coarseDatabase, wideDatabase = "warpline_bench_aged", "warpline_bench_wide"

// measureRest merges everything and adds it up. With age, it also weighs every column, copies rollups as if they had been received
// before the time at which they coarsen, and lets TTL work on the copies.
func measureRest(ctx context.Context, sql SQL, schema *table.Schema, age bool) (*Rest, error) {
	r := &Rest{Coarse: -1}
	if err := optimize(ctx, sql, sql.database()); err != nil {
		return nil, err
	}
	var err error
	r.Tables, err = sizes(ctx, sql, sql.database())
	if err != nil {
		return nil, err
	}
	for _, t := range r.Tables {
		r.Total += t.Bytes
		if t.Name == "kernels_data" {
			r.KernelRows, r.KernelBytes = t.Rows, t.Bytes
		}
	}
	if !age {
		return r, nil
	}
	defer func() {
		for _, db := range []string{coarseDatabase, wideDatabase} {
			sql.do(context.WithoutCancel(ctx), "DROP DATABASE IF EXISTS "+db+" SYNC")
		}
	}()
	if err := columns(ctx, sql, sql.database(), r.Tables); err != nil {
		return nil, err
	}
	if err := copyAged(ctx, sql, schema, r.Tables); err != nil {
		return nil, fmt.Errorf("age the rollups: %w", err)
	}
	if err := optimize(ctx, sql, coarseDatabase); err != nil {
		return nil, err
	}
	r.CoarseTables, err = sizes(ctx, sql, coarseDatabase)
	if err != nil {
		return nil, err
	}
	if err := columns(ctx, sql, coarseDatabase, r.CoarseTables); err != nil {
		return nil, err
	}
	r.Coarse = 0
	for _, t := range r.CoarseTables {
		r.Coarse += t.Bytes
	}
	return r, nil
}

// copyAged copies everything but raw tables into another database, received so long ago that minutes become hours.
func copyAged(ctx context.Context, sql SQL, schema *table.Schema, tables []TableSize) error {
	if err := sql.do(ctx, "CREATE DATABASE IF NOT EXISTS "+coarseDatabase); err != nil {
		return err
	}
	for _, size := range tables {
		t := schema.Table(size.Name)
		if t != nil && t.Retention == table.Raw {
			continue
		}
		to := coarseDatabase + "." + size.Name
		if err := sql.do(ctx, fmt.Sprintf("CREATE TABLE %s AS %s.%s", to, sql.database(), size.Name)); err != nil {
			return err
		}
		columns := "*"
		if t != nil && t.Column("received_day") != nil {
			columns = fmt.Sprintf("* REPLACE (received_day - %d AS received_day)", table.CoarsenDays+1)
		}
		if err := sql.do(ctx, fmt.Sprintf("INSERT INTO %s SELECT %s FROM %s.%s", to, columns, sql.database(), size.Name)); err != nil {
			return err
		}
	}
	return nil
}

// optimize merges every table of a database to one data part per ClickHouse partition.
func optimize(ctx context.Context, sql SQL, database string) error {
	rows, err := sql.rows(ctx, fmt.Sprintf("SELECT name FROM system.tables WHERE database = '%s' AND engine LIKE '%%MergeTree' ORDER BY name",
		database))
	if err != nil {
		return err
	}
	for _, r := range rows {
		if err := sql.do(ctx, fmt.Sprintf("OPTIMIZE TABLE %s.%s FINAL", database, r[0])); err != nil {
			return fmt.Errorf("merge %s: %w", r[0], err)
		}
	}
	return nil
}

// sizes adds up active data parts by table, largest first.
func sizes(ctx context.Context, sql SQL, database string) ([]TableSize, error) {
	rows, err := sql.rows(ctx, fmt.Sprintf("SELECT table, sum(rows), sum(bytes_on_disk) FROM system.parts WHERE active AND database = '%s' "+
		"GROUP BY table ORDER BY 3 DESC", database))
	if err != nil {
		return nil, err
	}
	var out []TableSize
	for _, r := range rows {
		n, bytes, err := twoNumbers(r[1], r[2])
		if err != nil {
			return nil, err
		}
		out = append(out, TableSize{Name: r[0], Rows: n, Bytes: bytes})
	}
	return out, nil
}

// columns fills in what each column weighs. Small data parts keep all columns in one file and do not say it, so each table is copied to one
// that has a file for every column.
func columns(ctx context.Context, sql SQL, database string, tables []TableSize) error {
	for i := range tables {
		from, to := database+"."+tables[i].Name, wideDatabase+"."+tables[i].Name
		for _, q := range []string{
			"CREATE DATABASE IF NOT EXISTS " + wideDatabase,
			fmt.Sprintf("CREATE TABLE %s AS %s", to, from),
			fmt.Sprintf("ALTER TABLE %s MODIFY SETTING min_bytes_for_wide_part = 0, min_rows_for_wide_part = 0", to),
			fmt.Sprintf("INSERT INTO %s SELECT * FROM %s", to, from),
			fmt.Sprintf("OPTIMIZE TABLE %s FINAL", to),
		} {
			if err := sql.do(ctx, q); err != nil {
				return fmt.Errorf("columns of %s: %w", tables[i].Name, err)
			}
		}
		rows, err := sql.rows(ctx, fmt.Sprintf("SELECT column, sum(column_bytes_on_disk), 0 FROM system.parts_columns WHERE active AND "+
			"database = '%s' AND table = '%s' GROUP BY column ORDER BY 2 DESC, column", wideDatabase, tables[i].Name))
		if err != nil {
			return err
		}
		for _, r := range rows {
			bytes, _, err := twoNumbers(r[1], r[2])
			if err != nil {
				return err
			}
			tables[i].Columns = append(tables[i].Columns, ColumnSize{r[0], bytes})
		}
	}
	return sql.do(ctx, "DROP DATABASE IF EXISTS "+wideDatabase+" SYNC")
}

func twoNumbers(a, b string) (x, y int64, err error) {
	x, err = strconv.ParseInt(a, 10, 64)
	if err == nil {
		y, err = strconv.ParseInt(b, 10, 64)
	}
	return x, y, err
}
