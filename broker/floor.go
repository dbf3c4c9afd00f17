package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/stream"
)

// ingestFloor is the largest sequence of INGEST that is recorded anywhere. Workers skip what is not beyond their position, so a stream that
// is made anew has to begin above all positions.
func (s *Streams) ingestFloor(ctx context.Context) (uint64, error) {
	floor := s.remade.seen(stream.IngestStream)
	rows, err := s.JS.Stream(ctx, stream.RowsStream)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
	case err != nil:
		return 0, fmt.Errorf("read the workers' positions: %w", err)
	default:
		for p := range s.layout.Partitions {
			last, err := rows.GetLastMsgForSubject(ctx, stream.RowsSubject(p))
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				continue
			}
			if err != nil {
				return 0, fmt.Errorf("read the position of partition %d: %w", p, err)
			}
			if c, _, _, err := stream.ParseChunk(last.Data); err == nil {
				floor = max(floor, c.Position)
			}
		}
	}
	marks, err := s.markFloors(ctx)
	return max(floor, marks.ingest), err
}

// rowsFloor is the same for ROWS: the sink's lanes skip what is not beyond their marks.
func (s *Streams) rowsFloor(ctx context.Context) (uint64, error) {
	marks, err := s.markFloors(ctx)
	return max(s.remade.seen(stream.RowsStream), marks.rows), err
}

// point is a position in a mark: a sequence, or an object that has it.
type point uint64

func (p *point) UnmarshalJSON(b []byte) error {
	var at struct {
		Seq uint64 `json:"seq"`
	}
	if len(b) > 0 && b[0] == '{' {
		err := json.Unmarshal(b, &at)
		*p = point(at.Seq)
		return err
	}
	return json.Unmarshal(b, (*uint64)(p))
}

type floors struct{ ingest, rows uint64 }

// markFloors reads the positions in the sink's marks. The sink reports a mark that cannot be read.
func (s *Streams) markFloors(ctx context.Context) (f floors, err error) {
	kv, err := s.JS.KeyValue(ctx, stream.MarksBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return f, nil
	}
	if err != nil {
		return f, fmt.Errorf("read the marks: %w", err)
	}
	keys, err := s.ScanKeys(ctx, kv, ">")
	if err != nil {
		return f, fmt.Errorf("read the marks: %w", err)
	}
	for _, key := range keys {
		entry, err := kv.Get(ctx, key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			continue
		}
		if err != nil {
			return f, fmt.Errorf("read the mark %s: %w", key, err)
		}
		var m struct { // see mark in package sink, which writes it
			Mark    uint64 `json:"mark"`
			Pending *struct {
				Last uint64 `json:"last"`
			} `json:"pending"`
			Partitions map[string]struct {
				Position point `json:"position"`
			} `json:"partitions"`
		}
		if json.Unmarshal(entry.Value(), &m) != nil {
			continue
		}
		f.rows = max(f.rows, m.Mark)
		if m.Pending != nil {
			f.rows = max(f.rows, m.Pending.Last)
		}
		for _, p := range m.Partitions {
			f.ingest = max(f.ingest, uint64(p.Position))
		}
	}
	return f, ctx.Err()
}
