package sink

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// synced are the settings with which a table's data parts survive a power cut. A merged data part is as new as an inserted one: without the
// last two settings its sources may be deleted while it is only in the page cache.
var synced = []string{"fsync_after_insert", "fsync_part_directory", "min_rows_to_fsync_after_merge",
	"min_compressed_bytes_to_fsync_after_merge"}

// syncTables makes ClickHouse sync what it writes: for Config.Fsync on a server whose own defaults do not. The embedded engine's defaults
// do, in both durabilities.
func (k *Sink) syncTables(ctx context.Context) error {
	var on uint64
	ask := "SELECT count() FROM system.merge_tree_settings WHERE value = '1' AND name IN ('" + strings.Join(synced, "', '") + "')"
	if err := k.native.QueryRow(ctx, ask).Scan(&on); err != nil {
		return fmt.Errorf("schema: read the server's table settings: %w", err)
	}
	if on == uint64(len(synced)) {
		return nil
	}
	for _, t := range k.cfg.Schema.Tables() {
		if err := k.native.Exec(ctx, "ALTER TABLE "+name(k.cfg.Database)+"."+name(t.Name)+" MODIFY SETTING "+strings.Join(synced, " = 1, ")+
			" = 1"); err != nil {
			return fmt.Errorf("schema: make %s durable: %w", t.Name, err)
		}
	}
	return nil
}

// durable waits until chunks and marks are on disk. ClickHouse syncs what it is given, so without this a power cut could leave it ahead of
// them: rows whose chunk is gone would come again in another chunk, or rows would be deleted and nothing remember the deletion. It tries
// until the lane is asked to stop: a disk that cannot be written may be full for a while.
func (l *lane) durable(ctx context.Context) error {
	pause := newPause(5 * time.Second)
	for {
		began := time.Now()
		err := l.k.s.Durable(ctx)
		if err == nil {
			l.k.met.barrierSeconds.Observe(time.Since(began).Seconds())
			return nil
		}
		l.retry("sync NATS's files", fmt.Errorf("%w: %w", errSync, err))
		if l.stopping() || !sleep(l.ctx, pause.next()) {
			return err
		}
	}
}
