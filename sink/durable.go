package sink

import (
	"context"
	"fmt"
	"time"
)

// durable waits until chunks and marks are on disk. ClickHouse syncs what it is given, so without this a power cut could leave it ahead of
// them: rows whose chunk is gone would come again in another, or rows be deleted that nothing remembers. It tries for as long as the lane is
// wanted: a disk that takes nothing may be full for a while.
func (l *lane) durable(ctx context.Context) error {
	pause := newPause(5 * time.Second)
	for {
		began := time.Now()
		err := l.k.s.Durable(ctx)
		if err == nil {
			l.k.met.barrierSeconds.Observe(time.Since(began).Seconds())
			return nil
		}
		l.retry("sync NATS's files", fmt.Errorf("%w: %w", errSync, err))
		if l.stopping() || !sleep(l.ctx, pause.next()) {
			return err
		}
	}
}
