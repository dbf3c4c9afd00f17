package sink_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/sink"
)

// What gateways counted is never more than what workers counted behind it, and what is known to be lost: where it is, the audit names
// tenant and day and how many events are missing. Where it is less, a gateway was killed, and nothing is said.
func TestAuditComparesTheDoor(t *testing.T) {
	day := time.Now().UTC().Format(time.DateOnly)
	for name, c := range map[string]struct {
		door, lost int // beside the events that were counted
		missing    int
	}{
		"as much":                         {0, 0, 0},
		"less":                            {-5, 0, 0},
		"more":                            {7, 0, 7},
		"more, and known to be lost":      {7, 7, 0},
		"more than what is known":         {7, 4, 3},
		"less, and some is known as lost": {-1, 4, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := shared(t)
			for i := range 8 {
				w.tenant = []string{"acme", "beta"}[i/4%2]
				w.publish(i%4, 100)
			}
			stop := w.run(w.sink())
			w.settled(3 * time.Minute)
			stop()
			w.exec(fmt.Sprintf("INSERT INTO usage_data SELECT * REPLACE (toUInt64(0) AS events, toUInt64(0) AS rejected, toUInt64(0) AS "+
				"duplicates, toUInt64((SELECT sum(events) FROM usage_data WHERE tenant = 'beta') + (%d)) AS door_events, toUInt64(%d) AS lost_events) "+
				"FROM usage_data WHERE tenant = 'beta' LIMIT 1", c.door, c.lost))
			conn := w.conn()
			defer conn.Close()
			all, whole, err := sink.AuditUsage(t.Context(), w.s, conn, sink.Scope{})
			if err != nil || !whole || len(all) != 2 {
				t.Fatalf("%v %v %v", all, whole, err)
			}
			if all[0].Tenant != "acme" || all[0].Problem != "" || all[0].Door != 0 {
				t.Errorf("the neighbour's: %+v", all[0])
			}
			u := all[1]
			if u.Tenant != "beta" || u.Day != day || int(u.Door) != int(u.Accepted)+c.door || int(u.Lost) != c.lost {
				t.Errorf("%+v", u)
			}
			want := ""
			if c.missing > 0 {
				want = fmt.Sprintf("gateways stored %d events, of which %d are known to be lost, and workers counted %d: %d are missing", u.Door,
					c.lost, u.Accepted, c.missing)
			}
			if u.Problem != want || !strings.HasPrefix(u.String(), "tenant beta, received on "+day+": "+want) {
				t.Errorf("the audit says %q, want %q", u.Problem, want)
			}
		})
	}
}
