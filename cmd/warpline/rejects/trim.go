package rejects

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/table"
)

// Trimmer drops the oldest rejects of tenants that have more bytes of them than one may, with what NATS has of them. It drops as a person
// does, so the books balance whatever is killed. Conn is of a user who may write, and its database is Warpline's.
type Trimmer struct {
	Streams *broker.Streams
	Conn    driver.Conn
	Most    int64 // bytes that are kept of a tenant, in ClickHouse and in NATS; 0: any number
}

// Trimmed is what was dropped of a tenant.
type Trimmed struct {
	Tenant      string
	Rows        uint64
	Bytes, Kept uint64 // kept bytes of before, and of those what stays
}

const (
	// maxKinds is how many kinds of rejects have their newest kept: far more than there are reasons and types of events.
	maxKinds = 1000
	// maxRows bounds how many of the newest are kept.
	maxRows = 4 << 20
	// trimTime bounds a question: they read what is kept of rejects.
	trimTime = 5 * time.Minute
)

// Trim finishes a drop that was cut short, whoever began it. Then it drops, and returns what of each tenant. Whoever is over the limit
// keeps the newest half of it, so that little is dropped often, and of each kind (source, reason and type) the newest reject, as long as
// these take no more than a quarter. What came in one part is kept or dropped together.
func (t Trimmer) Trim(ctx context.Context) (done []Trimmed, err error) {
	if _, err := t.dropper().Finish(ctx); err != nil || t.Most <= 0 {
		return nil, err
	}
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"max_execution_time": int(trimTime / time.Second)}))
	if within, err := t.within(ctx); err != nil || within {
		return nil, err
	}
	all, objects, err := t.holdings(ctx)
	if err != nil {
		return nil, fmt.Errorf("read how much is kept of rejects: %w", err)
	}
	for _, of := range all {
		if of.Bytes <= uint64(t.Most) {
			continue
		}
		if err := t.trim(ctx, &of, objects); err != nil {
			return done, fmt.Errorf("drop the oldest rejects of tenant %s: %w", of.Tenant, err)
		}
		if of.Rows > 0 {
			done = append(done, of)
		}
	}
	return done, nil
}

func (t Trimmer) dropper() sink.Dropper { return sink.Dropper{Streams: t.Streams, Conn: t.Conn} }

// within reports that all tenants together have no more than one may.
func (t Trimmer) within(ctx context.Context) (bool, error) {
	var rows uint64
	if err := t.Conn.QueryRow(ctx, "SELECT sum(data_uncompressed_bytes) FROM system.parts WHERE active AND database = currentDatabase() AND "+
		"table = $1", table.Rejects.Name).Scan(&rows); err != nil {
		return false, fmt.Errorf("read how much is kept of rejects: %w", err)
	}
	lines, err := t.Streams.JS.Stream(ctx, "OBJ_"+stream.PartsObjects)
	if err != nil {
		return false, fmt.Errorf("read how much NATS keeps of rejects: %w", err)
	}
	return rows+lines.CachedInfo().State.Bytes <= uint64(t.Most), nil
}

// holdings returns what each tenant has, and how large the objects in NATS are to which rejects refer, by payload_ref.
func (t Trimmer) holdings(ctx context.Context) (all []Trimmed, objects map[string]uint64, err error) {
	named, err := t.dropper().FreeUnnamed(ctx)
	if err != nil {
		return nil, nil, err
	}
	objects = map[string]uint64{}
	inNATS := map[string]uint64{} // by tenant
	for _, o := range named {
		objects[o.Ref] = o.Bytes
		inNATS[o.Tenant] += o.Bytes
	}
	rows, err := t.Conn.Query(ctx, fmt.Sprintf("SELECT toString(tenant) AS owner, sum(length(payload)) FROM %s GROUP BY owner ORDER BY owner",
		table.Rejects.Name))
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var of Trimmed
		if err := rows.Scan(&of.Tenant, &of.Bytes); err != nil {
			return nil, nil, err
		}
		of.Bytes += inNATS[of.Tenant]
		all = append(all, of)
	}
	return all, objects, rows.Err()
}

func (t Trimmer) trim(ctx context.Context, of *Trimmed, objects map[string]uint64) error {
	from, err := t.cut(ctx, of, objects)
	if err != nil || from == 0 {
		return err
	}
	old := fmt.Sprintf("tenant = %s AND at < fromUnixTimestamp64Nano(%d)", table.Quote(of.Tenant), from)
	spared, err := t.kinds(ctx, of, from, objects)
	if err != nil {
		return err
	}
	if len(spared) > 0 {
		old += " AND " + idSQL + " NOT IN (" + strings.Join(spared, ", ") + ")"
	}
	of.Rows, err = t.dropper().Drop(ctx, table.Rejects.Table, old)
	return err
}

// cut returns from which time on rejects are kept, 0 when all of them are of one time. It reads the newest alone.
func (t Trimmer) cut(ctx context.Context, of *Trimmed, objects map[string]uint64) (from int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // what is older is not read
	rows, err := t.Conn.Query(ctx, fmt.Sprintf("SELECT toUnixTimestamp64Nano(at), length(payload), payload_ref FROM %s WHERE tenant = %s "+
		"ORDER BY at DESC", table.Rejects.Name, table.Quote(of.Tenant)))
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var last int64 // whose rejects, of so many bytes, are not looked at yet
	var together uint64
	counted := map[string]bool{} // rejects of a part share its object
	for n := 0; rows.Next(); n++ {
		var at int64
		var bytes uint64
		var ref string
		if err := rows.Scan(&at, &bytes, &ref); err != nil {
			return 0, err
		}
		if inNATS := objects[ref]; inNATS > 0 && !counted[ref] {
			counted[ref] = true
			bytes += inNATS
		}
		if at != last && last != 0 {
			if from != 0 && (of.Kept+together > uint64(t.Most)/2 || n > maxRows) {
				return from, nil
			}
			from, of.Kept, together = last, of.Kept+together, 0
		}
		last, together = at, together+bytes
	}
	if from != 0 && of.Kept+together > uint64(t.Most)/2 { // the oldest
		return from, rows.Err()
	}
	return 0, rows.Err()
}

// kinds returns the newest reject of each kind of which none is from then on, as literals of SQL.
func (t Trimmer) kinds(ctx context.Context, of *Trimmed, from int64, objects map[string]uint64) (spared []string, err error) {
	rows, err := t.Conn.Query(ctx, fmt.Sprintf("SELECT (argMax((%s, length(payload), payload_ref), at) AS newest).1, newest.2, newest.3 "+
		"FROM %s WHERE tenant = %s GROUP BY source, reason, type HAVING max(at) < fromUnixTimestamp64Nano(%d) ORDER BY max(at) DESC LIMIT %d",
		idSQL, table.Rejects.Name, table.Quote(of.Tenant), from, maxKinds))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	left := uint64(t.Most) / 4
	for rows.Next() {
		var id, ref string
		var bytes uint64
		if err := rows.Scan(&id, &bytes, &ref); err != nil {
			return nil, err
		}
		bytes += objects[ref]
		if bytes > left {
			continue
		}
		left -= bytes
		of.Kept += bytes
		spared = append(spared, table.Quote(id))
	}
	return spared, rows.Err()
}
