package ingest

import (
	"context"
	"sync"
)

// pool is something that a gateway has a fixed amount of, seats or bytes to spool, shared by tenants. A tenant, with all its keys, may hold
// at most its cap, and never more than it leaves free: one tenant can hold half, two a third each, and so on, and as much is always left
// for the next one. It is safe for concurrent use.
type pool struct {
	max, cap int64

	mu    sync.Mutex
	used  int64
	own   map[string]int64  // by tenant
	caps  map[string]int64  // of tenants in own and queue that have a smaller one
	queue map[string][]turn // who waits, by tenant, in order
}

// turn is one who waits for n, and is told by closing the channel.
type turn struct {
	n    int64
	come chan struct{}
}

func newPool(most, ofOne int64) *pool {
	return &pool{max: most, cap: ofOne, own: map[string]int64{}, caps: map[string]int64{}, queue: map[string][]turn{}}
}

// fits reports whether the tenant may have n more. The caller holds the lock.
func (p *pool) fits(tenant string, n int64) bool {
	own, most := p.own[tenant], p.cap
	if less, ok := p.caps[tenant]; ok {
		most = less
	}
	return own+n <= most && own <= p.max-p.used-n
}

// take gives the tenant n more, or reports that it may not have them now.
func (p *pool) take(tenant string, n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue[tenant]) > 0 || !p.fits(tenant, n) {
		return false
	}
	p.grant(tenant, n)
	return true
}

// would reports whether the tenant could have n more now.
func (p *pool) would(tenant string, n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fits(tenant, n)
}

func (p *pool) grant(tenant string, n int64) {
	p.used += n
	p.own[tenant] += n
}

// wait takes one for the tenant, behind those of the tenant that came before, unless ctx ends.
func (p *pool) wait(ctx context.Context, tenant string) error { return p.waitOf(ctx, tenant, 0) }

// waitOf is wait for a tenant that may have only so many, 0: the cap.
func (p *pool) waitOf(ctx context.Context, tenant string, most int) error {
	return p.waitFor(ctx, tenant, 1, most)
}

// waitFor is waitOf for n at once, which are not more than the tenant may have.
func (p *pool) waitFor(ctx context.Context, tenant string, n int64, most int) error {
	p.mu.Lock()
	if delete(p.caps, tenant); most > 0 && int64(most) < p.cap {
		p.caps[tenant] = int64(most)
	}
	if len(p.queue[tenant]) == 0 && p.fits(tenant, n) {
		p.grant(tenant, n)
		p.mu.Unlock()
		return nil
	}
	own := turn{n, make(chan struct{})}
	p.queue[tenant] = append(p.queue[tenant], own)
	p.mu.Unlock()
	select {
	case <-own.come:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.queue[tenant] {
		if other == own {
			p.queue[tenant] = append(p.queue[tenant][:i], p.queue[tenant][i+1:]...)
			if len(p.queue[tenant]) == 0 {
				delete(p.queue, tenant)
			}
			p.letIn() // the next may want less
			p.forget(tenant)
			return ctx.Err()
		}
	}
	return nil // it was given them just then
}

// give returns n of the tenant's, and lets in requests that wait.
func (p *pool) give(tenant string, n int64) {
	if n == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used -= n
	p.own[tenant] -= n
	if p.own[tenant] == 0 {
		delete(p.own, tenant)
	}
	p.letIn()
	p.forget(tenant)
}

// letIn gives to those who wait and whose turn it is. The caller holds the lock.
func (p *pool) letIn() {
	for tenant, queue := range p.queue {
		for len(queue) > 0 && p.fits(tenant, queue[0].n) {
			p.grant(tenant, queue[0].n)
			close(queue[0].come)
			queue = queue[1:]
		}
		p.queue[tenant] = queue
		if len(queue) == 0 {
			delete(p.queue, tenant)
		}
	}
}

// forget drops the cap of a tenant that neither has nor waits for any. The caller holds the lock.
func (p *pool) forget(tenant string) {
	if p.own[tenant] == 0 && len(p.queue[tenant]) == 0 {
		delete(p.caps, tenant)
	}
}

// share is how much a tenant holds, and the most that it may hold while the others hold what they do.
func (p *pool) share(tenant string) (own, most int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own = p.own[tenant]
	return own, max(min(p.cap, (p.max-p.used+own)/2), 1)
}

// inUse is how much is held by all.
func (p *pool) inUse() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// held is how much a tenant holds.
func (p *pool) held(tenant string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.own[tenant]
}
