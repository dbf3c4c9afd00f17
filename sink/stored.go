package sink

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// # What the rows of a tenant take at rest
//
// ClickHouse knows the size of each data part, which may have rows of many tenants. The sink that holds lane 0 shares it among them by the
// sizes of their rows before compression. A data part never changes, so each is read once, and only columns that say whose its rows are
// and how long. What comes out is one row for each tenant, day and source; the source follows from the books, since tables do not have it.
//
// A measurement is one insert into a ClickHouse partition of its own, and all but the one before it are dropped after it: readers, who take
// the newest, have one of them whole at any time. What is cut short, or done by two sinks at once, is replaced by the next measurement.

const (
	// measureEvery is the least time between two measurements. They take at most a 200th of a sink's time.
	measureEvery, measureShare = time.Minute, 200
	// maxShares bounds the shares of data parts that are remembered; data parts beyond are read again each time. Each takes 40 bytes.
	maxShares = 4 << 20
	// measureRounds is how often data parts are listed anew, because they were merged while they were read.
	measureRounds = 5
)

// share is what a tenant has of a data part.
type share struct {
	tenant string
	day    int32
	weight uint64
}

// dataPart names a data part. A table that was made anew has the same names, hardly with the same sizes.
type dataPart struct {
	table, name string
	rows, bytes uint64
}

// restKey is what is measured.
type restKey struct {
	tenant string
	day    int32
}

// atRest are bytes of Raw tables, and of the others.
type atRest struct{ raw, rollup float64 }

// measurer is what a sink remembers from one measurement to the next. It is not safe for concurrent use.
type measurer struct {
	k      *Sink
	shares map[dataPart][]share
	count  int // of shares
	names  map[string]string
	last   []table.StoredRow
}

func (k *Sink) newMeasurer() *measurer {
	return &measurer{k: k, shares: map[dataPart][]share{}, names: map[string]string{}}
}

// keepMeasuring measures until ctx ends.
func (k *Sink) keepMeasuring(ctx context.Context) {
	m, wait := k.newMeasurer(), 10*time.Second
	for sleep(ctx, wait) {
		k.mu.Lock()
		mine := k.lanes[0] != nil
		k.mu.Unlock()
		wait = measureEvery
		if !mine {
			m = k.newMeasurer()
			continue
		}
		began := time.Now()
		if err := m.measure(ctx); err != nil && ctx.Err() == nil {
			k.log.Warn("what tenants have stored could not be measured, it is tried again", "err", err)
			m.last = nil
		}
		wait = max(measureEvery, measureShare*time.Since(began))
	}
}

// MeasureStored writes what the rows of each tenant take at rest now. It may be called any number of times, by any number of sinks.
func (k *Sink) MeasureStored(ctx context.Context) error { return k.newMeasurer().measure(ctx) }

func (m *measurer) measure(ctx context.Context) error {
	rest, err := m.weigh(ctx)
	if err != nil {
		return err
	}
	rows, err := m.bySource(ctx, rest)
	if err != nil || m.last != nil && slices.Equal(rows, m.last) {
		return err
	}
	if err := m.k.stepMeasuring("weighed"); err != nil {
		return err
	}
	if err := m.k.writeStored(ctx, rows); err != nil {
		return err
	}
	m.last = rows
	return nil
}

// weigh shares the data parts among their tenants.
func (m *measurer) weigh(ctx context.Context) (map[restKey]atRest, error) {
	var parts map[*table.Table][]dataPart
	days := map[dataPart]int32{}
	var found map[dataPart][]share
	for range measureRounds {
		var err error
		if parts, err = m.list(ctx, days); err != nil {
			return nil, err
		}
		found = map[dataPart][]share{}
		lacks := false
		for t, of := range parts {
			gone, err := m.read(ctx, t, of, days, found)
			if err != nil {
				return nil, err
			}
			lacks = lacks || gone
		}
		if !lacks {
			break
		}
	}
	rest := map[restKey]atRest{}
	for t, of := range parts {
		for _, p := range of {
			shares, whole := found[p], uint64(0)
			for _, s := range shares {
				whole += s.weight
			}
			for _, s := range shares {
				key := restKey{s.tenant, s.day}
				r := rest[key]
				bytes := float64(p.bytes) * float64(s.weight) / float64(max(whole, 1))
				if t.Retention == table.Raw {
					r.raw += bytes
				} else {
					r.rollup += bytes
				}
				rest[key] = r
			}
		}
	}
	return rest, nil
}

