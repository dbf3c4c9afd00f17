package ingest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest/shares"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// The metrics have what workers tell: of ROWS and of the record of names of all workers together, of memory for names of the worker where
// the tenant is nearest to its share. What is no message of a worker changes nothing.
func TestSharesThatWorkersTell(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	r.keyOf("red", tenant.Limits{})
	r.keyOf("blue", tenant.Limits{})
	tell := func(h any) {
		t.Helper()
		body, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.streams.Conn.Publish(stream.HoldingSubject, body); err != nil {
			t.Fatal(err)
		}
	}
	rows, record := stream.Fill{Used: 600, Max: 1000}, stream.Fill{Used: 50, Max: 100}
	one := stream.Holding{Worker: "one", Rows: rows, Record: record, Names: stream.Fill{Used: 90, Max: 100}, NameTenants: 2,
		Tenants: map[string]stream.Held{"red": {Rows: 200, Names: 80, Record: 10}, "blue": {Rows: 50, Names: 10}, "nobody": {Rows: 1}}}
	two := stream.Holding{Worker: "two", Rows: rows, Record: record, Names: stream.Fill{Used: 20, Max: 100}, NameTenants: 1,
		Tenants: map[string]stream.Held{"red": {Rows: 100, Names: 20, Record: 5}}}
	value := func(name, who, of string) float64 { return r.metric("tenant_"+name, "tenant", who, "of", of) }
	eventually(t, soon, "both workers are heard", func() bool {
		tell(one)
		tell(two)
		return value("used", "red", shares.Rows) == 300
	})
	type share struct{ who, of string }
	want := map[share][2]float64{
		{"red", shares.Rows}: {300, 700}, {"blue", shares.Rows}: {50, 450},
		{"red", shares.NameRecord}: {15, 65}, {"blue", shares.NameRecord}: {0, 50},
		{"red", shares.Names}: {80, 90}, {"blue", shares.Names}: {10, 50},
	}
	holds := func() string {
		for of, v := range want {
			if got := [2]float64{value("used", of.who, of.of), value("limit", of.who, of.of)}; got != v {
				return fmt.Sprintf("%v: %v, want %v", of, got, v)
			}
		}
		return ""
	}
	if wrong := holds(); wrong != "" {
		t.Error(wrong)
	}
	if n := value("used", "nobody", shares.Rows); n != 0 {
		t.Errorf("a tenant without keys has %v", n)
	}

	many := map[string]stream.Held{}
	for i := range stream.HoldingTenants + 1 {
		many[fmt.Sprint("t", i)] = stream.Held{Rows: 1}
	}
	for _, hostile := range []any{nil, 7, []int{1}, map[string]any{"worker": 5}, stream.Holding{},
		stream.Holding{Worker: strings.Repeat("w", 65)},
		stream.Holding{Worker: "one", Rows: stream.Fill{Used: -1}}, stream.Holding{Worker: "one", NameTenants: -1},
		stream.Holding{Worker: "one", Tenants: map[string]stream.Held{"red": {Names: -5}}}, stream.Holding{Worker: "one", Tenants: many},
		strings.Repeat("x", 2<<20)} {
		tell(hostile)
	}
	if err := r.streams.Conn.Publish(stream.HoldingSubject, []byte(`{"worker":"one","rows":{"used":1e400}}`)); err != nil {
		t.Fatal(err)
	}
	blue := one
	blue.Tenants = map[string]stream.Held{"blue": {Rows: 51}}
	blue.Worker = "three"
	eventually(t, soon, "later messages are heard", func() bool { tell(blue); return value("used", "blue", shares.Rows) == 101 })
	if got := value("used", "red", shares.Rows); got != 300 {
		t.Errorf("after messages that are none, red has %v of ROWS", got)
	}
}
