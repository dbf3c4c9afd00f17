package ingest

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

// A full record of uploads does not make the gateway refuse uploads. The oldest block of the tenant that takes most room is forgotten,
// until a tenth is free; how far back uploads are still recognised is a metric. An upload that is forgotten is taken again when it is sent
// again; then the worker drops what it has folded.

const (
	fullAbove = 0.92 // of max_bytes: forget
	freeBelow = 0.87 // until so much is left
)

// makeRoom forgets as much as is needed, nothing while there is room.
func (u *uploads) makeRoom(ctx context.Context) {
	u.forgetting.Lock()
	defer u.forgetting.Unlock()
	s, err := u.js.Stream(ctx, "KV_"+stream.WindowsBucket)
	if err != nil {
		return
	}
	info := s.CachedInfo()
	limit, have := float64(info.Config.MaxBytes), float64(info.State.Bytes)
	if limit <= 0 || have < fullAbove*limit {
		return
	}
	for have > freeBelow*limit {
		tenant, b := u.heaviest()
		if b == nil {
			u.forgetMessages(ctx, s, have, limit)
			return
		}
		if err := u.forget(ctx, s, tenant, b); err != nil {
			if ok, _ := u.quiet.say("forget_uploads", time.Now()); ok {
				u.log.Warn("cannot make room in the record of accepted uploads, trying again", "tenant", tenant, "err", err)
			}
			return
		}
		have -= float64(b.bytes)
	}
}

// heaviest returns the oldest block of the tenant that takes most room, nil when there is no block at all.
func (u *uploads) heaviest() (name string, b *block) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	most := int64(-1)
	for tenant, t := range u.tenants {
		if len(t.blocks) == 0 {
			continue
		}
		if n := t.bytes(); n > most {
			name, b, most = tenant, t.blocks[0], n
		}
	}
	return name, b
}

// forget removes a block: the index last, so that a gateway that failed half-way finds it again.
func (u *uploads) forget(ctx context.Context, s jetstream.Stream, tenant string, b *block) error {
	if err := s.Purge(ctx, jetstream.WithPurgeSubject("$KV."+stream.WindowsBucket+"."+tenant+".p."+b.name+".*")); err != nil {
		return err
	}
	if err := s.Purge(ctx, jetstream.WithPurgeSubject("$KV."+stream.WindowsBucket+"."+indexKey(tenant, b.name))); err != nil {
		return err
	}
	u.mu.Lock()
	t := u.of(tenant)
	t.remove(b.name)
	t.until = max(t.until, b.until)
	until := t.until
	u.mu.Unlock()
	u.metrics.forgotten.WithLabelValues(tenant).Add(float64(b.count))
	// for other gateways and the next start; there may be no room
	u.kv.Put(ctx, tenant+".h.forgotten", []byte(strconv.FormatInt(until, 10)))
	if ok, held := u.quiet.say("forgot "+tenant, time.Now()); ok {
		u.log.Warn("the record of accepted uploads is full: the oldest uploads of the tenant that has most are forgotten; if they are "+
			"sent again they are taken as new, and only what a worker still remembers is dropped: raise --bucket-max",
			"tenant", tenant, "uploads", b.count, "until", time.Unix(b.until, 0).UTC(), "blocks_before", held)
	}
	return nil
}

// forgetMessages makes room where no block can go: a bucket that an older build filled, or claims that nobody sealed. The oldest messages
// go, whichever tenant's they are.
func (u *uploads) forgetMessages(ctx context.Context, s jetstream.Stream, have, limit float64) {
	for range 8 {
		st := s.CachedInfo().State
		if st.Msgs == 0 || float64(st.Bytes) < freeBelow*limit {
			return
		}
		span := float64(st.LastSeq - st.FirstSeq + 1)
		to := st.FirstSeq + uint64(math.Ceil(span*0.05))
		if err := s.Purge(ctx, jetstream.WithPurgeSequence(to)); err != nil {
			return
		}
		before := st.Msgs
		info, err := s.Info(ctx)
		if err != nil {
			return
		}
		u.metrics.forgotten.WithLabelValues("").Add(float64(before - min(before, info.State.Msgs)))
		if ok, _ := u.quiet.say("forget_messages", time.Now()); ok {
			u.log.Warn("the record of accepted uploads was full of single entries: the oldest are forgotten",
				"entries", before-min(before, info.State.Msgs))
		}
	}
}

// watchRoom makes room in time, so that no upload has to wait for it.
func (u *uploads) watchRoom(ctx context.Context, bytes, limit float64) {
	if limit > 0 && bytes > fullAbove*limit {
		u.makeRoom(ctx)
	}
}

// horizon sets the metric of how far back uploads are recognised, for the tenant for which that is shortest.
func (u *uploads) horizon(now time.Time) {
	horizon := broker.WindowHorizon.Seconds()
	u.mu.RLock()
	for _, t := range u.tenants {
		if t.until > 0 {
			horizon = min(horizon, now.Sub(time.Unix(t.until, 0)).Seconds())
		}
	}
	u.mu.RUnlock()
	u.metrics.horizon.Set(max(horizon, 0))
}

// adoptAll seals what other gateways left behind, at the start and every hour: claims that were settled by one that has ended since, and
// records of older builds.
func (u *uploads) adoptAll(ctx context.Context) {
	select {
	case <-u.loaded:
	case <-ctx.Done():
		return
	}
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		}
		wait.Reset(time.Hour)
		if err := u.adopt(ctx, time.Now()); err != nil && ctx.Err() == nil {
			u.log.Debug("look for uploads that nobody sealed", "err", err)
			wait.Reset(time.Minute)
		}
	}
}

// adoptAfter is how old a claim must be for its gateway to be gone: otherwise that would have sealed it.
func (s sealing) adoptAfter() time.Duration { return s.latest + time.Hour }

// adopt makes one round: single claims that are old enough become blocks. The records of channels stay as they are until they expire;
// claims look at them as long as there are any.
func (u *uploads) adopt(ctx context.Context, now time.Time) error {
	channels, err := u.streams.ScanKeys(ctx, u.kv, "*.*.w.*")
	if err != nil {
		return err
	}
	u.older.Store(len(channels) > 0)
	sealAll := func(tenants map[string]bool) {
		for name := range tenants {
			if gone := u.seal(ctx, name); len(gone) > 0 {
				u.drop(ctx, gone)
			}
		}
	}
	touched := map[string]bool{}
	defer func() { sealAll(touched) }()
	return eachClaim(ctx, u.streams, func(e broker.Entry) error {
		tenant, _, _ := strings.Cut(e.Key, ".")
		if now.Sub(e.Created) < u.sealAt.adoptAfter() {
			return nil
		}
		rec, err := parseRecord(e.Value)
		if err != nil || len(rec.windows) != 1 || rec.windows[0].state != windowDone {
			return nil // half-way, or waiting for other bytes, or not ours to judge: as it is
		}
		w := &rec.windows[0]
		if w.at == 0 {
			w.at = e.Created.Unix() + 1
		}
		u.remember(tenant, e.Key, e.Revision, w)
		touched[tenant] = true
		sealAll(u.ripe(time.Time{})) // what is held is bounded
		return nil
	})
}

// eachClaim calls f with the record of every single upload, see claimKeys.
func eachClaim(ctx context.Context, s *broker.Streams, f func(broker.Entry) error) error {
	for _, filter := range claimKeys {
		if err := s.Scan(ctx, s.Windows, filter, f); err != nil {
			return err
		}
	}
	return nil
}
