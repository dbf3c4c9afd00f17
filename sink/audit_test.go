package sink_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/table/tabletest"
)

func (w *world) exec(sql string) {
	w.t.Helper()
	c := w.conn()
	defer c.Close()
	if err := c.Exec(context.Background(), sql); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
}

func (w *world) audit() []string {
	w.t.Helper()
	c := w.conn()
	defer c.Close()
	r, err := sink.Audit(context.Background(), w.s, c, tabletest.Schema())
	if err != nil {
		w.t.Fatal(err)
	}
	return r.Problems()
}

// said reports whether one of the lines holds all of the words.
func said(lines []string, words ...string) bool {
	return slices.ContainsFunc(lines, func(line string) bool {
		for _, w := range words {
			if !strings.Contains(line, w) {
				return false
			}
		}
		return true
	})
}

// Rows that leave a table by another hand than a deletion's are found, in tables that merge too, all of them or some, and so are rows that
// come twice. Merges change nothing.
func TestAuditFindsWhatTablesLost(t *testing.T) {
	today, month := time.Now().UTC().Format(time.DateOnly), time.Now().UTC().Format("2006-01")
	for name, c := range map[string]struct {
		do   []string
		want []string // words of one line; nil: the audit is content
	}{
		"nothing": {nil, nil},
		"all is merged": {[]string{"OPTIMIZE TABLE kernel_stats_data FINAL", "OPTIMIZE TABLE usage_data FINAL",
			"OPTIMIZE TABLE kernels_data FINAL"}, nil},
		"rollup emptied": {[]string{"TRUNCATE TABLE kernel_stats_data"},
			[]string{"table kernel_stats_data", "received in " + month, "it is empty", "of these tenants, which sent data: acme"}},
		"rollup in part": {[]string{"ALTER TABLE kernel_stats_data DELETE WHERE kernel_id = 1 SETTINGS mutations_sync = 2"},
			[]string{"table kernel_stats_data", "received in " + month, "short of what the ledger says", "acme"}},
		"rollup merged, then in part": {[]string{"OPTIMIZE TABLE kernel_stats_data FINAL",
			"ALTER TABLE kernel_stats_data DELETE WHERE kernel_id = 1 SETTINGS mutations_sync = 2"}, []string{"table kernel_stats_data", "short"}},
		"usage emptied": {[]string{"TRUNCATE TABLE usage_data"}, []string{"table usage_data", "received in " + month, "it is empty"}},
		"usage doubled": {[]string{"INSERT INTO usage_data SELECT * FROM usage_data LIMIT 1"},
			[]string{"table usage_data", "above what the ledger says"}},
		"raw emptied": {[]string{"TRUNCATE TABLE kernels_data"},
			[]string{"table kernels_data", "received on " + today, "rows fewer", "acme"}},
		"raw in part": {[]string{"ALTER TABLE kernels_data DELETE WHERE corr_id = 3 SETTINGS mutations_sync = 2"},
			[]string{"table kernels_data", "received on " + today + ", kept 7 days", "rows fewer"}},
		"raw doubled": {[]string{"INSERT INTO kernels_data SELECT * FROM kernels_data LIMIT 1"},
			[]string{"table kernels_data", "1 rows more"}},
		"a partition dropped": {[]string{"ALTER TABLE kernels_data DROP PARTITION (today(), 30)"},
			[]string{"table kernels_data", "kept 30 days", "rows fewer"}},
		"ledger of an older sink": {[]string{olderLedger, "ALTER TABLE ledger DELETE WHERE " + newerLedger + " SETTINGS mutations_sync = 2"},
			nil},
		"ledger of an older sink, rollup emptied": {[]string{olderLedger,
			"ALTER TABLE ledger DELETE WHERE " + newerLedger + " SETTINGS mutations_sync = 2", "TRUNCATE TABLE usage_data"},
			[]string{"table usage_data", "it is empty"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := shared(t)
			for i := range 8 {
				w.publish(i%4, 100)
			}
			stop := w.run(w.sink())
			w.settled(3 * time.Minute)
			stop()
			for _, sql := range c.do {
				w.exec(sql)
			}
			lines := w.audit()
			if c.want == nil && len(lines) > 0 || c.want != nil && !said(lines, c.want...) {
				t.Errorf("the audit says %q, want one line with %q", lines, c.want)
			}
		})
	}
}

