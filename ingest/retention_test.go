package ingest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/tenant"
)

var testClasses = tenant.Classes{{Name: "default", Raw: 7, Rollup: 395}, {Name: "short", Raw: 1, Rollup: 30},
	{Name: "long", Raw: 30, Rollup: 800}}

// kept is for how long a part is kept that comes with a key now.
func (r *rig) kept(key []string) string {
	r.t.Helper()
	info, err := r.streams.Ingest.Info(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	session := fmt.Sprintf("kept-%d", time.Now().UnixNano())
	if a := r.post(session, ndjson(session, 1), key...); a.status != http.StatusOK {
		return a.raw
	}
	for _, m := range r.publishedFrom(info.State.LastSeq + 1) {
		if m.Session == session {
			return fmt.Sprintf("%d/%d", m.RetentionDays, m.RollupDays)
		}
	}
	return "nothing"
}

func (r *rig) keeps(what string, key []string, want string) {
	r.t.Helper()
	eventually(r.t, soon, what+" is kept "+want, func() bool { return r.kept(key) == want })
}

// What is sent is kept as long as the class of its tenant says, or a shorter one of its key; a change holds at once, as the names say and
// not the days beside them.
func TestRetentionClasses(t *testing.T) {
	r := start(t, broker.Layout{}, func(c *ingest.Config) { c.Classes = testClasses })
	tenants, keys := ingest.NewTenants(r.streams.Keys), ingest.NewKeys(r.streams.Keys)
	of := func(class string) tenant.Limits {
		return tenant.Limits{RetentionClass: class, RetentionDays: 99, RollupDays: 999}
	}
	for name, limits := range map[string]tenant.Limits{"red": of("short"), "green": of("long"), "days": {RetentionDays: 2, RollupDays: 20}} {
		if _, err := tenants.Create(t.Context(), name, "", limits); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		what, tenant string
		key          tenant.Limits
		want         string
	}{
		{"the tenant's class", "red", tenant.Limits{}, "1/30"},
		{"a key of a longer class", "red", of("long"), "1/30"},
		{"a key of a shorter class", "green", of("short"), "1/30"},
		{"a key of the tenant's class", "green", of("long"), "30/800"},
		{"a key of class default", "green", of("default"), "7/395"},
		{"a key of a tenant without a record", "blue", of("long"), "30/800"},
		{"no class", "blue", tenant.Limits{}, "7/395"},
		{"a class that is not there, which had days", "blue", of("gone"), "99/999"},
		{"days of an old key", "blue", tenant.Limits{RetentionDays: 3}, "3/395"},
		{"days of an old key, within the class", "red", tenant.Limits{RetentionDays: 3, RollupDays: 10}, "1/10"},
		{"days of an old tenant", "days", tenant.Limits{}, "2/20"},
		{"days of a class", "blue", tenant.Limits{RetentionDays: 1, RollupDays: 30}, "1/30"},
	} {
		secret, key, err := keys.Create(t.Context(), c.tenant, "", c.key, 0)
		if err != nil {
			t.Fatal(err)
		}
		r.keeps(c.what, []string{"Authorization", "Bearer " + secret}, c.want)
		if _, err := keys.Revoke(t.Context(), key.ID); err != nil { // which leaves room
			t.Fatal(err)
		}
	}
	red := r.keyOf("red", tenant.Limits{})
	r.keeps("before the change", red, "1/30")
	if _, err := tenants.Change(t.Context(), "red", func(r *tenant.Record) { r.Limits = of("long") }); err != nil {
		t.Fatal(err)
	}
	r.keeps("after the change", red, "30/800")
	other := startOn(t, r.streams, func(c *ingest.Config) {
		c.Classes = tenant.Classes{{Name: "default", Raw: 7, Rollup: 395}, {Name: "long", Raw: 31, Rollup: 801}}
	})
	other.keeps("at a gateway to which the class is something else", red, "31/801")
	if got, err := ingest.ReadClasses(t.Context(), r.streams.Keys); err != nil || got.String() != "default=7d/395d, long=31d/801d" {
		t.Errorf("commands see %s, %v", got, err)
	}
}

// Keys with days of their own do not make more than eight pairs of days, at no gateway: the newest keep rows longer instead. Where one of
// the others ends there is room again.
func TestDaysOfKeysHaveRoom(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{})
	classes := func(c *ingest.Config) { c.Classes = testClasses }
	r := startOn(t, s, classes)
	keys := ingest.NewKeys(s.Keys)
	var all [][]string
	var ids []string
	for i := range 7 { // beside three classes there is room for five
		secret, key, err := keys.Create(t.Context(), fmt.Sprintf("t%d", i), "", tenant.Limits{RetentionDays: uint16(10 + i)}, 0)
		if err != nil {
			t.Fatal(err)
		}
		all, ids = append(all, []string{"Authorization", "Bearer " + secret}), append(ids, key.ID)
	}
	want := []string{"10/395", "11/395", "12/395", "13/395", "14/395", "30/800", "30/800"}
	for i, r := range []*rig{r, startOn(t, s, classes)} { // which sees them in another order
		for j, key := range all {
			r.keeps(fmt.Sprintf("gateway %d, key %d", i, j), key, want[j])
		}
	}
	if _, err := keys.Revoke(t.Context(), ids[2]); err != nil {
		t.Fatal(err)
	}
	r.keeps("in the room that was made", all[5], "15/395")
	r.keeps("without room", all[6], "30/800")
	r.keeps("as before", all[1], "11/395")
	if _, err := keys.Change(t.Context(), ids[0], func(k *tenant.Key) error { k.Limits.RetentionDays = 30; return nil }); err != nil {
		t.Fatal(err)
	}
	r.keeps("as the nearest", all[6], "30/395")
	if _, err := keys.Change(t.Context(), ids[0], func(k *tenant.Key) error { return testClasses.Give(&k.Limits, "short") }); err != nil {
		t.Fatal(err)
	}
	r.keeps("a key that was given a class", all[0], "1/30")
	r.keeps("in the room that this made", all[6], "16/395")
}

// The classes are stored for commands, come back with the bucket, and what somebody else writes there hurts nobody.
func TestClassesAreStored(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{})
	if got, err := ingest.ReadClasses(t.Context(), s.Keys); err == nil {
		t.Errorf("without a gateway: %s", got)
	}
	r := startOn(t, s, func(c *ingest.Config) { c.Classes = testClasses })
	stored := func() bool {
		got, err := ingest.ReadClasses(t.Context(), s.Keys)
		return err == nil && got.String() == testClasses.String()
	}
	eventually(t, soon, "they are stored", stored)
	if _, err := s.Keys.Put(t.Context(), "retention-classes", []byte(`{"name":`)); err != nil {
		t.Fatal(err)
	}
	if got, err := ingest.ReadClasses(t.Context(), s.Keys); err == nil {
		t.Errorf("of something else: %s", got)
	}
	if all, err := ingest.NewKeys(s.Keys).List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("it is no key: %v %v", all, err)
	}
	startOn(t, s, func(c *ingest.Config) { c.Classes = testClasses })
	eventually(t, soon, "another gateway mends it", stored)
	r.keeps("meanwhile, and after", r.keyOf("red", tenant.Limits{}), "7/395")
	value, err := json.Marshal(testClasses)
	if err != nil {
		t.Fatal(err)
	}
	// A gateway of before there were classes takes it for a key that it cannot read.
	var key tenant.Key
	if json.Unmarshal(value, &key) == nil && key.Check() == nil {
		t.Error("it is a key to older gateways")
	}
}
