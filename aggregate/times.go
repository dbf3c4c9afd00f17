package aggregate

import (
	"math"
	"time"

	"github.com/warpline/warpline/proto/reject"
)

// Bounded reports whether the tenant's limits bound the times of the part's events.
func (p *Part) Bounded() bool { return p.Env.PastNS > 0 || p.Env.FutureNS > 0 }

// Outside returns why an event of this time, nanoseconds since the epoch, is refused; "" when it is not. It is judged from when the gateway
// received the part, so that who folds it again judges alike.
func (p *Part) Outside(at int64) string {
	received := p.Env.ReceivedAt
	if past := p.Env.PastNS; past > 0 && at < received-past {
		return reject.TooOld
	}
	if future := p.Env.FutureNS; future > 0 && at > received+min(future, math.MaxInt64-received) {
		return reject.InFuture
	}
	return ""
}

// OutsideWords says which limit a reason of Outside stands for.
func (p *Part) OutsideWords(reason string) string {
	if reason == reject.TooOld {
		return "further before their receipt than limit-past = " + time.Duration(p.Env.PastNS).String()
	}
	return "further after their receipt than limit-future = " + time.Duration(p.Env.FutureNS).String()
}
