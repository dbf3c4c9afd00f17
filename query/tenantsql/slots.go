package tenantsql

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/sink/engine"
	"github.com/warpline/warpline/sink/table"
)

// SlotTable is the table of the slots that are lent.
const SlotTable = "slots"

// Names returns what the engine must know of a schema for Count slots.
func Names(schema *table.Schema, database string, count int) engine.Slots {
	s := engine.Slots{Count: count, Database: databaseOf(database), Table: SlotTable}
	for _, t := range schema.Tables() {
		if t.Column("tenant") != nil { // what has no tenant is the service's own
			s.Filtered = append(s.Filtered, t.Name)
		}
	}
	for _, v := range schema.Views(table.Options{Database: database}) {
		s.Open = append(s.Open, v.Name)
	}
	return s
}

// errBusy is that more tenants ask at once than there are slots.
var errBusy = errors.New("as many tenants ask at once as can: ask again in a few seconds, and the operator can raise --sql-tenants")

// slots lends the engine's slots to tenants. A slot stays with its tenant until another needs it and no question of the first runs. It is
// safe for concurrent use.
type slots struct {
	open     func(ctx context.Context) (driver.Conn, error)
	database string
	views    []table.View

	mu   sync.Mutex
	all  []slot
	made bool // the table is there and empty

	setUp sync.Mutex // one slot is made ready at a time
}

type slot struct {
	tenant string // "": free
	views  bool   // its database has today's views
	asking int    // questions under way
	last   time.Time
	moving bool // it is being lent to another tenant
}

func newSlots(cfg Config) *slots {
	return &slots{open: cfg.Open, database: databaseOf(cfg.Database), all: make([]slot, cfg.Slots),
		views: cfg.Schema.Views(table.Options{Database: cfg.Database})}
}

// take returns the slot, from 1 on, of a tenant; give must follow.
func (s *slots) take(ctx context.Context, tenant string) (int, error) {
	if i := s.held(tenant); i >= 0 {
		return i + 1, nil
	}
	s.setUp.Lock()
	defer s.setUp.Unlock()
	if i := s.held(tenant); i >= 0 { // lent meanwhile
		return i + 1, nil
	}
	i := s.choose()
	if i < 0 {
		return 0, errBusy
	}
	err := s.lend(ctx, i, tenant)
	s.mu.Lock()
	defer s.mu.Unlock()
	of := &s.all[i]
	of.moving = false
	if err != nil {
		of.tenant = "" // whoever gets it next makes sure of it anew
		return 0, err
	}
	of.tenant, of.asking, of.last = tenant, 1, time.Now()
	return i + 1, nil
}

// held takes the slot that a tenant has, -1 if it has none.
func (s *slots) held(tenant string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.all {
		if of := &s.all[i]; of.tenant == tenant && !of.moving {
			of.asking++
			of.last = time.Now()
			return i
		}
	}
	return -1
}

// give ends a question.
func (s *slots) give(slot int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[slot-1].asking--
	s.all[slot-1].last = time.Now()
}

// choose picks a free slot, or that of the tenant which has been silent for longest, -1 if every tenant is asking. Nobody takes it then.
func (s *slots) choose() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	best := -1
	for i := range s.all {
		of := &s.all[i]
		switch {
		case of.asking > 0:
		case best < 0, of.tenant == "" && s.all[best].tenant != "",
			(of.tenant == "") == (s.all[best].tenant == "") && of.last.Before(s.all[best].last):
			best = i
		}
	}
	if best >= 0 {
		s.all[best].moving = true
	}
	return best
}

// lent is how many slots are lent.
func (s *slots) lent() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.all {
		if s.all[i].tenant != "" {
			n++
		}
	}
	return n
}

// lend gives slot i, which nobody uses, to a tenant. Before that nothing of another tenant's runs as this slot any more, not even a
// question whose client has left.
func (s *slots) lend(ctx context.Context, i int, tenant string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	conn, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	name, db := engine.SlotName(i+1), s.database
	if !s.made {
		for _, sql := range []string{
			fmt.Sprintf("CREATE TABLE IF NOT EXISTS `%s`.%s (slot String, tenant String) ENGINE = MergeTree PARTITION BY slot ORDER BY slot", db,
				SlotTable),
			fmt.Sprintf("TRUNCATE TABLE `%s`.%s", db, SlotTable), // what an earlier process lent
		} {
			if err := conn.Exec(ctx, sql); err != nil {
				return fmt.Errorf("make the table of slots: %w", err)
			}
		}
		s.made = true
	}
	if err := conn.Exec(ctx, fmt.Sprintf("KILL QUERY WHERE user = '%s' SYNC", name)); err != nil {
		return fmt.Errorf("free slot %s: %w", name, err)
	}
	var running uint64
	if err := conn.QueryRow(ctx, "SELECT count() FROM system.processes WHERE user = $1", name).Scan(&running); err != nil {
		return fmt.Errorf("free slot %s: %w", name, err)
	}
	if running > 0 {
		return fmt.Errorf("slot %s: %d questions of another tenant do not end: %w", name, running, errBusy)
	}
	if err := s.makeViews(ctx, conn, i); err != nil {
		return err
	}
	if err := conn.Exec(ctx, fmt.Sprintf("ALTER TABLE `%s`.%s DROP PARTITION '%s'", db, SlotTable, name)); err != nil {
		return fmt.Errorf("free slot %s: %w", name, err)
	}
	// The tenant's name is checked, but a bound value costs nothing.
	if err := conn.Exec(ctx, fmt.Sprintf("INSERT INTO `%s`.%s (slot, tenant) SELECT $1, $2", db, SlotTable), name, tenant); err != nil {
		return fmt.Errorf("lend slot %s: %w", name, err)
	}
	var now []string
	if err := conn.QueryRow(ctx, fmt.Sprintf("SELECT groupArray(tenant) FROM `%s`.%s WHERE slot = $1", db, SlotTable),
		name).Scan(&now); err != nil {
		return fmt.Errorf("lend slot %s: %w", name, err)
	}
	if len(now) != 1 || now[0] != tenant {
		return fmt.Errorf("slot %s is lent to %q, and should be to %q alone", name, now, tenant)
	}
	return nil
}

// makeViews makes the views of a slot's database what they should be.
func (s *slots) makeViews(ctx context.Context, conn driver.Conn, i int) error {
	if s.all[i].views { // under setUp, as every use of this field
		return nil
	}
	set := viewSet{database: engine.SlotName(i + 1), owner: engine.SlotOwner(i + 1), from: s.database, views: s.views}
	if err := set.make(ctx, conn); err != nil {
		return err
	}
	s.all[i].views = true
	return nil
}
