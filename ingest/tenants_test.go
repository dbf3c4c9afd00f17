package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// taken sends small uploads for a while, with each of the keys in turn, and returns how many lines were taken and the last refusal.
func (r *rig) taken(during time.Duration, keys ...[]string) (lines int, refused answer) {
	for i, end := 0, time.Now().Add(during); time.Now().Before(end); i++ {
		a := r.post("s", ndjson("s", 100), keys[i%len(keys)]...)
		if a.status == http.StatusOK {
			lines += 100
			continue
		}
		refused = a
		time.Sleep(5 * time.Millisecond)
	}
	return lines, refused
}

// The limits of a tenant are for all its keys together: twenty keys are not twenty times the limit, and a key can be narrower.
func TestLimitsBelongToTheTenant(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	tenants := ingest.NewTenants(r.streams.Keys)
	if _, err := tenants.Create(t.Context(), "red", "", tenant.Limits{EventsPerSecond: 2000, BurstSeconds: 1}); err != nil {
		t.Fatal(err)
	}
	var keys [][]string
	for range 20 {
		keys = append(keys, r.keyOf("red", tenant.Limits{}))
	}
	wide := r.keyOf("red", tenant.Limits{EventsPerSecond: 1e9})
	const seconds = 4
	for name, with := range map[string][][]string{"20 keys": keys, "a key that says it may more": {wide}} {
		var lines int
		var refused answer
		for try := 0; try < 5 && lines < 2000*seconds*8/10; try++ { // a machine with much else to do may not send as much
			began := time.Now()
			lines, refused = r.taken(seconds*time.Second, with...)
			took := time.Since(began).Seconds()
			if most := int(2000 * (took + 1) * 1.1); lines > most {
				t.Errorf("%s: %d lines in %.1f s, at most %d are allowed", name, lines, took, most)
			}
		}
		if lines < 2000*seconds*8/10 {
			t.Errorf("%s: %d lines in %d s are fewer than may be", name, lines, seconds)
		}
		if refused.status != http.StatusTooManyRequests ||
			!strings.Contains(refused.raw, "tenant red is over its limit limit-events-per-second = 2000") {
			t.Errorf("%s: %s", name, refused.raw)
		}
	}
	if _, err := tenants.Change(t.Context(), "red", func(r *tenant.Record) { r.Limits.EventsPerSecond = 1e6 }); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "more is allowed", func() bool { return r.post("s", ndjson("s", 5000), keys[0]...).status == http.StatusOK })
	narrow := r.keyOf("red", tenant.Limits{EventsPerSecond: 500, BurstSeconds: 1})
	began := time.Now()
	if lines, refused := r.taken(2*time.Second, narrow); float64(lines) > 700+500*time.Since(began).Seconds() ||
		!strings.Contains(refused.raw, "key ") {
		t.Errorf("the narrow key: %d lines: %s", lines, refused.raw)
	}
	if a := r.post("s", ndjson("s", 5000), keys[1]...); a.status != http.StatusOK {
		t.Errorf("its debt is the tenant's: %s", a.raw)
	}
}

