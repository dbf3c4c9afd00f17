package table_test

import (
	"testing"

	"github.com/warpline/warpline/sink/table"
)

// A change is one row, however often its words came and in which order; what became of it is what was said last.
func TestAdminLogView(t *testing.T) {
	s := newStore(t, true)
	l := table.AdminLog
	for chunk, r := range []table.AdminLogRow{
		{EntryID: "a", Outcome: "begun", Change: "{}"},
		{EntryID: "a", Outcome: "done", Object: "key7", Change: `{"note":["","x"]}`},
		{EntryID: "a", Outcome: "begun", Change: "{}"},
		{EntryID: "a", Outcome: "done", Object: "key7", Change: `{"note":["","x"]}`},
		{EntryID: "b", Outcome: "failed", Object: "acme"},
		{EntryID: "b", Outcome: "begun", Object: "acme"},
		{EntryID: "c", Outcome: "begun", Object: "acme"},
	} {
		s.Seed(l, 1, func(b *table.Batch, _ int) {
			r.Tenant, r.At, r.Who, r.Action, r.ReceivedDay = "acme", int64(1e18), "cli", "key create", today()
			l.Append(b, &r)
			b.FillTail(table.DayPartition{Day: table.MonthOf(today()), RetentionDays: 395}, 1, uint64(chunk+1))
		})
	}
	s.Want("SELECT entry_id, outcome, object, change, toUnixTimestamp(at) FROM {db}.admin_log ORDER BY entry_id",
		"a\tdone\tkey7\t{\"note\":[\"\",\"x\"]}\t1000000000\nb\tfailed\tacme\t\t1000000000\nc\tbegun\tacme\t\t1000000000")
	s.Want("SELECT name FROM system.columns WHERE database = '{db}' AND table = 'admin_log' ORDER BY position",
		"tenant\nat\nentry_id\nwho\naction\nobject\nchange\noutcome")
}

// A deletion of all that a tenant has sent leaves what was changed about it.
func TestAdminLogOutlivesAPurge(t *testing.T) {
	d := table.Target{Tenant: "acme"}
	if table.AdminLog.Holds(&d) || table.AdminLog.DeleteSQL(table.Options{}, []table.Target{d}) != "" || !table.Usage.Holds(&d) {
		t.Error("a purge takes rows of admin_log")
	}
}
