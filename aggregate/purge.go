package aggregate

import (
	"context"
	"time"

	"github.com/warpline/warpline/proto/stream"
)

// early says what goes before its time while INGEST is so full, 0 for nothing: from half full on the older half of what was folded, which
// may be said again a few seconds later, and from three quarters on all of it. What was folded after cut stays.
func early(usage float64, checkpoints []checkpoint, published uint64, now time.Time) (upTo uint64, cut time.Time) {
	switch n := len(checkpoints); {
	case usage <= 0.5:
		return 0, now
	case usage <= 0.75 && n > 1:
		return checkpoints[n/2-1].position, checkpoints[n/2-1].at
	}
	return published, now
}

// purge deletes parts that were folded longer ago than ReplayHorizon, and others when space runs short.
func (o *owner) purge(now time.Time) {
	upTo := uint64(0)
	for len(o.checkpoints) > 0 && now.Sub(o.checkpoints[0].at) > o.w.cfg.ReplayHorizon {
		upTo = o.checkpoints[0].position
		o.checkpoints = o.checkpoints[1:]
	}
	soon, cut := early(o.w.ingestUsage(), o.checkpoints, o.lastPublished, now)
	short := soon > upTo
	if short {
		upTo = soon
	}
	if upTo <= o.lastPurged {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	// In a stream that lost its end these sequences may be parts that were not folded.
	why, err := o.w.check(ctx, o.partition, stream.Point{Seq: o.lastPublished, At: o.lastPublishedAt})
	if why != "" || err != nil {
		o.w.suspicions.Add(1)
		return
	}
	if err := o.w.purgeIngest(ctx, o.partition, upTo); err != nil {
		o.log.Debug("purge ingest", "err", err)
		return
	}
	o.lastPurged = upTo
	if !short {
		return
	}
	for len(o.checkpoints) > 0 && o.checkpoints[0].position <= upTo {
		o.checkpoints = o.checkpoints[1:]
	}
	if err := o.w.windows.Cut(ctx, o.partition, cut); err != nil {
		o.log.Debug("purge ingest", "err", err)
	}
}