// Four gateways are not four limits, nor is a tenant that meets one of them left with a fourth; and the burst is there once.
func TestGatewaysShareLimits(t *testing.T) {
	const perSecond, seconds = 4000, 2
	s := brokertest.Start(t, broker.Layout{})
	var all []*rig
	for range 4 {
		all = append(all, startOn(t, s, nil))
	}
	tenants := ingest.NewTenants(s.Keys)
	for _, c := range []struct {
		name string
		to   []*rig
	}{{"red", all}, {"blue", all[1:2]}, {"green", all[2:]}} {
		name, to := c.name, c.to
		if _, err := tenants.Create(t.Context(), name, "", tenant.Limits{EventsPerSecond: perSecond, BurstSeconds: 1}); err != nil {
			t.Fatal(err)
		}
		key := all[0].keyOf(name, tenant.Limits{})
		for _, r := range to {
			eventually(t, soon, "the limits are known", func() bool {
				return strings.Contains(r.post("s", nil, key...).header.Get("RateLimit-Policy"), `"events";q=4000;w=1,`)
			})
		}
		if name == "green" { // one of its two gateways ends
			all[3].gateway.Close()
			to = all[2:3]
		}
		few := true
		for try := 0; try < 5 && few; try++ { // a machine with much else to do may not send as much
			var lines atomic.Int64
			var senders sync.WaitGroup
			began := time.Now()
			for _, r := range to {
				senders.Go(func() {
					n, _ := r.taken(seconds*time.Second, key)
					lines.Add(int64(n))
				})
			}
			senders.Wait()
			took, n := time.Since(began).Seconds(), float64(lines.Load())
			if most := perSecond * (took + 1) * 1.1; n > most {
				t.Errorf("%s: %.0f lines through %d gateways in %.1f s, %.0f are allowed", name, n, len(to), took, most)
			}
			few = n < perSecond*(seconds+1)*0.85
			if few {
				time.Sleep(time.Second) // the burst is there again
			}
		}
		if few {
			t.Errorf("%s: each time less is taken through %d gateways than may be", name, len(to))
		}
	}
	// What one let in too much is owed at all of them.
	key := all[0].keyOf("black", tenant.Limits{})
	if _, err := tenants.Create(t.Context(), "black", "", tenant.Limits{EventsPerSecond: 100, BurstSeconds: 1}); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "the limit is known", func() bool {
		return strings.HasPrefix(all[0].post("s", nil, key...).header.Get("RateLimit-Policy"), `"events";q=100;`)
	})
	all[0].post("s", ndjson("s", 3000), key...)
	eventually(t, soon, "another gateway refuses", func() bool {
		return all[1].post("t", ndjson("t", 1), key...).status == http.StatusTooManyRequests
	})
}

// What may come in a day is counted for all gateways together, and is known after all of them were restarted.
func TestQuotas(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{})
	tenants := ingest.NewTenants(s.Keys)
	for name, limits := range map[string]tenant.Limits{
		"hold": {EventsPerDay: 1000}, "drop": {BytesPerDay: 1000, QuotaPolicy: tenant.QuotaDrop},
		"trickle": {EventsPerDay: 1000, QuotaTrickle: 0.25},
	} {
		if _, err := tenants.Create(t.Context(), name, "", limits); err != nil {
			t.Fatal(err)
		}
	}
	one, two := startOn(t, s, nil), startOn(t, s, nil)
	hold, drop := one.keyOf("hold", tenant.Limits{}), one.keyOf("drop", tenant.Limits{})
	narrow, trickle := one.keyOf("hold", tenant.Limits{EventsPerDay: 300}), one.keyOf("trickle", tenant.Limits{})
	refused := func(r *rig, key []string, status int, words string) func() bool {
		return func() bool {
			a := r.post("s", ndjson("s", 1), key...)
			return a.status == status && a.Code == "quota_exceeded" && strings.Contains(a.Detail, words) &&
				(a.header.Get("Retry-After") != "") == (status == http.StatusTooManyRequests)
		}
	}
	if a := one.post("s", ndjson("s", 400), narrow...); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	for _, r := range []*rig{one, two} {
		eventually(t, soon, "the key's own quota", refused(r, narrow, http.StatusTooManyRequests, "quota-events-per-day = 300: 4"))
	}
	if a := two.post("s", ndjson("s", 700), hold...); a.status != http.StatusOK {
		t.Fatalf("the tenant has 600 left: %d %s", a.status, a.raw)
	}
	one.post("s", ndjson("s", 100), drop...)
	for name, r := range map[string]*rig{"one": one, "two": two, "after a restart": nil} {
		if r == nil {
			eventually(t, soon, "counts are stored", func() bool {
				stored, err := s.Quotas.Keys(t.Context())
				return err == nil && len(stored) == 3 // of hold, its narrow key, and drop
			})
			r = startOn(t, s, nil)
		}
		eventually(t, soon, name+": held",
			refused(r, hold, http.StatusTooManyRequests, "tenant hold has used up its quota-events-per-day = 1000: 11"))
		eventually(t, soon, name+": dropped", refused(r, drop, http.StatusPaymentRequired, "quota-bytes-per-day = 1000: "))
	}
	if _, err := tenants.Change(t.Context(), "hold", func(r *tenant.Record) { r.Limits.EventsPerDay = 1e6 }); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "a raised quota", func() bool { return one.post("s", ndjson("s", 1), hold...).status == http.StatusOK })
	one.post("s", ndjson("s", 1000), trickle...)
	passed := 0
	for i := range 40 {
		if one.post("s", ndjson(fmt.Sprint("t", i), 1), trickle...).status == http.StatusOK {
			passed++
		}
	}
	if passed != 10 {
		t.Errorf("%d of 40 uploads passed at a share of 0.25", passed)
	}
}

