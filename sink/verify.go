package sink

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/warpline/warpline/sink/table"
)

// missingBlocks asks ClickHouse for the largest chunk number that each ROWS partition has in each ClickHouse partition of the load, and
// returns the blocks that are not there. Blocks whose rows may have expired by ClickHouse's own date count as arrived: they are meant to be
// gone, and sending them again would never end.
func (k *Sink) missingBlocks(ctx context.Context, l *load) (missing []*block, err error) {
	if k.cfg.Replicated {
		// Another replica may have taken the insert: this one must catch up before its answer counts.
		if err := k.native.Exec(ctx, "SYSTEM SYNC REPLICA "+name(k.cfg.Database)+"."+name(l.name)); err != nil {
			return nil, fmt.Errorf("wait for the replica: %w", err)
		}
	}
	for _, p := range l.blocks {
		var expired uint8
		newest := make(map[int]uint64, len(p.newest))
		rows, err := k.native.Query(ctx, verifySQL(k.cfg.Database, l.table, p))
		if err != nil {
			return nil, fmt.Errorf("verify %s: %w", p.key, err)
		}
		for rows.Next() {
			var (
				partition int32
				chunk     uint64
			)
			err = rows.Scan(&partition, &chunk, &expired)
			if err != nil {
				break
			}
			newest[int(partition)] = chunk
		}
		rows.Close()
		if err == nil {
			err = rows.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("verify %s: %w", p.key, err)
		}
		if _, answered := newest[-1]; !answered {
			return nil, fmt.Errorf("verify %s: the answer was cut short", p.key)
		}
		for partition, chunk := range p.newest {
			if newest[partition] < chunk && expired == 0 {
				missing = append(missing, p)
				break
			}
		}
	}
	return missing, nil
}

// verifySQL asks for (ROWS partition, largest chunk, expired) of one ClickHouse partition. A row of partition -1 always comes, so that
// "nothing there" and "no answer" differ.
func verifySQL(database string, t *table.Table, p *block) string {
	in := make([]string, 0, len(p.newest))
	for _, n := range slices.Sorted(maps.Keys(p.newest)) {
		in = append(in, fmt.Sprint(n))
	}
	where := fmt.Sprintf("toYYYYMM(received_day) = toYYYYMM(toDate(%d))", p.partition.Day)
	if t.Retention == table.Raw {
		where = fmt.Sprintf("toDate(received_at) = toDate(%d)", p.partition.Day)
	}
	expired := fmt.Sprintf("toUInt8(toDate(%d) + toIntervalDay(%d) <= today())", p.received, p.partition.RetentionDays)
	return fmt.Sprintf("SELECT toInt32(rows_partition), toUInt64(max(chunk)), %[1]s FROM %[2]s.%[3]s WHERE %[4]s AND retention_days = %[5]d "+
		"AND rows_partition IN (%[6]s) GROUP BY rows_partition "+
		"UNION ALL SELECT toInt32(-1), toUInt64(0), %[1]s",
		expired, name(database), name(t.Name), where, p.partition.RetentionDays, strings.Join(in, ", "))
}
