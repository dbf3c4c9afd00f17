package sink

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"
)

// BrokenDataPart is a data part that ClickHouse could not read when it started, and set aside in the table's folder `detached`. Its rows
// are not in the table, unless the data parts from which it was merged were still there.
type BrokenDataPart struct {
	Table     string
	Partition string // ClickHouse's id of it: a day or a month, and the days that its rows are kept
	Name      string // its name below detached/
	Bytes     uint64 // on disk
}

// String names the data part for a person who looks for it.
func (b BrokenDataPart) String() string {
	return fmt.Sprintf("%s, partition %s, part %s (%d bytes)", b.Table, b.Partition, b.Name, b.Bytes)
}

// BrokenDataParts lists the data parts of a database that ClickHouse has set aside because it could not read them, by table and name. They
// stay listed until somebody removes them (ALTER TABLE … DROP DETACHED PART …). conn's user must be one that sees the tables.
func BrokenDataParts(ctx context.Context, conn driver.Conn, database string) ([]BrokenDataPart, error) {
	rows, err := conn.Query(ctx, "SELECT table, ifNull(partition_id, ''), name, toUInt64(bytes_on_disk) FROM system.detached_parts "+
		"WHERE database = $1 AND (reason LIKE 'broken%' OR reason LIKE 'covered-by-broken%') ORDER BY table, name", database)
	if err != nil {
		return nil, fmt.Errorf("list broken data parts: %w", err)
	}
	defer rows.Close()
	var all []BrokenDataPart
	for rows.Next() {
		var b BrokenDataPart
		if err := rows.Scan(&b.Table, &b.Partition, &b.Name, &b.Bytes); err != nil {
			return nil, fmt.Errorf("list broken data parts: %w", err)
		}
		all = append(all, b)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list broken data parts: %w", err)
	}
	return all, nil
}

// brokenEvery is how often a sink looks. Data parts are found broken when an engine starts, so the first look is at once.
const brokenEvery = 30 * time.Second

// Broken returns the data parts that ClickHouse has set aside, as of this sink's last look; it does not do I/O.
func (k *Sink) Broken() []BrokenDataPart {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.broken)
}

// watchBroken looks for data parts that were set aside and logs each once, until ctx ends.
func (k *Sink) watchBroken(ctx context.Context) {
	told := map[BrokenDataPart]bool{}
	for {
		ask, cancel := context.WithTimeout(ctx, queryTimeout)
		found, err := BrokenDataParts(ask, k.native, k.cfg.Database)
		cancel()
		if err == nil {
			k.mu.Lock()
			k.broken = found
			k.mu.Unlock()
			logBroken(k.log, found, told)
		}
		if !sleep(ctx, brokenEvery) {
			return
		}
	}
}

// logBroken writes one line a table for the data parts that were not logged before.
func logBroken(log *slog.Logger, found []BrokenDataPart, told map[BrokenDataPart]bool) {
	fresh := map[string][]string{}
	for _, b := range found {
		if !told[b] {
			told[b] = true
			fresh[b.Table] = append(fresh[b.Table], b.Name)
		}
	}
	for table, parts := range fresh {
		const most = 20
		names := strings.Join(parts[:min(most, len(parts))], " ")
		if len(parts) > most {
			names += fmt.Sprintf(" and %d more", len(parts)-most)
		}
		log.Error("ClickHouse cannot read data parts of a table and has set them aside: their rows are missing unless the data parts that they "+
			"were merged from are still there", "table", table, "parts", names,
			"do", "warpline audit compares the tables with the ledger; then ALTER TABLE "+table+
				" DROP DETACHED PART '…' SETTINGS allow_drop_detached = 1 ends this message")
	}
}

var brokenDataParts = prometheus.NewDesc("warpline_sink_broken_parts", "Data parts that ClickHouse could not read and has set aside, all "+
	"tables together. Not 0 means that rows may be missing.", nil, nil)
