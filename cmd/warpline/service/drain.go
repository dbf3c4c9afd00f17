package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink"
)

// drainSink waits until the sink has inserted every chunk that is stored in its lanes. It gives up early when ClickHouse does not
// answer: the chunks stay and are inserted at the next start.
func (s *Stack) drainSink(ctx context.Context) error { return drainSink(ctx, s.Streams, s.sink) }

func drainSink(ctx context.Context, streams *broker.Streams, k *sink.Sink) error {
	want, err := lastChunks(ctx, streams)
	if err != nil {
		return fmt.Errorf("what waits for ClickHouse is not known and stays for the next start: %w", err)
	}
	for {
		st := k.Status()
		left := 0
		for _, l := range st.Lanes {
			if l.Mark < want[l.Lane] {
				left++
			}
		}
		switch {
		case left == 0 && len(st.Lanes) > 0, len(want) == 0:
			return nil
		case !st.Unreachable.IsZero() && time.Since(st.Unreachable) > time.Second, !st.Blocked.IsZero():
			return fmt.Errorf("rows wait in NATS for the next start: %s", st)
		}
		select {
		case <-ctx.Done():
			return errors.New("not everything reached ClickHouse in time; the rest waits in NATS for the next start")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// lastChunks returns the last sequence of ROWS for each lane that has any.
func lastChunks(ctx context.Context, s *broker.Streams) (map[int]uint64, error) {
	last := map[int]uint64{}
	for p := range s.Partitions {
		m, err := s.Rows.GetLastMsgForSubject(ctx, stream.RowsSubject(p))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		lane := stream.Lane(p, s.Lanes)
		last[lane] = max(last[lane], m.Sequence)
	}
	return last, nil
}
