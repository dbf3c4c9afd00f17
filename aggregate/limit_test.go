package aggregate

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/warpline/warpline/proto/stream"
)

// A part that makes more rows than any part may ends its fold, as does one that takes too long; neither goes on to the last line.
func TestFoldEndsAtItsBudget(t *testing.T) {
	for name, reason := range map[string]string{"rows": "memory", "time": "time"} {
		f := newTestFolder()
		var clock atomic.Int64
		p := &Part{Seq: 1, Env: stream.Envelope{Tenant: "t", Session: "s", Kind: stream.KindGPUFlight, Identity: "w", ReceivedAt: testEpoch,
			RetentionDays: 7, RollupDays: 395}}
		p.budget = budget{clock: &clock, deadline: 1, bytes: 1000}
		if name == "time" {
			p.budget.bytes = foldBytes
			clock.Store(2)
		}
		s := f.Session(p)
		func() {
			defer func() {
				if l, ok := recover().(foldLimit); !ok || l.reason != reason {
					t.Errorf("%s: ended by %+v", name, l)
				}
			}()
			f.Take(p, s, []byte(strings.Repeat("not json\n", 1000)))
		}()
		if p.Line >= 1000 {
			t.Errorf("%s: %d lines were folded", name, p.Line)
		}
	}
}
