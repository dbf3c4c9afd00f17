package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Every row of every vector session is in SQL once, whatever the order of channels, however often a window is posted, with the four
// channels in parallel; everything else is a counted reject.
func TestEveryRowOnce(t *testing.T) {
	c := newCluster(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	r := rand.New(rand.NewPCG(7, 7))
	orders := []struct {
		name     string
		parallel bool
		times    int
		headers  func(i int) bool
	}{
		{"once, channels shuffled", false, 1, func(int) bool { return true }},
		{"twice, channels in parallel", true, 2, func(int) bool { return true }},
		{"twice, the second time without window headers", true, 2, func(i int) bool { return i == 0 }},
	}
	o := newOracle(t)
	for _, folder := range folders {
		for _, w := range vectorWindows(t, folder) {
			o.read(unzip(t, w.gz))
		}
	}
	want := o.finish()
	for i, order := range orders {
		tenant := fmt.Sprintf("t%d", i)
		key := c.makeKey(tenant)
		sessions := map[string]bool{}
		for _, folder := range folders {
			queues := map[string][]*window{}
			for _, w := range vectorWindows(t, folder) {
				queues[w.session+w.channel] = append(queues[w.session+w.channel], w)
				sessions[w.session] = true
			}
			var wg sync.WaitGroup
			send := func(q []*window) {
				for _, w := range q {
					for n := range order.times {
						if err := w.deliver(ctx, c.gatewayAddr, key, order.headers(n)); err != nil {
							t.Error(err)
						}
					}
				}
			}
			names := make([]string, 0, len(queues))
			for name := range queues {
				names = append(names, name)
			}
			r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			for _, name := range names {
				if order.parallel {
					wg.Go(func() { send(queues[name]) })
				} else {
					send(queues[name])
				}
			}
			wg.Wait()
		}
		for s := range sessions {
			if err := complete(ctx, c.gatewayAddr, key, s); err != nil {
				t.Error(err)
			}
		}
	}
	for i, order := range orders {
		tenant := fmt.Sprintf("t%d", i)
		t.Run(order.name, func(t *testing.T) {
			check(t, c, tenant, want, 3*time.Minute)
			checkGroups(t, c, tenant, o.groups)
			eventually(t, 3*time.Minute, "scope_stats", func() (bool, string) { return o.scopeStats(c, tenant, want) })
			books := c.rows("SELECT '', sum(events), toUInt64(sum(events) - sum(rejected) - sum(duplicates)), sum(rejected), sum(duplicates) FROM "+
				"usage WHERE tenant = ?", tenant)[""]
			t.Logf("usage: events %d = stored %d + rejected %d + duplicates %d", books[0], books[1], books[2], books[3])
		})
	}
}

// scopeStats compares scope_stats of a tenant with what was sent.
func (o *oracle) scopeStats(c *cluster, tenant string, want map[string]uint64) (ok bool, have string) {
	sums, err := c.tryRows("SELECT '', toUInt64(sum(calls)), sum(unmatched_begin), sum(unmatched_end), sum(self_ns), "+
		"toUInt64(sum(total_ns) - sum(child_ns)) FROM scope_stats WHERE tenant = ?", tenant)
	inside, err2 := c.tryRows("SELECT concat(session_id, '|', toString(intDiv(toUnixTimestamp(bucket), 60)), '|', scope), kernels, kernel_ns "+
		"FROM scope_stats WHERE tenant = ? AND kernels > 0", tenant)
	if err != nil || err2 != nil {
		return false, fmt.Sprint(err, err2)
	}
	s := sums[""]
	if s[0]+s[1] != want["scope begins"] || s[0]+s[2] != want["scope ends"] {
		return false, fmt.Sprintf("%d pairs, %d lone begins and %d lone ends, want %d begins and %d ends", s[0], s[1], s[2],
			want["scope begins"], want["scope ends"])
	}
	if s[3] != s[4] || s[3] == 0 {
		return false, fmt.Sprintf("self time adds up to %d, want %d", s[3], s[4])
	}
	kernels := o.inside()
	return len(kernels) > 0 && maps.EqualFunc(inside, kernels, func(a, b []uint64) bool { return slices.Equal(a[:2], b) }),
		fmt.Sprintf("kernels inside scopes: %v, want %v", inside, kernels)
}

// inRollups is what the rollups must answer like the raw rows.
var inRollups = []string{
	"kernels", "honest calls", "honest ns", "synthetic calls", "disturbed calls", "memcpy bytes",
	"memcpy ns", "syncs", "sync ns", "pm samples",
	"host rows", "device rows",
}

// check waits until SQL has what is wanted, then demands exact equality of raw rows and rollups.
func check(t *testing.T, c *cluster, tenant string, want map[string]uint64, within time.Duration) {
	t.Helper()
	rolled := func(k string) bool {
		what, _, _ := strings.Cut(k, "|")
		return slices.Contains(inRollups, what)
	}
	raw := func(k string) bool {
		return !strings.HasPrefix(k, "scope ") && !strings.HasPrefix(k, "honest ") && k != "synthetic calls" && k != "disturbed calls" &&
			k != "job_start" && k != "shutdown"
	}
	deadline := time.Now().Add(within)
	for {
		got, err := answers(c, tenant)
		roll, err2 := rollups(c, tenant)
		if err == nil && err2 == nil {
			d := compare(want, got, raw) + compare(want, roll, rolled)
			if d == "" {
				return
			}
			err = fmt.Errorf("differences for tenant %s:\n%s", tenant, d)
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %v %v", within, err, err2)
		}
		time.Sleep(300 * time.Millisecond)
	}
}