// olderLedger writes the ledger as a sink did that knew no partitions.
const olderLedger = `INSERT INTO ledger (lane, first, last, table, rows, token, attempt, inserted_at) SELECT lane, first, last, table, ` +
	`sum(rows), token, attempt, inserted_at FROM ledger WHERE table != '' GROUP BY lane, first, last, table, token, attempt, inserted_at`

// newerLedger are the rows that such a sink did not write.
const newerLedger = "counted = 1 OR day > '1970-01-01' OR chunks != ''"

// What no worker published is set aside by the sink as well, when no worker is there to do it, and is told; the lane goes on.
func TestForeignMessagesAreSetAside(t *testing.T) {
	w := shared(t)
	for i := range 8 {
		w.publish(i%4, 20)
	}
	first, err := w.s.Rows.GetMsg(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	w.run(w.sink())
	w.settled(3 * time.Minute)
	put := map[string]uint64{}
	for name, msg := range map[string][]byte{"hello": []byte("hello"), "nothing": nil, "sent again": first.Data, "half": first.Data[:100]} {
		ack, err := w.s.JS.Publish(t.Context(), stream.RowsSubject(0), msg)
		if err != nil {
			t.Fatal(err)
		}
		put[name] = ack.Sequence
	}
	for i := range 8 {
		w.publish(i%4, 20)
	}
	c := w.conn()
	defer c.Close()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if g, err := w.got(t.Context(), c); err == nil && g == w.want {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("have %+v, want %+v (%v)", g, w.want, err)
		}
	}
	found, err := broker.Findings(t.Context(), w.s.Marks)
	if err != nil || len(found) != 1 || found[0].Count != uint64(len(put)) {
		t.Fatalf("findings %+v (%v), want one of %d messages", found, err, len(put))
	}
	lines := w.audit()
	for name, seq := range put {
		if _, err := w.s.Rows.GetMsg(t.Context(), seq); err == nil {
			t.Errorf("%s is still in ROWS", name)
		}
	}
	if !said(lines, "ROWS, partition 0", "4 messages that no worker", fmt.Sprint(found[0].Places[3].First), "aside-ROWS-") {
		t.Errorf("the audit says %q", lines)
	}
	if err := w.s.AcceptFindings(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.settled(3 * time.Minute) // the audit is content again
}

// Chunks that ROWS has lost before they were inserted are a finding, and so is a checkpoint that is gone.
func TestAuditFindsWhatRowsLost(t *testing.T) {
	w := shared(t)
	for i := range 8 {
		w.publish(i%4, 20)
	}
	stop := w.run(w.sink())
	w.settled(3 * time.Minute)
	stop()
	lost := w.want
	gone := w.publish(0, 20)
	w.want = lost
	w.publish(0, 20)
	if err := w.s.Rows.DeleteMsg(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	stop = w.run(w.sink())
	for deadline := time.Now().Add(60 * time.Second); !said(w.audit(), "ROWS, partition 0", "1 chunks were gone",
		"3 to 3"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the audit says %q", w.audit())
		}
	}
	stop()
	last, err := w.s.Rows.GetLastMsgForSubject(t.Context(), stream.RowsSubject(3))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.s.Rows.DeleteMsg(t.Context(), last.Sequence); err != nil {
		t.Fatal(err)
	}
	if lines := w.audit(); !said(lines, "ROWS has lost the end of partition 3") {
		t.Errorf("the audit says %q", lines)
	}
}

// A mark that holds something else stops nobody: the lane goes on behind the ledger, and the audit tells meanwhile.
func TestGarbageUnderTheMark(t *testing.T) {
	for name, value := range map[string]string{"text": "garbage", "nothing": "", "a number": "7", "a list": "[]"} {
		t.Run(name, func(t *testing.T) {
			w := shared(t)
			for i := range 8 {
				w.publish(i%4, 20)
			}
			stop := w.run(w.sink())
			w.settled(3 * time.Minute)
			stop()
			if _, err := w.s.Marks.PutString(t.Context(), "lane.0", value); err != nil {
				t.Fatal(err)
			}
			if lines := w.audit(); !said(lines, "lane 0", "lane.0", "cannot be read") {
				t.Errorf("the audit says %q", lines)
			}
			for i := range 8 {
				w.publish(i%4, 20)
			}
			w.run(w.sink())
			w.settled(3 * time.Minute)
		})
	}
}
