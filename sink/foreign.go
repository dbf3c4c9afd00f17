package sink

import (
	"context"
	"fmt"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

// setAside removes a message that no worker published from ROWS. The lane goes on after it: nothing of it was or will be inserted, and the
// marks never count it. The worker may do the same at the same time.
func (l *lane) setAside(ctx context.Context, seq uint64, subject string, data []byte, why error) error {
	ctx, cancel := context.WithTimeout(ctx, 4*natsTimeout)
	defer cancel()
	if err := l.k.s.SetAside(ctx, l.k.s.Rows, stream.PartitionOfRows(subject), seq, subject, data, why); err != nil {
		return err
	}
	l.k.met.aside.Inc()
	l.log.Error("a message in ROWS that no worker published is set aside; `warpline audit` names it",
		"seq", seq, "subject", subject, "bytes", len(data), "why", why)
	return nil
}

// lacks records that ROWS no longer had chunks of a partition when their turn came.
func (l *lane) lacks(partition int, first, last, n uint64) {
	l.k.met.missing.Add(float64(n))
	l.k.find(broker.FindingMissing, stream.RowsStream, partition, n, broker.Place{First: first, Last: last,
		Detail: fmt.Sprintf("chunks %d to %d were not in ROWS; what they held is in no table: send again what clients still have from that "+
			"time", first, last)})
}

// find records a finding. One that cannot be recorded is still in the log and the metrics.
func (k *Sink) find(kind, of string, partition int, n uint64, at broker.Place) {
	ctx, cancel := context.WithTimeout(context.Background(), natsTimeout)
	defer cancel()
	if _, err := broker.Find(ctx, k.s.Marks, kind, of, partition, n, at); err != nil {
		k.log.Warn("a finding cannot be recorded for the audit", "kind", kind, "stream", of, "partition",
			partition, "what", at.Detail, "err", err)
	}
}
