package sink_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// books asks all that the audit knows of tenants, in lines.
func (w *world) books(of sink.Scope) (lines []string, deep sink.Deep) {
	w.t.Helper()
	ctx := context.Background()
	c := w.conn()
	defer c.Close()
	books, err := sink.AuditBooks(ctx, c, tabletest.Schema(), of)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, b := range books {
		if b.Problem != "" {
			lines = append(lines, b.String())
		}
	}
	rollups, err := sink.AuditRollups(ctx, c, of)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range rollups {
		lines = append(lines, r.String())
	}
	deep, err = sink.AuditDeep(ctx, c, tabletest.Schema(), of, books)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range deep.Wrong {
		lines = append(lines, d.String())
	}
	return append(lines, deep.Chunks...), deep
}

// Rows that leave a table, or come twice, by another hand are told by tenant, table, day and count, also days later, and so is what rollups
// lack of them; --deep names the range. Another tenant's are not.
func TestBooksNameTenantDayAndCount(t *testing.T) {
	if testing.Short() {
		t.Skip("it mostly waits")
	}
	now := time.Now().UTC()
	old := table.DayOf(now.UnixNano()) - 3
	day, month := now.AddDate(0, 0, -3).Format(time.DateOnly), now.AddDate(0, 0, -3).Format("2006-01")
	const tenant = "tenant beta, "
	for name, c := range map[string]struct {
		do   string
		want [][]string // words of one line each; nil: the audit is content
	}{
		"nothing": {do: "OPTIMIZE TABLE kernel_stats_data FINAL"},
		"raw rows": {"ALTER TABLE kernels_data DELETE WHERE tenant = 'beta' AND corr_id = 3 SETTINGS mutations_sync = 2",
			[][]string{{tenant, "table kernels_data, received in " + day, ": 16 rows fewer",
				"warpline replay --tenant beta --table kernels_data --from " + day + " --to " + day},
				{"table kernels_data, received in " + day, "range ", "rows are missing", "by the books of beta (16 rows"}}},
		"a partition": {fmt.Sprintf("ALTER TABLE kernels_data DROP PARTITION (toDate(%d), 30)", old),
			[][]string{{tenant, day, ": 400 rows fewer"}, {"tenant acme, ", day, ": 400 rows fewer"}}},
		"a rollup's rows": {"ALTER TABLE kernel_stats_data DELETE WHERE tenant = 'beta' AND kernel_id = 1 SETTINGS mutations_sync = 2",
			[][]string{{tenant, "table kernel_stats_data, received in " + month, "short of what it was given"},
				{tenant, "table kernel_stats_data, received on " + day, "calls in kernels_data, and"}}},
		"usage": {"ALTER TABLE usage_data DELETE WHERE tenant = 'beta' SETTINGS mutations_sync = 2",
			[][]string{{tenant, "table usage_data", "no row is left of the 8"}}},
		"rows twice": {"INSERT INTO kernels_data SELECT * FROM kernels_data WHERE tenant = 'beta' LIMIT 5",
			[][]string{{tenant, "table kernels_data", ": 5 rows more", "session delete"}, {"5 rows too many", "by the books of beta"}}},
		"rows of no chunk": {"INSERT INTO kernels_data SELECT * REPLACE (chunk + 1000000000 AS chunk) FROM kernels_data WHERE tenant = 'beta' " +
			"LIMIT 5", [][]string{{tenant, "table kernels_data", ": 5 rows more"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each waits most of the time
			w := shared(t)
			w.day = old
			for i := range 16 {
				w.tenant = []string{"acme", "beta"}[i/4%2]
				w.publish(i%4, 100)
			}
			stop := w.run(w.sink())
			w.settled(3 * time.Minute)
			stop()
			if c.do != "" {
				w.exec(c.do)
			}
			lines, deep := w.books(sink.Scope{})
			if c.want == nil && len(lines) > 0 {
				t.Errorf("the audit says %q", lines)
			}
			if deep.Ranges == 0 || deep.Rows < 500 || deep.Unproven > 0 {
				t.Errorf("looked at %+v", deep)
			}
			for _, words := range c.want {
				if !said(lines, words...) {
					t.Errorf("the audit says %q, want one line with %q", lines, words)
				}
			}
			// --deep has all tenants, since chunks do.
			if other, _ := w.books(sink.Scope{Tenant: "gamma"}); said(other, "tenant ") {
				t.Errorf("of another tenant the audit says %q", other)
			}
			if other, _ := w.books(sink.Scope{From: old + 1}); name != "a rollup's rows" && name != "usage" && len(other) > 0 {
				t.Errorf("of later days the audit says %q", other)
			}
		})
	}
}
