package admin_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/cmd/warpline/admin"
	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// described is the part of openapi.json that the tests look at.
type described struct {
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]schema }
	Servers    []struct{ URL string }
}

type operation struct {
	Summary     string
	Parameters  []struct{ In, Name, Description string }
	RequestBody *struct{ Content map[string]media } `json:"requestBody"`
	Responses   map[string]struct{ Content map[string]media }
	Security    *[]any
}

type media struct{ Schema schema }

type schema struct {
	Ref        string `json:"$ref"`
	Type       kind
	Format     string
	Properties map[string]schema
	Required   []string
	Items      *schema
	Additional *bool `json:"additionalProperties"`
	Enum       []string
}

func (r *rig) described() (d described) {
	r.t.Helper()
	a := r.want(200, "", "GET", "openapi.json", "")
	if err := json.Unmarshal([]byte(a.raw[4:]), &d); err != nil {
		r.t.Fatal(err)
	}
	return d
}

// kind is the type of a value, or that or null.
type kind struct {
	name   string
	orNull bool
}

func (k *kind) UnmarshalJSON(text []byte) error {
	var both []string
	if json.Unmarshal(text, &both) == nil && len(both) == 2 && both[1] == "null" {
		*k = kind{both[0], true}
		return nil
	}
	return json.Unmarshal(text, &k.name)
}

// check returns what is wrong with a value by a schema.
func (d *described) check(s schema, v any, at string) (wrong []string) {
	if s.Ref != "" {
		name := strings.TrimPrefix(s.Ref, "#/components/schemas/")
		to, ok := d.Components.Schemas[name]
		if !ok {
			return []string{at + ": there is no schema " + s.Ref}
		}
		return d.check(to, v, at)
	}
	bad := func() []string { return []string{fmt.Sprintf("%s is %v, want %s", at, v, s.Type.name)} }
	if v == nil && s.Type.orNull {
		return nil
	}
	switch s.Type.name {
	case "object":
		m, ok := v.(map[string]any)
		if !ok {
			return bad()
		}
		for _, name := range s.Required {
			if _, ok := m[name]; !ok {
				wrong = append(wrong, at+"."+name+" is not there")
			}
		}
		for name, value := range m {
			p, ok := s.Properties[name]
			if !ok {
				if s.Additional != nil && !*s.Additional {
					wrong = append(wrong, at+"."+name+" is not described")
				}
				continue
			}
			wrong = append(wrong, d.check(p, value, at+"."+name)...)
		}
	case "array":
		all, ok := v.([]any)
		if !ok {
			return bad()
		}
		for _, one := range all {
			wrong = append(wrong, d.check(*s.Items, one, at+"[]")...)
		}
	case "string":
		text, ok := v.(string)
		if !ok || s.Enum != nil && !slices.Contains(s.Enum, text) {
			return bad()
		}
		if _, err := time.Parse(time.RFC3339, text); s.Format == "date-time" && err != nil {
			return bad()
		}
	case "integer":
		if n, ok := v.(float64); !ok || n != float64(int64(n)) {
			return bad()
		}
	case "number":
		if _, ok := v.(float64); !ok {
			return bad()
		}
	case "boolean":
		if _, ok := v.(bool); !ok {
			return bad()
		}
	default:
		return []string{at + ": a schema of type " + s.Type.name}
	}
	return wrong
}

// rowsOfTwo is a ClickHouse with usage and rejects of acme and globex.
func rowsOfTwo(t *testing.T) *tabletest.Store {
	s := tabletest.New(t, true)
	now := time.Now()
	for i, of := range []string{"acme", "globex"} {
		s.Seed(table.Usage, 1, func(b *table.Batch, _ int) {
			table.Usage.Append(b, &table.UsageRow{Tenant: of, Day: int32(now.Unix() / 86400), Source: "gpu-flight", Events: uint64(i + 1),
				ReceivedDay: int32(now.Unix() / 86400)})
		})
		for j := range 7 {
			s.Seed(table.Rejects, 1, func(b *table.Batch, _ int) {
				table.Rejects.Append(b, &table.RejectRow{HeadRow: table.HeadRow{Tenant: of, SessionID: "s"},
					At: now.UnixNano() + int64(j/2), Source: "gpu-flight", Reason: "bad_json", Detail: of, Type: "kernel_event", Events: 1,
					Bytes: 6, Payload: fmt.Append(nil, "{half", j), Stage: "door", ReceivedAt: now.UnixNano()})
			})
		}
	}
	return s
}