// A tenant, or a key, may have fewer uploads at once than the gateway lets others have: the next one waits for its turn.
func TestUploadsAtOnce(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	if _, err := ingest.NewTenants(r.streams.Keys).Create(t.Context(), "red", "", tenant.Limits{UploadsAtOnce: 1}); err != nil {
		t.Fatal(err)
	}
	red, other := r.keyOf("red", tenant.Limits{}), r.keyOf("red", tenant.Limits{UploadsAtOnce: 5})
	narrow, wide := r.keyOf("blue", tenant.Limits{UploadsAtOnce: 1}), r.keyOf("blue", tenant.Limits{})
	for name, c := range map[string]struct{ first, waits, passes []string }{
		"tenant": {first: red, waits: other, passes: wide}, "key": {first: narrow, waits: narrow, passes: wide},
	} {
		body, slow := io.Pipe()
		var one, two answer
		var uploads sync.WaitGroup
		uploads.Go(func() {
			one = r.do("POST", "/api/v1/events/stream", body, append([]string{"X-GpuFlight-Session-Id", "s"}, c.first...)...)
		})
		slow.Write(ndjson("s", 1)) // it has begun, and may be asked for more
		eventually(t, soon, name+": it has its seat", func() bool { return r.metric("active_requests") == 1 })
		var done atomic.Bool
		uploads.Go(func() { two = r.post("t", ndjson("t", 1), c.waits...); done.Store(true) })
		if a := r.post("u", ndjson("u", 1), c.passes...); a.status != http.StatusOK {
			t.Errorf("%s: another waits too: %d %s", name, a.status, a.raw)
		}
		time.Sleep(200 * time.Millisecond)
		if done.Load() {
			t.Errorf("%s: the second did not wait: %d %s", name, two.status, two.raw)
		}
		slow.Close()
		uploads.Wait()
		if one.status != http.StatusOK || two.status != http.StatusOK {
			t.Errorf("%s: %d %s, then %d %s", name, one.status, one.raw, two.status, two.raw)
		}
	}
	r.balanced()
}

// Workers learn from each part what its tenant, or its key, may have in a session.
func TestPartsCarryLimitsOfSessions(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	limits := tenant.Limits{Names: 100, NameBytes: 1000, OpenScopes: 10, PastSeconds: 3600}
	if _, err := ingest.NewTenants(r.streams.Keys).Create(t.Context(), "red", "", limits); err != nil {
		t.Fatal(err)
	}
	key := r.keyOf("red", tenant.Limits{Names: 50, OpenScopes: 20, PastSeconds: 1e6, FutureSeconds: 0.5})
	if a := r.post("s", ndjson("s", 1), key...); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	for _, m := range r.published() {
		if m.Names != 50 || m.NameBytes != 1000 || m.OpenScopes != 10 {
			t.Errorf("%d names of %d bytes, %d open scopes", m.Names, m.NameBytes, m.OpenScopes)
		}
		if m.PastNS != int64(time.Hour) || m.FutureNS != int64(time.Second/2) {
			t.Errorf("times from %d ns before to %d ns after", m.PastNS, m.FutureNS)
		}
	}
}

