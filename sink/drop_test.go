package sink_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/table"
)

// What is dropped leaves the ledger too, once: also when the drop was killed at any step and is run again, by two at once, while rows come.
// Another tenant's rows stay.
func TestDropKeepsTheBooks(t *testing.T) {
	if testing.Short() {
		t.Skip("it mostly waits")
	}
	for _, kill := range []string{"", "noted", "deleted", "booked"} {
		t.Run("killed when "+kill, func(t *testing.T) {
			t.Parallel()
			w := shared(t)
			for i := range 8 {
				w.tenant = []string{"acme", "beta"}[i/4]
				w.publish(i%4, 100)
			}
			w.run(w.sink())
			w.settled(3 * time.Minute)
			c := w.conn()
			defer c.Close()
			crash := errors.New("killed")
			d := sink.Dropper{Streams: w.s, Conn: c, Step: func(step string) error {
				if step == kill {
					return crash
				}
				return nil
			}}
			const where = "tenant = 'beta' AND corr_id < 10"
			n, err := d.Drop(t.Context(), table.Kernels.Table, where)
			if n != 80 || kill == "" && err != nil || kill != "" && !errors.Is(err, crash) {
				t.Fatalf("dropped %d rows: %v", n, err)
			}
			d.Step = nil
			if kill != "" && !said(w.audit(), "a drop of rows of kernels_data was begun", "reject drop --resume") {
				t.Errorf("the audit does not say that a drop was cut short: %q", w.audit())
			}
			if kill != "" { // what brings rows back finishes the drop, and brings back none of it
				if out, err := w.replayer().Replay(t.Context(), sink.ReplayScope{}); err != nil || len(out.Left) > 0 {
					t.Errorf("%+v %v", out, err)
				}
			}
			var two sync.WaitGroup
			for range 2 {
				two.Go(func() {
					if n, err := d.Drop(t.Context(), table.Kernels.Table, where); n != 0 || err != nil {
						t.Errorf("dropped %d rows more: %v", n, err)
					}
				})
			}
			two.Wait()
			if lines, _ := w.books(sink.Scope{}); said(lines, "table kernels_data") || said(lines, "rows too many") || said(lines, "are missing") {
				t.Errorf("the books say %q", lines)
			}
			if lines := w.audit(); said(lines, "kernels_data") {
				t.Errorf("the audit says %q", lines)
			}
			// What is lost beside it comes back, of other tenants; of this one it is told that nothing does.
			w.exec("ALTER TABLE kernels_data DELETE WHERE corr_id = 20 SETTINGS mutations_sync = 2")
			for range 2 {
				out, err := w.replayer().Replay(t.Context(), sink.ReplayScope{})
				if err != nil || len(out.Left) == 0 || len(out.Beyond) == 0 || !strings.Contains(out.Beyond[0].Why, "of tenant beta's rows of "+
					"kernels_data") {
					t.Errorf("%+v %v", out, err)
				}
			}
			var left, others uint64
			if err := c.QueryRow(t.Context(), "SELECT countIf("+where+"), countIf(tenant = 'acme') FROM kernels_data").Scan(&left,
				&others); err != nil || left != 0 || others != 400 {
				t.Errorf("%d rows are left, %d of the other tenant (%v)", left, others, err)
			}
		})
	}
}
