package broker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Leases divides n numbered things (partitions, lanes) among the live processes of one role. Each is run by the process that holds its
// lease. A lease only says which process should run; for a moment two may believe that they hold it. Correctness does not rest on leases,
// but on the condition with which an owner writes. Fill the fields in, then call Hold once; all but Greedy are required.
type Leases struct {
	Bucket jetstream.KeyValue // with the TTL below
	Role   string             // key prefix: "worker", "sink"
	Count  int                // of the things; they are numbered from 0
	TTL    time.Duration      // above 0: a holder that has not renewed for so long has lost the lease
	Logger *slog.Logger       // required
	// Run does the work of one thing until ctx ends. When it returns, the lease is given up (and taken again later, by anyone).
	Run func(ctx context.Context, i int)
	// Greedy takes every free lease, however many others are alive. It is for tests of two owners only.
	Greedy bool

	id string
}

// NewID returns a random process id.
func NewID() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// held is a thing whose run was started here. It stays in the table until the run has ended, so that nothing runs twice in one process.
type held struct {
	revision uint64
	renewed  time.Time // when the last successful renewal was sent
	cancel   context.CancelFunc
	done     chan struct{}
	stopping bool
}

// stop asks the run to end, and does not wait: other leases have to be renewed meanwhile.
func (h *held) stop() { h.stopping = true; h.cancel() }

func (h *held) ended() bool {
	select {
	case <-h.done:
		return true
	default:
		return false
	}
}

// Hold takes, renews and gives up leases until ctx ends, then stops all runs, releases the leases and returns.
func (l *Leases) Hold(ctx context.Context) {
	l.id = NewID()
	holding := map[int]*held{}
	tick := time.NewTicker(l.TTL / 5)
	defer tick.Stop()
	for {
		if ctx.Err() == nil {
			l.beat(ctx, holding)
		}
		select {
		case <-ctx.Done():
			l.end(ctx, holding)
			return
		case <-tick.C:
		}
	}
}

// end stops every run and renews the leases until the runs are done, so that nobody takes over from an owner that is finishing.
func (l *Leases) end(ctx context.Context, holding map[int]*held) {
	ctx = context.WithoutCancel(ctx)
	for _, h := range holding {
		h.stop()
	}
	for len(holding) > 0 {
		round, cancel := context.WithTimeout(ctx, l.TTL/2)
		l.renew(round, holding)
		l.drop(round, holding)
		cancel()
		if len(holding) > 0 {
			time.Sleep(min(20*time.Millisecond, l.TTL/20))
		}
	}
	last, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	l.Bucket.Delete(last, l.alive(l.id))
}

func (l *Leases) alive(id string) string { return l.Role + ".alive." + id }
func (l *Leases) key(i int) string       { return l.Role + ".lease." + strconv.Itoa(i) }

// drop frees the leases of runs that have ended: fenced, failed, or asked to.
func (l *Leases) drop(ctx context.Context, holding map[int]*held) {
	for i, h := range holding {
		if h.ended() {
			l.Bucket.Delete(ctx, l.key(i), jetstream.LastRevision(h.revision))
			delete(holding, i)
		}
	}
}

// renew updates every lease that is due, all at once: one slow answer must not cost the others their lease.
func (l *Leases) renew(ctx context.Context, holding map[int]*held) {
	var wg sync.WaitGroup
	for i, h := range holding {
		if time.Since(h.renewed) < l.TTL/6 {
			continue
		}
		wg.Go(func() {
			sent := time.Now()
			rev, err := l.Bucket.Update(ctx, l.key(i), []byte(l.id), h.revision)
			switch {
			case err == nil:
				h.revision, h.renewed = rev, sent
			case h.stopping:
			case IsWrongSequence(err), time.Since(h.renewed) > l.TTL:
				// Somebody else holds it, or it has expired: stop. The run's own writes are conditional, so a late stop is harmless.
				l.Logger.Info("lease lost", "role", l.Role, "n", i, "err", err)
				h.stop()
			}
		})
	}
	wg.Wait()
}