// Every answer to an upload says what is left of the limits, of key and tenant the narrower.
func TestAnswersTellWhatIsLeft(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	limits := tenant.Limits{EventsPerSecond: 100, BurstSeconds: 10}
	if _, err := ingest.NewTenants(r.streams.Keys).Create(t.Context(), "red", "", limits); err != nil {
		t.Fatal(err)
	}
	key := r.keyOf("red", tenant.Limits{RequestsPerSecond: 50})
	a := r.post("s", ndjson("s", 400), key...)
	policy, left := a.header.Get("RateLimit-Policy"), a.header.Get("RateLimit")
	if !strings.HasPrefix(policy, `"events";q=1000;w=10, "bytes";q=`) || !strings.HasSuffix(policy, `"requests";q=500;w=10`) {
		t.Errorf("policy %s", policy)
	}
	var events, wait int
	if _, err := fmt.Sscanf(left, `"events";r=%d;t=%d,`, &events, &wait); err != nil || events < 600 || events > 640 || wait != 4 {
		t.Errorf("left %s: %v", left, err)
	}
	r.post("s", ndjson("s", 5000), key...)
	a = r.post("s", ndjson("s", 1), key...)
	if left := a.header.Get("RateLimit"); a.status != http.StatusTooManyRequests || !strings.HasPrefix(left, `"events";r=0;t=5`) {
		t.Errorf("%d, left %s", a.status, left)
	}
}

// Quotas of a day are among what answers tell, of key or tenant whichever has less left.
func TestAnswersTellWhatIsLeftOfTheDay(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	key := limited(t, "red", tenant.Limits{EventsPerDay: 1000, BytesPerDay: 1e20}, r)
	narrow := r.keyOf("red", tenant.Limits{EventsPerDay: 300})
	left := func(key []string, policy, events string) {
		t.Helper()
		a := r.post("s", ndjson("s", 100), append(key, "Idempotency-Key", policy+events)...)
		if a.status != http.StatusOK && a.status != http.StatusTooManyRequests {
			t.Fatalf("%d %s", a.status, a.raw)
		}
		if got := a.header.Get("RateLimit-Policy"); !strings.HasSuffix(got, policy) {
			t.Errorf("policy %s, want %s", got, policy)
		}
		_, got, _ := strings.Cut(a.header.Get("RateLimit"), `, "events-per-day";`)
		var n, wait, bytes int64
		if _, err := fmt.Sscanf(got, events+`;t=%d, "bytes-per-day";r=%d;t=%d`, &wait, &bytes, &n); err != nil || wait < 1 || wait > 86400 ||
			n != wait || bytes != 1<<53 {
			t.Errorf("left %s: %v", got, err)
		}
	}
	const day = `, "events-per-day";q=%d;w=86400, "bytes-per-day";q=9007199254740992;w=86400`
	left(narrow, fmt.Sprintf(day, 300), "r=200")
	left(key, fmt.Sprintf(day, 1000), "r=800")
	left(narrow, fmt.Sprintf(day, 300), "r=100")
	for _, events := range []string{"r=600", "r=500", "r=400", "r=300", "r=200", "r=100"} {
		left(key, fmt.Sprintf(day, 1000), events)
	}
	left(narrow, fmt.Sprintf(day, 300), "r=0")
	left(narrow, fmt.Sprintf(day, 300), "r=0")
}

// Bounds of uploads are the narrower of key and tenant.
func TestUploadsWithinTheTenant(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	tenants := ingest.NewTenants(r.streams.Keys)
	if _, err := tenants.Create(t.Context(), "red", "", tenant.Limits{MaxBodyBytes: 4096}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		limits tenant.Limits
		whole  bool
	}{
		"as the tenant": {tenant.Limits{}, false}, "wider": {tenant.Limits{MaxBodyBytes: 1 << 20}, false},
		"narrower": {tenant.Limits{MaxBodyBytes: 100}, false},
	} {
		key := r.keyOf("red", c.limits)
		a := r.post(name, ndjson("s", 1000), key...)
		if a.Accepted >= 1000 || a.Accepted == 0 && name != "narrower" {
			t.Errorf("%s: %s", name, a.raw)
		}
	}
}

