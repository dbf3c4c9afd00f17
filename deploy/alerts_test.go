package deploy_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/aggregate"
	gpuflightfold "github.com/warpline/warpline/aggregate/gpuflight"
	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// expression is that of an alert.
func expression(t *testing.T, alert string) string {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	decode(t, "prometheus/alerts.yml", &file)
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if r.Alert == alert {
				return r.Expr
			}
		}
	}
	t.Fatalf("no alert %s", alert)
	return ""
}

// fires returns the labels with which an alert fires.
func fires(t *testing.T, alert string, before, now scrape) []string {
	t.Helper()
	keys := []string{}
	for key := range ask(t, expression(t, alert), before, now) {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// Alerts fire on what they say, and are silent else.
func TestAlertsFire(t *testing.T) {
	of := func(what, who, gateway string, used, limit float64) scrape {
		labels := fmt.Sprintf(`{instance=%q,job="gateway",of=%q,tenant=%q}`, gateway, what, who)
		s := scrape{"warpline_gateway_tenant_used" + labels: used}
		if limit > 0 {
			s["warpline_gateway_tenant_limit"+labels] = limit
		}
		return s
	}
	windows := func(role string, window, target float64) scrape {
		labels := fmt.Sprintf(`{instance="a",job=%q}`, role)
		return scrape{"warpline_" + role + "_replay_window_seconds" + labels: window,
			"warpline_" + role + "_replay_target_seconds" + labels: target}
	}
	poison := func(a, b float64) scrape {
		return scrape{`warpline_worker_parts_total{instance="a",job="worker",outcome="poison"}`: a,
			`warpline_worker_parts_total{instance="b",job="worker",outcome="poison"}`: 0,
			`warpline_worker_parts_total{instance="a",job="worker",outcome="folded"}`: b}
	}
	const day, quota, sessions = 86400, "quota-events-per-day", "limit-active-sessions"
	for _, c := range []struct {
		what, alert string
		before      scrape
		now         []scrape
		want        []string
	}{
		{"a quota that is nearly used", "WarplineQuotaNearlyUsed", nil, []scrape{of(quota, "red", "a", 950, 1000), of(quota, "red", "b", 940,
			1000), of(quota, "blue", "a", 500, 1000)}, []string{`{of="quota-events-per-day",tenant="red"}`}},
		{"bytes of those beyond the bound of series", "WarplineQuotaNearlyUsed", nil, []scrape{of("quota-bytes-per-day", "(other)", "a", 2000,
			1000)}, []string{`{of="quota-bytes-per-day",tenant="(other)"}`}},
		{"quotas that are not, and a limit", "WarplineQuotaNearlyUsed", nil, []scrape{of(quota, "red", "a", 900, 1000), of(quota, "blue", "a",
			5000, 0), of(sessions, "blue", "a", 10, 10)}, nil},
		{"sessions near their limit", "WarplineTenantNearLimit", nil, []scrape{of(sessions, "red", "a", 10, 10), of(sessions, "blue", "a", 9, 10),
			of(quota, "red", "a", 10, 10)}, []string{`{of="limit-active-sessions",tenant="red"}`}},
		{"bytes on their way, without a limit", "WarplineTenantNearLimit", nil, []scrape{of("limit-pending-bytes", "red", "a", 1e12, 0)}, nil},
		{"a share of a store", "WarplineShareFilling", nil, []scrape{of("share-upload-record", "red", "a", 95, 100), of("share-spool", "red", "a",
			10, 100), of("share-large-lines", "blue", "a", 91, 100)}, []string{`{of="share-large-lines",tenant="blue"}`,
			`{of="share-upload-record",tenant="red"}`}},
		{"shares of INGEST and ROWS", "WarplineShareFilling", nil, []scrape{of("share-ingest", "red", "a", 91, 100), of("share-rows", "red", "a",
			95, 100), of("share-ingest", "blue", "a", 89, 100), of("share-rows", "blue", "b", 1, 5)}, []string{
			`{of="share-ingest",tenant="red"}`, `{of="share-rows",tenant="red"}`}},
		{"names, of which the oldest make room", "WarplineShareFilling", nil, []scrape{of("share-names", "red", "a", 99, 100),
			of("share-name-record", "red", "a", 99, 100)}, nil},
		{"no share, and uploads at once", "WarplineShareFilling", nil, []scrape{of("limit-uploads-at-once", "red", "a", 64, 64)}, nil},
		{"INGEST was cut", "WarplineReplayWindowShort", nil, []scrape{windows("worker", 60, day), windows("sink", day, day)}, []string{`{}`}},
		{"ROWS was cut", "WarplineReplayWindowShort", nil, []scrape{windows("worker", day, day), windows("sink", 60, day)}, []string{`{}`}},
		{"both are as promised", "WarplineReplayWindowShort", nil, []scrape{windows("worker", day, day), windows("sink", day, day)}, nil},
		{"a window that was cut long ago", "WarplineReplayWindowShort", nil, []scrape{windows("worker", day*2/3, day), windows("sink", day, day)},
			nil},
		{"no window is promised", "WarplineReplayWindowShort", nil, []scrape{windows("worker", day, day), windows("sink", 0, 0)}, nil},
		{"a part that could not be folded", "WarplinePoison", poison(3, 10), []scrape{poison(4, 10)}, []string{`{}`}},
		{"parts of before", "WarplinePoison", poison(3, 10), []scrape{poison(3, 1000)}, nil},
	} {
		now := scrape{}
		for _, s := range c.now {
			for key, value := range s {
				now[key] = value
			}
		}
		if got := fires(t, c.alert, c.before, now); !slices.Equal(got, c.want) {
			t.Errorf("%s: %s fires %v, want %v", c.what, c.alert, got, c.want)
		}
	}
}

// A real INGEST is filled: while it is less than half full nothing is said of the replay window, and beyond that the alert is.
func TestReplayWindowAlertOfARealWorker(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1, IngestMaxBytes: 1 << 20})
	reg := prometheus.NewRegistry()
	w := aggregate.New(s, aggregate.Config{Sources: []aggregate.Source{gpuflightfold.Source()}, Schema: tabletest.Schema(), Registerer: reg,
		ChunkAge: 30 * time.Millisecond})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	rng := rand.New(rand.NewPCG(1, 2))
	send := func(parts int) {
		for range parts {
			line := make([]byte, 60<<10) // that no codec shrinks, and which is refused
			for i := range line {
				line[i] = byte(rng.IntN(94)) + '!'
			}
			msg, err := stream.AppendEnvelope(nil, &stream.Envelope{Tenant: "acme", Session: "s", Kind: stream.KindGPUFlight, Source: "gpu-flight",
				Identity: fmt.Sprint("device/0/", rng.Uint64()), Events: 1, Bytes: uint64(len(line)), ReceivedAt: time.Now().UnixNano(),
				RetentionDays: 7, RollupDays: 395}, append(line, '\n'))
			if err == nil {
				_, err = s.JS.Publish(t.Context(), stream.IngestSubject(0, "acme", stream.SessionToken("s")), msg)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	look := func() (scrape, []string) {
		all, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		now := scrapeOf(all)
		return now, fires(t, "WarplineReplayWindowShort", nil, now)
	}
	send(4)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		now, firing := look()
		if len(firing) > 0 {
			t.Fatalf("a quarter full: it fires")
		}
		if now[`warpline_worker_parts_total{instance="here",job="gateway",outcome="folded"}`] >= 4 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the parts are not folded")
		}
	}
	send(8)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, firing := look(); len(firing) == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("three quarters full: it does not fire")
		}
	}
}