// beat does one round: show that we live, renew, drop what has ended, take our share.
func (l *Leases) beat(ctx context.Context, holding map[int]*held) {
	round, cancel := context.WithTimeout(ctx, l.TTL/2)
	defer cancel()
	if _, err := l.Bucket.Put(round, l.alive(l.id), nil); err != nil && ctx.Err() == nil {
		l.Logger.Debug("lease: cannot reach the bucket", "role", l.Role, "err", err)
	}
	l.renew(round, holding)
	l.drop(round, holding)
	taken, alive, err := l.survey(round)
	if err != nil {
		return
	}
	share := (l.Count + alive - 1) / max(alive, 1)
	if l.Greedy {
		share = l.Count
	}
	mine := make([]int, 0, len(holding))
	for i, h := range holding {
		if !h.stopping {
			mine = append(mine, i)
		}
	}
	sort.Ints(mine)
	for _, i := range mine[min(share, len(mine)):] { // more than our share: hand over
		holding[i].stop()
	}
	for i := 0; i < l.Count && len(holding) < share; i++ {
		if _, ok := holding[i]; ok || taken[i] {
			continue
		}
		rev, err := l.Bucket.Create(round, l.key(i), []byte(l.id))
		if err != nil {
			continue
		}
		run, stop := context.WithCancel(ctx)
		h := &held{revision: rev, renewed: time.Now(), cancel: stop, done: make(chan struct{})}
		holding[i] = h
		go func() {
			defer close(h.done)
			defer stop()
			l.Run(run, i)
		}()
	}
}

// survey returns which things are leased and how many processes of the role are alive (at least 1: us).
func (l *Leases) survey(ctx context.Context) (taken map[int]bool, alive int, err error) {
	lister, err := l.Bucket.ListKeysFiltered(ctx, l.Role+".>")
	if err != nil {
		return nil, 1, err
	}
	defer lister.Stop()
	taken = map[int]bool{}
	for key := range lister.Keys() {
		rest := strings.TrimPrefix(key, l.Role+".")
		if n, ok := strings.CutPrefix(rest, "lease."); ok {
			if i, err := strconv.Atoi(n); err == nil {
				taken[i] = true
			}
		} else if strings.HasPrefix(rest, "alive.") {
			alive++
		}
	}
	return taken, max(alive, 1), ctx.Err()
}

// Announce keeps a key of this role alive until ctx ends, so that Alive counts this process.
func Announce(ctx context.Context, bucket jetstream.KeyValue, role string, ttl time.Duration) {
	key := role + ".alive." + NewID()
	tick := time.NewTicker(ttl / 5)
	defer tick.Stop()
	for {
		put, cancel := context.WithTimeout(ctx, ttl/2)
		bucket.Put(put, key, nil)
		cancel()
		select {
		case <-ctx.Done():
			stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			bucket.Delete(stop, key)
			cancel()
			return
		case <-tick.C:
		}
	}
}

// Alive counts the live processes of a role that Announce themselves or hold Leases.
func Alive(ctx context.Context, bucket jetstream.KeyValue, role string) (int, error) {
	lister, err := bucket.ListKeysFiltered(ctx, role+".alive.*")
	if err != nil {
		return 0, err
	}
	defer lister.Stop()
	n := 0
	for range lister.Keys() {
		n++
	}
	return n, ctx.Err()
}

// Owned returns which numbered things of a role are leased now, by anybody.
func Owned(ctx context.Context, bucket jetstream.KeyValue, role string) (map[int]bool, error) {
	lister, err := bucket.ListKeysFiltered(ctx, role+".lease.*")
	if err != nil {
		return nil, err
	}
	defer lister.Stop()
	owned := map[int]bool{}
	for key := range lister.Keys() {
		if i, err := strconv.Atoi(key[strings.LastIndexByte(key, '.')+1:]); err == nil {
			owned[i] = true
		}
	}
	return owned, ctx.Err()
}