// A tenant that is disabled is refused, whichever of its keys it uses, and let in again; another does not notice. Without a record a wide
// key is as wide as it was before there were records.
func TestTenantIsDisabled(t *testing.T) {
	r := start(t, broker.Layout{}, func(c *ingest.Config) { c.Defaults.EventsPerSecond, c.Defaults.BurstSeconds = 1000, 1 })
	tenants := ingest.NewTenants(r.streams.Keys)
	if _, err := tenants.Create(t.Context(), "red", "", tenant.Limits{}); err != nil {
		t.Fatal(err)
	}
	if _, err := tenants.Create(t.Context(), "red", "", tenant.Limits{}); err == nil || !strings.Contains(err.Error(), "tenant set") {
		t.Errorf("a second time: %v", err)
	}
	red, blue := r.keyOf("red", tenant.Limits{}), r.keyOf("blue", tenant.Limits{EventsPerSecond: 1e6})
	for began, lines := time.Now(), 0; lines < 3000; { // more than a second's of the default, in a second
		if lines, _ = r.taken(time.Second, blue); time.Since(began) > soon {
			t.Fatalf("a wide key of a tenant without a record: %d lines", lines)
		}
	}
	set := func(at time.Time) {
		if _, err := tenants.Change(t.Context(), "red", func(r *tenant.Record) { r.Disabled = at }); err != nil {
			t.Fatal(err)
		}
	}
	set(time.Now())
	eventually(t, soon, "red is refused", func() bool { return r.post("s", ndjson("s", 1), red...).status == http.StatusForbidden })
	a := r.post("s", ndjson("s", 1), red...)
	if a.Code != "tenant_disabled" || a.header.Get("Retry-After") == "" || r.post("s", ndjson("s", 1), blue...).status != http.StatusOK {
		t.Error(a.raw)
	}
	// A gateway that starts now knows it at once.
	other := startOn(t, r.streams, nil)
	if a := other.post("s", ndjson("s", 1), red...); a.status != http.StatusForbidden && a.status != http.StatusServiceUnavailable {
		t.Errorf("a new gateway: %d %s", a.status, a.raw)
	}
	set(time.Time{})
	eventually(t, soon, "red is let in", func() bool { return r.post("s", ndjson("s", 1), red...).status == http.StatusOK })
	_, revision, err := tenants.Stored(t.Context(), "red")
	if err != nil {
		t.Fatal(err)
	}
	if err := tenants.Remove(t.Context(), "red", revision-1); !errors.Is(err, ingest.ErrChanged) {
		t.Errorf("an older revision: %v", err)
	}
	if err := tenants.Remove(t.Context(), "red", revision); err != nil {
		t.Fatal(err)
	}
	if _, err := tenants.Get(t.Context(), "red"); !errors.Is(err, ingest.ErrNoTenant) {
		t.Error(err)
	}
	if all, err := tenants.List(t.Context()); err != nil || len(all) != 0 {
		t.Error(all, err)
	}
}

// A record that the bucket lost is put back by the gateways, with the keys; one that cannot be read changes nothing.
func TestTenantsSurviveTheirBucket(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	ctx, stop := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	wait.Go(func() { r.streams.Keep(ctx, broker.KeeperConfig{Every: 100 * time.Millisecond}) })
	defer wait.Wait()
	defer stop()
	tenants := ingest.NewTenants(r.streams.Keys)
	if _, err := tenants.Create(t.Context(), "red", "a note", tenant.Limits{EventsPerSecond: 7}); err != nil {
		t.Fatal(err)
	}
	red := r.keyOf("red", tenant.Limits{})
	eventually(t, soon, "the limit holds", func() bool { return r.post("s", ndjson("s", 100), red...).status == http.StatusTooManyRequests })
	if _, err := r.streams.Keys.Put(t.Context(), "tenant.red", []byte(`{"name":"blue"}`)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	if a := r.post("s", ndjson("s", 100), red...); a.status != http.StatusTooManyRequests {
		t.Errorf("after a bad record: %s", a.raw)
	}
	js, err := jetstream.New(r.streams.Conn)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), "KV_"+stream.KeysBucket); err != nil {
		t.Fatal(err)
	}
	eventually(t, 60*time.Second, "the record is back", func() bool {
		back, err := tenants.Get(t.Context(), "red")
		return err == nil && back.Limits.EventsPerSecond == 7 && back.Note == "a note"
	})
}

