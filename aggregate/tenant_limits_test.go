package aggregate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/stream"
)

// A tenant's limits on names and open scopes come with each part. They hold for its sessions alone, and what is beyond them is a reject
// that names them.
func TestLimitsOfTheTenantOnSessions(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	start(t, s, fast)
	lines := func(session string) []byte {
		var b strings.Builder
		b.WriteString(namesOf(session, 1, 3, 60) + namesOf(session, 4, 1, 60))
		for i := range 4 {
			fmt.Fprintf(&b, `{"type":"scope_begin","session_id":"%s","name":"scope%d","user_scope":"scope%[2]d","ts_ns":179517592997280300%[2]d,`+
				`"scope_depth":0}`+"\n", session, i)
		}
		return []byte(b.String())
	}
	for tenant, e := range map[string]stream.Envelope{"free": {}, "names": {Names: 5, NameBytes: 20}, "scopes": {OpenScopes: 2}} {
		e.Tenant, e.Session, e.Identity = tenant, tenant, "one"
		publish(t, s, e, lines(tenant))
	}
	sum := waitFor(t, s, "all of them", func(sum totals) bool { return sum["dictionaries"] >= 21 && sum["rejects_data"] >= 5 })
	for what, want := range map[string]uint64{
		"dictionaries.tenant=free": 8, "dictionaries.tenant=scopes": 8, "dictionaries.tenant=names": 6, // four kernels, a scope, more_names
		"dictionaries.value=names-1-" + strings.Repeat("n", 12) + "…": 1, "dictionaries.value=free-1-" + strings.Repeat("n", 60): 1,
		"rejects_data.tenant=free": 0, "rejects_data.reason=dictionary_full": 3, "rejects_data.tenant=names": 3,
		"rejects_data.detail=the line's names are beyond the 5 that a session may have": 3,
		"rejects_data.reason=scope_overflow":                                            2, "rejects_data.tenant=scopes": 2,
		"rejects_data.detail=the session has 2 scopes open, or 256 of this id and name: does the program end its scopes?": 2,
	} {
		if sum[what] != want {
			t.Errorf("%s: %d, want %d", what, sum[what], want)
		}
	}
}
