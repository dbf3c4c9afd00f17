package admin_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/warpline/warpline/cmd/warpline/admin"
	"github.com/warpline/warpline/proto/tenant"
)

// A limit that is refused is named as it is in JSON, whichever it is.
func TestLimitsHaveOneName(t *testing.T) {
	of := reflect.TypeFor[admin.Limits]()
	for i := range of.NumField() {
		var few, many admin.Limits
		put := func(l *admin.Limits, n int) bool {
			switch v := reflect.ValueOf(l).Elem().Field(i); {
			case v.CanFloat():
				v.SetFloat(float64(n))
			case v.CanInt():
				v.SetInt(int64(n))
			case v.CanUint():
				v.SetUint(uint64(n))
			default:
				return false
			}
			return true
		}
		if !put(&few, 1) || !put(&many, 2) {
			continue
		}
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		var why *tenant.LimitError
		if err := tenant.Limits(many).Above(tenant.Limits(few)); !errors.As(err, &why) || why.Field != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The object limits with the names of before is taken in place of the limits beside the other fields, and not together with them. What is
// answered has the names of flags alone.
func TestOlderNamesOfLimits(t *testing.T) {
	r := start(t, nil)
	d := r.described()
	want := func(a answer, has string, not ...string) {
		t.Helper()
		if !strings.Contains(a.raw, has) {
			t.Errorf("%s, want %s", a.raw, has)
		}
		for _, no := range append(not, `"limits"`) {
			if strings.Contains(a.raw, no) {
				t.Errorf("%s has %s", a.raw, no)
			}
		}
	}
	want(r.want(201, "operator", "POST", "tenants", `{"name":"initech","limits":{"names":5,"quota_policy":"drop","max_line_bytes":9}}`),
		`"limit-line":9,"limit-names":5,"quota-policy":"drop"`)
	want(r.want(200, "operator", "PATCH", "tenants/initech", `{"limits":{"names":7}}`), `"limit-line":9,"limit-names":7,"quota-policy":"drop"`)
	want(r.want(200, "operator", "PATCH", "tenants/initech", `{"limit-line":null,"limit-past":60}`), `"limit-names":7,"limit-past":60,"quota-`,
		"limit-line")
	both := r.want(400, "operator", "PATCH", "tenants/initech", `{"limits":{"names":8},"limit-line":1}`)
	want(r.want(200, "operator", "GET", "tenants/initech", ""), `"limit-names":7,"limit-past":60,"quota-policy":"drop"`, "limit-line")
	if !strings.Contains(both.text("detail"), "use one") {
		t.Error(both.raw)
	}
	r.want(400, "operator", "POST", "tenants", `{"name":"hooli","limits":{"names":8},"limit-names":8}`)
	want(r.want(200, "operator", "PATCH", "tenants/initech", `{"limits":null}`), `"valid_keys":0`, "limit-", "quota-")
	key := r.want(201, "operator", "POST", "tenants/initech/keys", `{"limits":{"names":5}}`)
	want(key, `"limit-names":5`)
	want(r.want(200, "operator", "PATCH", "keys/"+key.text("id"), `{"limits":{"open_scopes":3}}`), `"limit-names":5,"limit-open-scopes":3`)
	for _, at := range []struct{ method, path string }{{"post", "/tenants"}, {"patch", "/tenants/{tenant}"}, {"post", "/keys"},
		{"patch", "/keys/{id}"}} {
		body := d.Paths[at.path][at.method].RequestBody.Content["application/json"].Schema
		if wrong := d.check(body, map[string]any{"limits": map[string]any{"names": 1.0}}, "body"); wrong != nil {
			t.Error(at, wrong)
		}
		if wrong := d.check(body, map[string]any{"limit-events-per-second": 1.0, "quota-policy": "hold"}, "body"); wrong != nil {
			t.Error(at, wrong)
		}
	}
}

// A tenant without a record was not made at any time.
func TestWithoutARecordNothingIsCreated(t *testing.T) {
	text, err := json.Marshal(admin.ShowRecord(tenant.Record{Name: "acme"}))
	if err != nil || string(text) != `{"name":"acme"}` {
		t.Errorf("%s %v", text, err)
	}
}