// A key that is rotated works beside its successor, which is like it, and then ends.
func TestRotate(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	keys := ingest.NewKeys(r.streams.Keys)
	secret, key, err := keys.Create(t.Context(), "red", "build farm", tenant.Limits{MaxBodyBytes: 1 << 20}, 0)
	if err != nil {
		t.Fatal(err)
	}
	made, next, old, err := keys.Rotate(t.Context(), key.ID, 5*time.Second)
	if err != nil || next.Tenant != "red" || next.Note != "build farm" || next.Limits != key.Limits || !next.Expires.IsZero() ||
		old.ID != key.ID {
		t.Fatal(next, old, err)
	}
	status := func(secret string) int { return r.post("s", ndjson("s", 1), "Authorization", "Bearer "+secret).status }
	if a, b := status(secret), status(made); a != http.StatusOK || b != http.StatusOK {
		t.Errorf("during the overlap: %d and %d", a, b)
	}
	eventually(t, soon, "the old key ends", func() bool { return status(secret) == http.StatusUnauthorized })
	if got := status(made); got != http.StatusOK {
		t.Errorf("the new key: %d", got)
	}
	if _, _, _, err := keys.Rotate(t.Context(), key.ID, time.Hour); err == nil {
		t.Error("an expired key was rotated")
	}
}

// Whoever lost the new secret rotates the old key again: the next one works as long as the first would, not until the overlap ends.
func TestRotateTwice(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	keys := ingest.NewKeys(r.streams.Keys)
	for name, life := range map[string]time.Duration{"for ever": 0, "for a month": 720 * time.Hour} {
		_, key, err := keys.Create(t.Context(), "red", "", tenant.Limits{}, life)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 3 {
			_, next, old, err := keys.Rotate(t.Context(), key.ID, time.Hour)
			if err != nil || time.Until(old.Expires) > time.Hour {
				t.Fatalf("%s: %+v %v", name, old, err)
			}
			if left := time.Until(next.Expires); life == 0 && !next.Expires.IsZero() || life > 0 && (left < life-time.Minute || left > life) {
				t.Errorf("%s, rotation %d: the new key ends at %v", name, n+1, next.Expires)
			}
		}
	}
}

// Who keeps no raw rows is a tenant's matter; a key may leave them out alone.
func TestRawRowsOff(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	tenants := ingest.NewTenants(r.streams.Keys)
	for name, raw := range map[string]string{"off": tenant.RawOff, "on": tenant.RawOn} {
		if _, err := tenants.Create(t.Context(), name, "", tenant.Limits{RawRows: raw}); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]bool{}
	for session, c := range map[string]struct {
		tenant, key string
		off         bool
	}{
		"a": {"off", "", true}, "b": {"off", tenant.RawOn, true}, "c": {"on", "", false}, "d": {"on", tenant.RawOff, true},
		"e": {"none", "", false}, "f": {"none", tenant.RawOff, true},
	} {
		want[session] = c.off
		if a := r.post(session, ndjson(session, 1), r.keyOf(c.tenant, tenant.Limits{RawRows: c.key})...); a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.raw)
		}
	}
	for _, m := range r.published() {
		if off, sent := want[m.Session]; sent && m.NoRaw != off {
			t.Errorf("session %s: no raw rows is %v", m.Session, m.NoRaw)
		}
		delete(want, m.Session)
	}
	if len(want) > 0 {
		t.Errorf("not published: %v", want)
	}
}

// A limit below one is told as it is.
func TestSmallLimitsAreTold(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	key := r.keyOf("red", tenant.Limits{EventsPerSecond: 0.25})
	r.post("s", ndjson("s", 5), key...)
	if a := r.post("s", ndjson("s", 6), key...); a.status != http.StatusTooManyRequests ||
		!strings.Contains(a.raw, "key ") || !strings.Contains(a.raw, "limit-events-per-second = 0.25 (burst 2 s, at all gateways together) by ") {
		t.Errorf("%d %s", a.status, a.raw)
	}
	// What is the tenant's is told as the tenant's, though its key has no more.
	if _, err := ingest.NewTenants(r.streams.Keys).Create(t.Context(), "blue", "", tenant.Limits{EventsPerSecond: 1}); err != nil {
		t.Fatal(err)
	}
	key = r.keyOf("blue", tenant.Limits{})
	r.post("t", ndjson("t", 10), key...)
	if a := r.post("t", ndjson("t", 11), key...); a.status != http.StatusTooManyRequests ||
		!strings.Contains(a.raw, `"tenant blue is over its limit limit-events-per-second = 1 `) {
		t.Errorf("%d %s", a.status, a.raw)
	}
}
