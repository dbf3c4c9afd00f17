package doctor_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/cmd/warpline/doctor"
	"github.com/warpline/warpline/query/tenantsql"
	"github.com/warpline/warpline/sink/engine"
	"github.com/warpline/warpline/sink/engine/enginetest"
	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// withSlots starts an engine whose users are made as change says.
func withSlots(t *testing.T, change func(*engine.Slots)) driver.Conn {
	t.Helper()
	slots := tenantsql.Names(tabletest.Schema(), "", 2)
	if change != nil {
		change(&slots)
	}
	return withUsers(t, engine.Config{Slots: slots})
}

// withUsers starts an engine with the users of a configuration.
func withUsers(t *testing.T, cfg engine.Config) driver.Conn {
	t.Helper()
	enginetest.Need(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // the first start ever fetches the library
	defer cancel()
	cfg.Dir, cfg.Temporary, cfg.Progress, cfg.Readable = t.TempDir(), true, os.Stderr, table.DefaultDatabase
	e, err := engine.Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		end, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		e.Stop(end)
	})
	conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{e.TCPAddr()},
		Auth: clickhouse.Auth{Username: e.User(), Password: e.Password()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := tabletest.Schema().Ensure(ctx, conn, table.Options{}); err != nil {
		t.Fatal(err)
	}
	return conn
}

// only returns what one check finds.
func only(t *testing.T, p *doctor.Patient, check string) doctor.Finding {
	t.Helper()
	for _, f := range p.Examine(t.Context()) {
		if f.Check == check {
			return f
		}
	}
	t.Fatalf("no check %s", check)
	return doctor.Finding{}
}

func patientOf(t *testing.T, conn driver.Conn) *doctor.Patient {
	return &doctor.Patient{Streams: brokertest.Start(t, broker.Layout{}), Conn: conn, Writer: conn, Database: table.DefaultDatabase,
		Schema: tabletest.Schema()}
}

// Who may read what is as the program makes it, or it is named: a view of the contract that is gone, and a view in a slot's database that
// is read with other rights than the slot's.
func TestPoliciesOfViews(t *testing.T) {
	conn := withSlots(t, nil)
	p := patientOf(t, conn)
	exec := func(sql string) {
		t.Helper()
		if err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if f := only(t, p, "policies"); !f.OK || !strings.HasPrefix(f.Found, "2 slots for tenants, each sees its own rows of ") {
		t.Errorf("as the program makes it: %+v", f)
	}
	exec("RENAME TABLE warpline.insights TO warpline.hidden")
	if f := only(t, p, "policies"); f.OK || f.Found != "view insights of the contract is not there" ||
		!strings.Contains(f.Fix, "start a sink") {
		t.Errorf("without a view of the contract: %+v", f)
	}
	exec("RENAME TABLE warpline.hidden TO warpline.insights")
	exec("CREATE DATABASE slot1")
	exec("CREATE VIEW slot1.kernels DEFINER = slot1_rows SQL SECURITY DEFINER AS SELECT * FROM warpline.kernels_data")
	if f := only(t, p, "policies"); !f.OK {
		t.Errorf("with a view of a slot's own: %+v", f)
	}
	exec("CREATE VIEW slot1.all_kernels DEFINER = warpline SQL SECURITY DEFINER AS SELECT * FROM warpline.kernels_data")
	exec("CREATE VIEW slot1.lent DEFINER = slot2_rows SQL SECURITY DEFINER AS SELECT * FROM warpline.kernels_data")
	exec("CREATE TABLE slot1.copied ENGINE = MergeTree ORDER BY tuple() AS SELECT * FROM warpline.kernels_data")
	f := only(t, p, "policies")
	for _, words := range []string{`slot1.all_kernels is read with the rights of "warpline", not of slot1_rows`,
		`slot1.lent is read with the rights of "slot2_rows"`, `slot1.copied is read with the rights of ""`} {
		if !strings.Contains(f.Found, words) {
			t.Errorf("%+v\nlacks %s", f, words)
		}
	}
	if f.OK || strings.Contains(f.Found, "slot1.kernels ") || !strings.Contains(f.Fix, "--sql-tenants 0") {
		t.Errorf("%+v", f)
	}
	p.Writer = nil
	if f := only(t, p, "policies"); !f.OK || !strings.Contains(f.Found, "not looked at") {
		t.Errorf("on a server: %+v", f)
	}
}

// A table whose rows of all tenants are open to a slot, and one that is closed to tenants and open to it, are named: the users of another
// version, or of a file that somebody changed.
func TestPoliciesOfUsers(t *testing.T) {
	conn := withSlots(t, func(s *engine.Slots) {
		s.Filtered = slices.DeleteFunc(s.Filtered, func(name string) bool { return name == "kernels_data" || name == "stored_data" })
		s.Open = append(s.Open, "kernels_data", "ledger")
	})
	f := only(t, patientOf(t, conn), "policies")
	if f.OK || f.Found != "slot1_rows reads the rows of all tenants in warpline.kernels_data; slot1_rows may SELECT on warpline.ledger; "+
		"slot2_rows reads the rows of all tenants in warpline.kernels_data; slot2_rows may SELECT on warpline.ledger" ||
		!strings.Contains(f.Fix, "writes its users anew") {
		t.Errorf("%+v", f)
	}
}
