package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fileLoad uploads traces and captures, a session each, until stop; some come again though they were answered.
type fileLoad struct {
	stopped  atomic.Bool
	wg       sync.WaitGroup
	tenant   string
	traces   []*trace
	launches []launch
}

// startFileLoad sends small ones of the vectors under new names.
func startFileLoad(t *testing.T, c *cluster, tenant string) *fileLoad {
	t.Helper()
	l := &fileLoad{tenant: tenant}
	key := c.makeKey(tenant)
	all := traces(t)
	slices.SortFunc(all, func(a, b *trace) int { return len(a.elements) - len(b.elements) })
	captures := launches(t)
	slices.SortFunc(captures, func(a, b launch) int { return len(a.body) - len(b.body) })
	captures = captures[:len(captures)/2]
	l.wg.Go(func() {
		r := rand.New(rand.NewPCG(*seed, 1001))
		for n := 0; !l.stopped.Load() || n < 3; n++ {
			tr := *all[n%4]
			tr.name = fmt.Sprintf("%s-%d", tr.name, n)
			l.traces = append(l.traces, &tr)
			for range 1 + r.IntN(2) {
				tr.deliver(t, c.gatewayAddr, key, r.IntN(3))
			}
			time.Sleep(time.Duration(300+r.IntN(400)) * time.Millisecond)
		}
	})
	l.wg.Go(func() {
		r := rand.New(rand.NewPCG(*seed, 1002))
		for n := 0; !l.stopped.Load() || n < 5; n++ {
			one := captures[n%len(captures)]
			name := fmt.Sprintf("%s-%d", one.name, n)
			one.query = strings.Replace(one.query, "session="+one.name, "session="+name, 1)
			one.name = name
			l.launches = append(l.launches, one)
			for range 1 + r.IntN(2) {
				one.deliver(t, c.gatewayAddr, key)
			}
			time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
		}
	})
	return l
}

// stop waits until every upload that was begun is answered.
func (l *fileLoad) stop() {
	l.stopped.Store(true)
	l.wg.Wait()
}

// check waits until SQL has each upload once, and the books say so.
func (l *fileLoad) check(t *testing.T, c *cluster) {
	t.Helper()
	c.checkTraces(t, l.tenant, l.traces)
	c.checkLaunches(t, l.tenant, l.launches)
	elements := uint64(0)
	for _, tr := range l.traces {
		elements += uint64(len(tr.elements))
	}
	eventually(t, 3*time.Minute, "usage of "+l.tenant, func() (bool, string) {
		got, err := c.tryRows("SELECT '', toUInt64(sum(events)), toUInt64(sum(rejected)), toUInt64(sum(duplicates)) FROM usage WHERE "+
			"tenant = ? AND source = 'trace'", l.tenant)
		b := got[""]
		return err == nil && len(b) == 3 && b[0]-b[2] == elements && b[1] == 0, fmt.Sprintf("%v, want %d elements (%v)", b, elements, err)
	})
	t.Logf("%d traces and %d captures", len(l.traces), len(l.launches))
}
