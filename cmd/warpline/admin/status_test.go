package admin_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

// An administrator of a tenant sees what it has of its limits and quotas, and nothing that tells of others. The operator sees replay
// windows.
func TestStatusOfTenantAndService(t *testing.T) {
	r := start(t, nil)
	r.want(200, "operator", "PATCH", "tenants/acme", `{"quota-events-per-day":1000,"limit-pending-bytes":5000}`)
	r.await(func() bool {
		a := r.ask("acme admin", "GET", "status", "")
		return fmt.Sprint(a.list("shares")) == "[map[limit:5000 of:limit-pending-bytes used:0] map[limit:1000 of:quota-events-per-day used:0]]"
	})
	if a := r.ask("globex admin", "GET", "status", ""); fmt.Sprint(a.list("shares")) != "[map[of:limit-pending-bytes used:0]]" ||
		strings.Contains(a.raw, "acme") || strings.Contains(a.raw, "share-") {
		t.Errorf("of a tenant without limits: %s", a.raw)
	}
	if a := r.ask("operator", "GET", "status", ""); a.status != 200 || a.fields["replay_windows"] != nil || a.fields["shares"] != nil {
		t.Errorf("no window was cut: %s", a.raw)
	}
	cut := broker.NewWindows(r.streams.Marks, stream.RowsStream, time.Hour, "sink", nil)
	if err := cut.Cut(t.Context(), 0, time.Now().Add(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	a := r.ask("operator", "GET", "status", "")
	if all := a.list("replay_windows"); len(all) != 1 || all[0]["stream"] != "ROWS" || all[0]["promised_seconds"] != 3600.0 ||
		!strings.Contains(fmt.Sprint(all[0]["fix"]), "--rows-max") {
		t.Errorf("%s", a.raw)
	}
	if a := r.ask("acme admin", "GET", "status", ""); a.fields["replay_windows"] != nil {
		t.Errorf("a tenant sees %s", a.raw)
	}
}