// list returns the data parts of each table that has tenants, and forgets the shares of others. days gets the day of those whose rows are
// all of one.
func (m *measurer) list(ctx context.Context, days map[dataPart]int32) (map[*table.Table][]dataPart, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	byName := map[string]*table.Table{}
	for _, t := range m.k.cfg.Schema.Tables() {
		if t.Retention != table.Static && !t.Lasting && t.Column("tenant") != nil {
			byName[t.Name] = t
		}
	}
	rows, err := m.k.native.Query(ctx, "SELECT table, name, rows, bytes_on_disk, "+
		`toInt32(toUInt16(toDateOrZero(extract(partition, '^\\(\'([0-9-]{10})\'')))) FROM system.parts `+
		"WHERE active AND rows > 0 AND database = "+table.Quote(m.k.cfg.Database))
	if err != nil {
		return nil, fmt.Errorf("list the data parts: %w", err)
	}
	defer rows.Close()
	parts := map[*table.Table][]dataPart{}
	there := map[dataPart]bool{}
	for rows.Next() {
		var p dataPart
		var day int32
		if err := rows.Scan(&p.table, &p.name, &p.rows, &p.bytes, &day); err != nil {
			return nil, fmt.Errorf("list the data parts: %w", err)
		}
		if t := byName[p.table]; t != nil {
			parts[t] = append(parts[t], p)
			there[p], days[p] = true, day
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list the data parts: %w", err)
	}
	for p, of := range m.shares {
		if !there[p] {
			m.count -= len(of)
			delete(m.shares, p)
		}
	}
	return parts, nil
}

// read puts the shares of data parts of a table into found. gone says that some are not there any more.
func (m *measurer) read(ctx context.Context, t *table.Table, parts []dataPart, days map[dataPart]int32, found map[dataPart][]share) (
	gone bool, err error) {
	byName := map[string]dataPart{}
	var in []string
	for _, p := range parts {
		if of, known := m.shares[p]; known {
			found[p] = of
			continue
		}
		byName[p.name] = p
		in = append(in, table.Quote(p.name))
	}
	if len(in) == 0 {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*insertTimeout) // the first time reads all that is stored
	defer cancel()
	day := "toInt32(0)"
	if t.Retention != table.Raw {
		day = "toInt32(toUInt16(received_day))"
	}
	rows, err := m.k.native.Query(longSQL(ctx), fmt.Sprintf("SELECT _part, toString(tenant) AS t, %s AS d, toUInt64(sum(%s)) FROM %s.%s "+
		"WHERE _part IN (%s) GROUP BY _part, t, d SETTINGS max_threads = 2, max_execution_time = %d", day, t.WeightSQL(),
		name(m.k.cfg.Database), name(t.Name), strings.Join(in, ", "), int(5*insertTimeout/time.Second)))
	if err != nil {
		return false, fmt.Errorf("weigh the rows of %s: %w", t.Name, err)
	}
	defer rows.Close()
	for rows.Next() {
		var part, tenant string
		var s share
		if err := rows.Scan(&part, &tenant, &s.day, &s.weight); err != nil {
			return false, fmt.Errorf("weigh the rows of %s: %w", t.Name, err)
		}
		p, asked := byName[part]
		if !asked {
			continue
		}
		if s.tenant = m.names[tenant]; s.tenant == "" {
			s.tenant, m.names[tenant] = tenant, tenant
		}
		if t.Retention == table.Raw {
			s.day = days[p]
		}
		found[p] = append(found[p], s)
	}
	if err := rows.Err(); err != nil {
		return false, fmt.Errorf("weigh the rows of %s: %w", t.Name, err)
	}
	for _, p := range byName {
		of := found[p]
		gone = gone || of == nil
		if of != nil && m.count+len(of) <= maxShares {
			m.shares[p] = of
			m.count += len(of)
		}
	}
	return gone, nil
}

// bySource shares what came on a day among the sources of its tenant, as the books have it.
func (m *measurer) bySource(ctx context.Context, rest map[restKey]atRest) ([]table.StoredRow, error) {
	ctx, cancel := context.WithTimeout(ctx, insertTimeout)
	defer cancel()
	rows, err := m.k.native.Query(ctx, "SELECT toString(tenant) AS t, toInt32(toUInt16(day)) AS d, toString(source) AS s, "+
		"toUInt64(sum(stored_bytes)), toUInt64(sum(events)) FROM "+name(m.k.cfg.Database)+".usage_data GROUP BY t, d, s")
	if err != nil {
		return nil, fmt.Errorf("read the books: %w", err)
	}
	defer rows.Close()
	type sourced struct {
		source        string
		bytes, events float64
	}
	books := map[restKey][]sourced{}
	for rows.Next() {
		var key restKey
		var s sourced
		var bytes, events uint64
		if err := rows.Scan(&key.tenant, &key.day, &s.source, &bytes, &events); err != nil {
			return nil, fmt.Errorf("read the books: %w", err)
		}
		s.bytes, s.events = float64(bytes), float64(events)
		books[key] = append(books[key], s)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the books: %w", err)
	}
	moveMonths(rest, books)
	var out []table.StoredRow
	for _, key := range slices.SortedFunc(maps.Keys(rest), func(a, b restKey) int {
		return cmp.Or(strings.Compare(a.tenant, b.tenant), cmp.Compare(a.day, b.day))
	}) {
		of, r := books[key], rest[key]
		bytes, events := 0.0, 0.0
		for _, s := range of {
			bytes += s.bytes
			events += s.events
		}
		if bytes+events == 0 {
			of, events = []sourced{{events: 1}}, 1
		}
		slices.SortFunc(of, func(a, b sourced) int { return strings.Compare(a.source, b.source) })
		for _, s := range of {
			part := s.events / max(events, 1)
			if bytes > 0 {
				part = s.bytes / bytes
			}
			row := table.StoredRow{Tenant: key.tenant, Day: key.day, Source: s.source, RawBytes: uint64(r.raw * part),
				RollupBytes: uint64(r.rollup * part), Measurement: 0} // when it was measured is said of all at once, see writeStored
			if row.RawBytes+row.RollupBytes > 0 {
				out = append(out, row)
			}
		}
	}
	return out, nil
}

// moveMonths takes what was stored on the first of a month, on which nothing came, to the first day of that month on which something did:
// the books say of tables kept by month only the month.
func moveMonths[T any](rest map[restKey]atRest, books map[restKey]T) {
	first := map[restKey]int32{} // by tenant and first of the month
	for key := range books {
		month := restKey{key.tenant, firstOfMonth(key.day)}
		if day, seen := first[month]; !seen || key.day < day {
			first[month] = key.day
		}
	}
	for key, r := range rest {
		if day, seen := first[key]; seen && day != key.day {
			to := restKey{key.tenant, day}
			sum := rest[to]
			rest[to] = atRest{sum.raw + r.raw, sum.rollup + r.rollup}
			delete(rest, key)
		}
	}
}

// firstOfMonth returns the first day of a day's month, both in days since 1970.
func firstOfMonth(day int32) int32 {
	return day - int32(time.Unix(int64(day)*86400, 0).UTC().Day()) + 1
}

// writeStored replaces what was measured before.
func (k *Sink) writeStored(ctx context.Context, rows []table.StoredRow) error {
	ctx, cancel := context.WithTimeout(ctx, insertTimeout)
	defer cancel()
	at, now := name(k.cfg.Database)+"."+name(table.Stored.Name), uint64(time.Now().UnixNano())
	if len(rows) == 0 {
		return k.dropMeasurements(ctx, 0)
	}
	batch, err := k.native.PrepareBatch(ctx, "INSERT INTO "+at+" (tenant, measurement, day, source, raw_bytes, rollup_bytes) "+
		"SETTINGS insert_deduplicate = 0")
	if err != nil {
		return fmt.Errorf("write what tenants have stored: %w", err)
	}
	defer batch.Close()
	for i := range rows {
		r := &rows[i]
		if err := batch.Append(r.Tenant, now, time.Unix(int64(r.Day)*86400, 0).UTC(), r.Source, r.RawBytes, r.RollupBytes); err != nil {
			return fmt.Errorf("write what tenants have stored: %w", err)
		}
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("write what tenants have stored: %w", err)
	}
	if err := k.stepMeasuring("written"); err != nil {
		return err
	}
	return k.dropMeasurements(ctx, 2) // somebody may just have asked which is the newest
}

// dropMeasurements drops all but the newest ones.
func (k *Sink) dropMeasurements(ctx context.Context, keep int) error {
	rows, err := k.native.Query(ctx, fmt.Sprintf("SELECT partition_id FROM system.parts WHERE active AND database = %s AND table = %s "+
		"GROUP BY partition_id ORDER BY any(toUInt64OrZero(partition)) DESC LIMIT 1000 OFFSET %d", table.Quote(k.cfg.Database),
		table.Quote(table.Stored.Name), keep))
	if err != nil {
		return fmt.Errorf("list old measurements: %w", err)
	}
	var old []string
	for rows.Next() {
		var id string
		if err = rows.Scan(&id); err != nil {
			break
		}
		old = append(old, id)
	}
	rows.Close()
	if err := cmp.Or(err, rows.Err()); err != nil {
		return fmt.Errorf("list old measurements: %w", err)
	}
	for _, id := range old {
		if err := k.native.Exec(ctx, fmt.Sprintf("ALTER TABLE %s.%s DROP PARTITION ID %s", name(k.cfg.Database), name(table.Stored.Name),
			table.Quote(id))); err != nil {
			return fmt.Errorf("drop an old measurement: %w", err)
		}
	}
	return nil
}

// forgetStored deletes what was measured of purged tenants. A measurement that is under way may bring it once more, until the next.
func (k *Sink) forgetStored(ctx context.Context, deletes []stream.Deletion) error {
	if !k.has(table.Stored.Table) {
		return nil
	}
	var purged []string
	for i := range deletes {
		if deletes[i].Session == "" {
			purged = append(purged, table.Quote(deletes[i].Tenant))
		}
	}
	if len(purged) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	slices.Sort(purged)
	err := k.native.Exec(longSQL(ctx), fmt.Sprintf("ALTER TABLE %s.%s DELETE WHERE tenant IN (%s) SETTINGS mutations_sync = 1",
		name(k.cfg.Database), name(table.Stored.Name), strings.Join(slices.Compact(purged), ", ")))
	if err != nil {
		return fmt.Errorf("forget what a purged tenant had stored: %w", err)
	}
	return nil
}

// stepMeasuring is where tests end a measurement as a crash would.
func (k *Sink) stepMeasuring(step string) error {
	if k.step == nil {
		return nil
	}
	return k.step(renewalLane, "measure "+step)
}