// The description and the server are the same: what one has the other has, with the fields that it says.
func TestDescription(t *testing.T) {
	rows := rowsOfTwo(t)
	r := start(t, rows)
	d := r.described()
	rejectID := rows.Query("SELECT min(reject_id) FROM {db}.rejects WHERE tenant = 'acme'")
	type sample struct{ path, body string }
	samples := map[string]sample{ // in place of variables, and bodies that are taken
		"post /tenants":           {"", `{"name":"fresh","note":"n","limit-names":3,"quota-trickle":0.5}`},
		"patch /tenants/{tenant}": {"", `{"limit-events-per-second":7}`}, "post /tenants/{tenant}/keys": {"", `{"note":"x"}`},
		"delete /tenants/{tenant}": {"tenants/fresh", ""}, "post /keys": {"", `{"scope":"operator"}`},
		"patch /keys/{id}": {"", `{"expires":"2040-01-01T00:00:00Z"}`}, "post /keys/{id}/rotate": {"", `{"overlap_seconds":60}`},
		"get /rejects/{id}": {"rejects/" + rejectID, ""}, "post /rejects/replay": {"", `{"reject_ids":["` + rejectID + `"],"wait_seconds":0}`},
		"post /rejects/drop": {"", `{"tenant":"acme","reason":"bad_json","dry_run":true}`},
		"post /replay":       {"", `{"tenant":"acme","dry_run":true}`},
		"delete /tenants/{tenant}/sessions/{session}": {"tenants/acme/sessions/s?wait_seconds=0", ""},
		"post /tenants/{tenant}/purge":                {"tenants/globex/purge", `{"wait_seconds":0}`},
		"post /tenants/{tenant}/retain":               {"", `{"class":"default"}`},
		"get /tenants/{tenant}/retain":                {"tenants/globex/retain", ""},
	}
	r.want(202, "operator", "POST", "tenants/globex/retain", `{"class":"default"}`)
	if len(d.Servers) != 1 || d.Servers[0].URL+"/" != admin.Path {
		t.Errorf("servers: %+v", d.Servers)
	}
	paths := make([]string, 0, len(d.Paths))
	for path := range d.Paths {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	asked := 0
	for _, method := range []string{"get", "post", "patch", "delete"} { // nothing is deleted before it was looked at
		for _, path := range paths {
			op, ok := d.Paths[path][method]
			use := samples[method+" "+path]
			at := use.path
			if at == "" {
				at = strings.NewReplacer("{tenant}", "acme", "{id}", "{acme ingest}").Replace(strings.TrimPrefix(path, "/"))
			}
			if !ok {
				if a := r.ask("operator", strings.ToUpper(method), at, ""); a.status != 405 {
					t.Errorf("%s %s is not described and answers %s", method, path, a.raw)
				}
				continue
			}
			asked++
			who := "operator"
			if op.Security != nil {
				who = ""
			}
			if op.RequestBody != nil != (use.body != "") || op.Summary == "" {
				t.Errorf("%s %s: a body is described (%v), and one is used: %q", method, path, op.RequestBody != nil, use.body)
			}
			if op.RequestBody != nil {
				var body any
				if err := json.Unmarshal([]byte(use.body), &body); err != nil {
					t.Fatal(err)
				}
				for _, w := range d.check(op.RequestBody.Content["application/json"].Schema, body, "body") {
					t.Errorf("%s %s: %s", method, path, w)
				}
			}
			a := r.ask(who, strings.ToUpper(method), at, use.body)
			response, ok := op.Responses[fmt.Sprint(a.status)]
			if !ok || a.status >= 300 {
				t.Errorf("%s %s: %s, which is not described", method, path, a.raw)
				continue
			}
			if content, ok := response.Content["application/json"]; ok {
				for _, w := range d.check(content.Schema, a.fields, "answer") {
					t.Errorf("%s %s: %s in %.400s", method, path, w, a.raw)
				}
			} else if a.fields != nil {
				t.Errorf("%s %s: an answer that is not described: %s", method, path, a.raw)
			}
			for _, p := range op.Parameters {
				if p.In == "query" && p.Description == "" {
					t.Errorf("%s %s: parameter %s says nothing", method, path, p.Name)
				}
			}
			no := r.ask("acme read", strings.ToUpper(method), at, use.body)
			problem := op.Responses["default"].Content["application/problem+json"]
			if who == "" {
				continue
			}
			for _, w := range d.check(problem.Schema, no.fields, "problem") {
				t.Errorf("%s %s: %s in %s", method, path, w, no.raw)
			}
		}
	}
	if asked < 20 {
		t.Errorf("only %d operations were asked for", asked)
	}
}

// Usage and rejects are there for who asks: an administrator's own, and for the operator all. Pages of rejects have each once.
func TestRowsOfOneTenant(t *testing.T) {
	r := start(t, rowsOfTwo(t))
	if a := r.want(200, "acme admin", "GET", "tenants/acme/usage", ""); len(a.list("usage")) != 1 || strings.Contains(a.raw, "globex") ||
		a.list("usage")[0]["events"] != 1.0 {
		t.Error(a.raw)
	}
	if a := r.want(200, "operator", "GET", "tenants/globex/usage", ""); len(a.list("usage")) != 1 || a.list("usage")[0]["events"] != 2.0 {
		t.Error(a.raw)
	}
	r.want(404, "acme admin", "GET", "tenants/globex/usage", "")
	r.want(404, "acme admin", "GET", "rejects?tenant=globex", "")
	r.want(404, "acme admin", "POST", "rejects/replay", `{"tenant":"globex"}`)
	for who, want := range map[string]int{"acme admin": 7, "operator": 14} {
		seen := map[string]int{}
		for after, pages := "", 0; pages < 20; pages++ {
			a := r.want(200, who, "GET", "rejects?limit=3&after="+after, "")
			for _, one := range a.list("rejects") {
				seen[fmt.Sprint(one["reject_id"])]++
			}
			if who == "acme admin" && strings.Contains(a.raw, "globex") {
				t.Error(a.raw)
			}
			if after = a.text("next"); after == "" {
				break
			}
		}
		for id, n := range seen {
			if n != 1 {
				t.Errorf("%s: %s is there %d times", who, id, n)
			}
		}
		if len(seen) != want {
			t.Errorf("%s sees %d rejects, want %d", who, len(seen), want)
		}
	}
	theirs := r.rows.Query("SELECT min(reject_id) FROM {db}.rejects WHERE tenant = 'globex'")
	r.want(404, "acme admin", "GET", "rejects/"+theirs, "")
	r.want(200, "operator", "GET", "rejects/"+theirs, "")
	a := r.want(200, "acme admin", "POST", "rejects/replay", `{"reject_ids":["`+theirs+`"],"wait_seconds":0}`)
	if len(a.list("outcomes")) != 0 {
		t.Errorf("another tenant's reject was sent again: %s", a.raw)
	}
	if n := len(r.want(200, "operator", "GET", "tenants/globex/keys", "").list("keys")); n != 3 {
		t.Errorf("globex has %d keys, want 3: a replay makes one", n)
	}
	for _, bad := range []string{"rejects?limit=201", "rejects?from=now", "rejects?after=x", "rejects?after=1.x'", "tenants/acme/usage?from=x",
		"rejects?tenat=acme", "tenants?tenant=acme", "status?deep=true", "rejects?tenant=acme&tenant=globex", "rejects?tenant=%zz",
		"tenants/acme/usage?from=2020-01-01&to=2026-01-01", "tenants/acme/usage?from=2026-02-01&to=2026-01-01"} {
		r.want(400, "operator", "GET", bad, "")
	}
	for _, bad := range []string{`{}`, `{"limit":0,"tenant":"acme"}`, `{"limit":201,"tenant":"acme"}`, `{"reject_ids":["'"]}`,
		`{"reject_ids":"x"}`, `{"wait_seconds":3600,"tenant":"acme"}`} {
		r.want(400, "operator", "POST", "rejects/replay", bad)
	}
	injection := `' OR 1=1 --`
	for _, param := range []string{"session_id", "reason", "type"} {
		a := r.want(200, "acme admin", "GET", "rejects?"+param+"="+strings.NewReplacer(" ", "%20", "'", "%27", "=", "%3D").Replace(injection), "")
		if len(a.list("rejects")) != 0 {
			t.Error(a.raw)
		}
	}
}
