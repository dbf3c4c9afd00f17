package admin_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/cmd/warpline/admin"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// words are the parts of INGEST that say what was changed since start, oldest first, and all of their bytes.
func (r *rig) words() (all []stream.Envelope, raw string) {
	r.t.Helper()
	cons, err := r.streams.Ingest.OrderedConsumer(r.t.Context(), jetstream.OrderedConsumerConfig{FilterSubjects: []string{"ingest.*._.admin"}})
	if err != nil {
		r.t.Fatal(err)
	}
	info, err := cons.Info(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	for range info.NumPending {
		msg, err := cons.Next()
		if err != nil {
			r.t.Fatal(err)
		}
		e, _, err := stream.ParseEnvelope(msg.Data())
		if err != nil || e.Kind != stream.KindAdmin || e.Admin == nil {
			r.t.Fatalf("%+v %v", e, err)
		}
		all, raw = append(all, e), raw+string(msg.Data())
	}
	return all[r.before:], raw
}

// Each change is said before it is made and after, with who made it, what was and what is, and without secrets. What is only asked, is
// refused or changes nothing is not said.
func TestEachChangeIsRecorded(t *testing.T) {
	r := start(t, nil)
	made := r.want(201, "acme admin", "POST", "keys", `{"note":"farm","limit-names":5}`)
	next := r.want(201, "acme admin", "POST", "keys/"+made.text("id")+"/rotate", "")
	r.want(200, "acme admin", "PATCH", "keys/"+next.text("id"), `{"note":"barn"}`)
	r.want(200, "acme admin", "DELETE", "keys/"+next.text("id"), "")
	r.want(201, "operator", "POST", "tenants", `{"name":"initech"}`)
	r.want(200, "operator", "PATCH", "tenants/initech", `{"limit-names":7}`)
	r.want(200, "operator", "POST", "tenants/initech/disable", "")
	r.want(200, "operator", "POST", "tenants/initech/enable", "")
	r.want(204, "operator", "DELETE", "tenants/initech", "")
	r.want(201, "operator", "POST", "keys", `{"scope":"operator"}`)
	if _, err := r.desk.RevokeKey(t.Context(), admin.CLI(), r.ids["acme read"], 0); err != nil {
		t.Fatal(err)
	}
	for _, again := range []bool{true, false} {
		if changed, err := r.desk.Declare(t.Context(), "hooli", "of a file", false, tenant.Limits{Names: 9}); err != nil || changed != again {
			t.Error(changed, err)
		}
	}

	r.want(200, "acme admin", "DELETE", "keys/"+next.text("id"), "") // it is revoked already
	r.want(200, "operator", "PATCH", "tenants/acme", `{}`)
	r.want(403, "acme admin", "PATCH", "tenants/acme", `{"note":"x"}`)
	r.want(404, "acme admin", "DELETE", "keys/{globex read}", "")
	r.want(412, "operator", "PATCH", "tenants/acme", `{"note":"x"}`, "If-Match", `"999"`)
	r.want(409, "operator", "DELETE", "tenants/acme", "")

	a, o := r.ids["acme admin"], r.ids["operator"]
	want := []string{
		"acme " + a + " key create " + made.text("id"), "acme " + a + " key rotate " + made.text("id"),
		"acme " + a + " key set " + next.text("id"), "acme " + a + " key revoke " + next.text("id"), "initech " + o + " tenant create initech",
		"initech " + o + " tenant set initech", "initech " + o + " tenant disable initech", "initech " + o + " tenant enable initech",
		"initech " + o + " tenant delete initech", " " + o + " key create", "acme cli key revoke " + r.ids["acme read"],
		"hooli file tenant declare hooli",
	}
	changes := map[string]string{"key set": `{"note":["farm","barn"]}`, "tenant set": `{"limit-names":[null,7]}`}
	words, raw := r.words()
	if len(words) != 2*len(want) {
		t.Errorf("%d words of %d changes", len(words), len(want))
	}
	for i := range want {
		if 2*i+1 >= len(words) {
			break
		}
		begun, done := words[2*i].Admin, words[2*i+1].Admin
		got := fmt.Sprintf("%s %s %s %s", words[2*i+1].Tenant, done.Who, done.Action, done.Object)
		if !strings.HasPrefix(got, want[i]) || begun.ID != done.ID || begun.Outcome != stream.AdminBegun || done.Outcome != stream.AdminDone {
			t.Errorf("change %d: %s: %+v, then %+v; want %s", i, got, begun, done, want[i])
		}
		if is := changes[done.Action]; is != "" && done.Change != is {
			t.Errorf("%s: %s, want %s", done.Action, done.Change, is)
		}
	}
	for name, secret := range r.secrets {
		if strings.Contains(raw, secret) || strings.Contains(raw, tenant.Hash(secret)) {
			t.Errorf("the log has the secret of %s, or its hash", name)
		}
	}
	for _, a := range []answer{made, next} {
		if strings.Contains(raw, a.text("secret")) {
			t.Error("the log has the secret of a new key")
		}
	}
	if !strings.Contains(raw, `replaced_by\":[null,\"`+next.text("id")) {
		t.Error("the log does not say which key replaced which")
	}
}

// A race that is lost is recorded as failed: what it would have changed is not.
func TestFailedChangesAreRecorded(t *testing.T) {
	r := start(t, nil)
	before, _, err := r.desk.Tenants.Stored(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.desk.Change(t.Context(), admin.CLI(), "acme", 0, func(now *tenant.Record) error {
		if now.Note == before.Note { // the first time somebody else comes between
			if _, err := r.desk.Tenants.Change(t.Context(), "acme", func(r *tenant.Record) { r.Note = "between" }); err != nil {
				t.Fatal(err)
			}
		}
		now.Limits.Names = 3
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	words, _ := r.words()
	got := ""
	for _, w := range words {
		got += w.Admin.Outcome + " "
	}
	if got != "begun failed begun done " {
		t.Error(got)
	}
	if now, err := r.desk.Tenants.Get(t.Context(), "acme"); err != nil || now.Note != "between" || now.Limits.Names != 3 {
		t.Errorf("%+v %v", now, err)
	}
}

// Where a change cannot be recorded it is not made; what closes a door is made all the same.
func TestChangesThatCannotBeRecorded(t *testing.T) {
	r := start(t, nil)
	full := r.streams.Ingest.CachedInfo().Config
	full.MaxBytes = 1
	if _, err := r.streams.JS.UpdateStream(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][3]string{{"PATCH", "tenants/acme", `{"note":"x"}`}, {"POST", "keys", `{"tenant":"acme"}`},
		{"PATCH", "keys/{acme read}", `{"note":"x"}`}, {"POST", "keys/{acme read}/rotate", ""}, {"POST", "tenants", `{"name":"initech"}`}} {
		if a := r.want(503, "operator", c[0], c[1], c[2]); a.code() != "not_recorded" {
			t.Error(a.raw)
		}
	}
	if a := r.want(200, "operator", "GET", "tenants/acme", ""); a.text("note") != "note of acme" || a.fields["valid_keys"] != 3.0 {
		t.Errorf("it was changed: %s", a.raw)
	}
	r.want(200, "operator", "DELETE", "keys/{acme read}", "")
	r.want(200, "operator", "POST", "tenants/acme/disable", "")
	if err := <-r.warned; !strings.Contains(err.Error(), "key revoke is not in admin_log") {
		t.Error(err)
	}
}
