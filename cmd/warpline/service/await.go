package service

import (
	"context"
	"log/slog"
	"time"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/sink"
)

// waiting is how long a start waits for what it needs: broken where something is wrong, which may last, slow where it only takes its time,
// as on a machine that has much else to do.
type waiting struct{ broken, slow time.Duration }

var aWhile = waiting{broken: 10 * time.Second, slow: 3 * time.Minute}

// await waits until there is nothing to wait for. wait returns what is waited for, "" for nothing, and what is wrong, "" while it only
// takes time. It returns what a start goes on without. failed may be nil.
func (w waiting) await(ctx context.Context, failed <-chan error, wait func() (what, wrong string)) (without string, err error) {
	began := time.Now()
	for {
		what, wrong := wait()
		most := w.slow
		if wrong != "" {
			what, most = wrong, w.broken
		}
		if what == "" || time.Since(began) > most {
			return what, nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case err := <-failed:
			return "", err
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// awaitSchema waits until the sink has made its tables, so that whoever sees "ready" can query them. A ClickHouse that is away does not
// keep the rest from starting.
func awaitSchema(ctx context.Context, k *sink.Sink, failed <-chan error, log *slog.Logger, w waiting) error {
	why, err := w.await(ctx, failed, func() (string, string) {
		st := k.Status()
		if len(st.Lanes) > 0 {
			return "", ""
		}
		return "they are being made", st.String()
	})
	if why != "" {
		log.Warn("the tables are not there yet; starting without them, rows wait in NATS", "why", why)
	}
	return err
}

// awaitGateway waits until uploads are taken: what the gateway needs is loaded, and JetStream answers. A gateway that cannot take uploads
// for a lasting reason, such as a full disk, still has to be there to say so. failed may be nil.
func awaitGateway(ctx context.Context, g *ingest.Gateway, failed <-chan error, log *slog.Logger, w waiting) error {
	why, err := w.await(ctx, failed, func() (string, string) {
		trouble := gatewayTrouble(ctx, g)
		if trouble != "" && trouble == g.Loading() {
			return trouble, ""
		}
		return "", trouble
	})
	if why != "" {
		log.Warn("the gateway takes nothing yet; starting without waiting for it", "why", why)
	}
	return err
}
