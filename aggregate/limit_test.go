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
		p := &part{seq: 1, env: stream.Envelope{Tenant: "t", Session: "s", Kind: stream.KindGPUFlight, Identity: "w", ReceivedAt: testEpoch, RetentionDays: 7, RollupDays: 395}}
		p.budget = budget{clock: &clock, deadline: 1, bytes: 1000}
		if name == "time" {
			p.budget.bytes = foldBytes
			clock.Store(2)
		}
		s := f.session(p)
		func() {
			defer func() {
				if l, ok := recover().(foldLimit); !ok || l.reason != reason {
					t.Errorf("%s: ended by %+v", name, l)
				}
			}()
			f.fold(p, s, []byte(strings.Repeat("not json\n", 1000)))
		}()
		if p.line >= 1000 {
			t.Errorf("%s: %d lines were folded", name, p.line)
		}
	}
}
