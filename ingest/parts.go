package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/stream"
)

// parts is the store of giant lines, shared by tenants. A tenant's lines that wait for a worker may take at most as much as they leave
// free: however many tenants fill the store, there is room for the next. When room is needed, the bytes of refused lines, which otherwise
// stay for a week, go first, the oldest of the tenant that has most; their rows in the table rejects keep the first 64 KiB. It is safe for
// concurrent use.
type parts struct {
	js      jetstream.JetStream
	objects jetstream.ObjectStore
	metrics *metrics
	log     *slog.Logger

	mu sync.Mutex // one look at a time

	room   atomic.Int64 // what lines that wait may take, of all tenants together; 0: not known yet
	seen   sync.Mutex   // guards what follows
	lines  map[string]int64
	seenAt time.Time
}

// sharesEvery is how often the store of giant lines is looked at for the metrics.
const sharesEvery = 30 * time.Second

// look takes note of what each tenant's lines that wait for a worker take.
func (p *parts) look(ctx context.Context) {
	p.seen.Lock()
	fresh := time.Since(p.seenAt) < sharesEvery
	p.seen.Unlock()
	if fresh {
		return
	}
	s, err := p.js.Stream(ctx, "OBJ_"+stream.PartsObjects)
	if err != nil {
		return
	}
	lines := map[string]int64{}
	if s.CachedInfo().State.Msgs > 0 {
		list, err := p.objects.List(ctx)
		if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
			return
		}
		for _, o := range list {
			if o.Description != stream.KeptForReject {
				owner, _, _ := strings.Cut(o.Name, ".")
				lines[owner] += int64(o.Size)
			}
		}
	}
	p.room.Store(max(s.CachedInfo().Config.MaxBytes, 0) * 15 / 16)
	p.seen.Lock()
	defer p.seen.Unlock()
	p.lines, p.seenAt = lines, time.Now()
}

// shares is how many bytes of lines that wait for a worker each tenant had at the last look, and all together.
func (p *parts) shares() (by map[string]int64, all int64) {
	p.seen.Lock()
	defer p.seen.Unlock()
	for _, n := range p.lines {
		all += n
	}
	return p.lines, all // which is not changed
}

// errPartsFull says that a tenant's lines fill its share of the store.
var errPartsFull = errors.New("this tenant's lines over 1 MiB that wait for a worker fill its share of the store")

// share is what one tenant has in the store.
type share struct {
	waiting int64 // bytes of lines that no worker has folded
	kept    []*jetstream.ObjectInfo
	bytes   int64 // of both
}

// makeRoom makes sure that a line of up to need bytes fits. It looks at most objects there are, which are over 1 MiB each.
func (p *parts) makeRoom(ctx context.Context, tenant string, need int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, err := p.js.Stream(ctx, "OBJ_"+stream.PartsObjects)
	if err != nil {
		return fmt.Errorf("store of giant lines: %w", err)
	}
	info := s.CachedInfo()
	limit, used := info.Config.MaxBytes, int64(info.State.Bytes)
	if limit <= 0 || used < limit/4 {
		return nil
	}
	list, freed, err := p.dropAbandoned(ctx, s, time.Now())
	if err != nil {
		return fmt.Errorf("store of giant lines: %w", err)
	}
	used -= freed
	shares := map[string]*share{}
	of := func(name string) *share {
		if shares[name] == nil {
			shares[name] = &share{}
		}
		return shares[name]
	}
	slices.SortFunc(list, func(a, b *jetstream.ObjectInfo) int { return a.ModTime.Compare(b.ModTime) })
	for _, o := range list {
		owner, _, _ := strings.Cut(o.Name, ".")
		own := of(owner)
		own.bytes += int64(o.Size)
		if o.Description == stream.KeptForReject {
			own.kept = append(own.kept, o)
		} else {
			own.waiting += int64(o.Size)
		}
	}
	need = min(need, limit/4)
	for of(tenant).waiting+need > limit-used-limit/16 {
		heaviest, most := "", (*share)(nil)
		for name, own := range shares {
			if len(own.kept) > 0 && (most == nil || own.bytes > most.bytes) {
				heaviest, most = name, own
			}
		}
		if most == nil {
			if of(tenant).waiting == 0 {
				return nil // try: what fills the store is not this tenant's
			}
			return errPartsFull
		}
		gone := most.kept[0]
		most.kept = most.kept[1:]
		if err := p.objects.Delete(ctx, gone.Name); err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
			return fmt.Errorf("store of giant lines: %w", err)
		}
		most.bytes -= int64(gone.Size)
		used -= int64(gone.Size)
		p.metrics.droppedRejects.WithLabelValues(heaviest).Add(float64(gone.Size))
		p.log.Debug("the store of lines over 1 MiB is filling: a refused line's bytes were dropped except for their beginning",
			"tenant", heaviest, "object", gone.Name, "bytes", gone.Size)
	}
	return nil
}

// abandonAfter is after how long bytes without an object are nobody's: who writes an object adds to it every few milliseconds, and names
// it as soon as all of it is there.
const abandonAfter = 10 * time.Minute

// dropAbandoned removes the bytes of objects that were never named, because their gateway died, and of those that another gateway has named
// too, with the same bytes. They would stay for as long as the store keeps anything. It returns the objects that there are, and about how
// many bytes are free now.
func (p *parts) dropAbandoned(ctx context.Context, s jetstream.Stream, now time.Time) (list []*jetstream.ObjectInfo, freed int64,
	err error) {
	const chunks = "$O." + stream.PartsObjects + ".C."
	before, err := s.Info(ctx, jetstream.WithSubjectFilter(chunks+">")) // before the names: what is named then has its bytes among them
	if err != nil {
		return nil, 0, err
	}
	list, err = p.objects.List(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil, 0, err
	}
	for _, o := range list {
		delete(before.State.Subjects, chunks+o.NUID)
	}
	for subject := range before.State.Subjects {
		last, err := s.GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && now.Sub(last.Time) < abandonAfter {
			continue
		}
		if err == nil {
			err = s.Purge(ctx, jetstream.WithPurgeSubject(subject))
		}
		if err != nil {
			return nil, 0, err
		}
		freed += int64(before.State.Subjects[subject]) * int64(len(last.Data)) // the last is the smallest
	}
	if freed > 0 {
		p.log.Info("bytes of uploads over 1 MiB whose gateway died were removed", "bytes", freed)
	}
	return list, freed, nil
}
