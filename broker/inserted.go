package broker

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/stream"
)

// marksSilent is how long no mark may come before they are watched anew: their bucket may be another.
const marksSilent = time.Minute

// FollowInserted calls reach with what the sinks' marks say is in ClickHouse of each partition, from what they say now on, until ctx
// ends. It calls from one goroutine, the caller's. A bucket that cannot be watched is tried again each second.
func FollowInserted(ctx context.Context, marks jetstream.KeyValue, log *slog.Logger, reach func(partition int, at stream.Inserted)) {
	for ctx.Err() == nil {
		if err := followInserted(ctx, marks, reach); err != nil && ctx.Err() == nil {
			log.Debug("the sinks' marks cannot be watched", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func followInserted(ctx context.Context, marks jetstream.KeyValue, reach func(int, stream.Inserted)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := marks.Watch(ctx, "lane.*", jetstream.IgnoreDeletes())
	if err != nil {
		return err
	}
	defer w.Stop()
	silent := time.NewTimer(marksSilent)
	defer silent.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-silent.C:
			return nil
		case e, ok := <-w.Updates():
			if !ok {
				return nil
			}
			if e == nil {
				continue
			}
			silent.Reset(marksSilent)
			var mark struct {
				Partitions map[int]stream.Inserted `json:"partitions"`
			}
			if json.Unmarshal(e.Value(), &mark) != nil {
				continue
			}
			for partition, at := range mark.Partitions {
				reach(partition, at)
			}
		}
	}
}
