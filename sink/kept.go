package sink

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// # Bytes of rejects in NATS
//
// Of a refused line over 64 KiB the table has the beginning. Where the line came as an object, because it has over 1 MiB, the object stays
// for a week, and the row's payload_ref names it. It goes with the last row that refers to it: a drop deletes objects before rows, so that
// whoever finishes the drop still finds their names. Where rows expire before the week is over, FreeUnnamed deletes what they leave.

// Kept is an object in NATS to which rejects refer.
type Kept struct {
	Tenant, Ref string // payload_ref of the rejects
	Bytes       uint64
}

// KeptObjects returns the objects that rejects may refer to, by their payload_ref.
func KeptObjects(ctx context.Context, s *broker.Streams) (map[string]*jetstream.ObjectInfo, error) {
	list, err := s.Parts.List(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil, fmt.Errorf("list lines over 1 MiB: %w", err)
	}
	all := make(map[string]*jetstream.ObjectInfo, len(list))
	for _, o := range list {
		all[stream.ObjectRef+o.Name] = o
	}
	return all, nil
}

// FreeUnnamed returns the objects to which rejects in ClickHouse refer, and deletes those that were kept for rejects which are not there
// any more.
func (d Dropper) FreeUnnamed(ctx context.Context) (named []Kept, err error) {
	objects, err := KeptObjects(ctx, d.Streams)
	if err != nil || len(objects) == 0 {
		return nil, err
	}
	in, err := Inserted(ctx, d.Streams) // before the rows are read: these have what is inserted by now
	if err != nil {
		return nil, err
	}
	var one Kept
	held := map[string]bool{}
	err = each(longSQL(ctx), d.Conn, fmt.Sprintf("SELECT DISTINCT toString(tenant), payload_ref FROM %s WHERE %s", table.Rejects.Name, refers),
		[]any{&one.Tenant, &one.Ref}, func() {
			if o := objects[one.Ref]; o != nil {
				held[one.Ref] = true
				named = append(named, Kept{one.Tenant, one.Ref, o.Size})
			}
		})
	if err != nil {
		return nil, fmt.Errorf("read which lines over 1 MiB rejects refer to: %w", err)
	}
	for ref, o := range objects {
		p, noPartition := strconv.Atoi(o.Metadata[stream.KeptPartition])
		chunk, noChunk := strconv.ParseUint(o.Metadata[stream.KeptChunk], 10, 64)
		if held[ref] || o.Description != stream.KeptForReject || noPartition != nil || noChunk != nil || in[p].Chunk < chunk {
			continue // the reject may be on its way
		}
		if err := d.free(ctx, o.Name); err != nil {
			return nil, err
		}
	}
	return named, nil
}

// freeObjects deletes the objects to which only rows refer that a drop takes.
func (d Dropper) freeObjects(ctx context.Context, n *note) error {
	objects, err := KeptObjects(ctx, d.Streams)
	if err != nil || len(objects) == 0 {
		return err
	}
	var ref string
	var gone []string
	err = each(longSQL(ctx), d.Conn, fmt.Sprintf("SELECT payload_ref FROM %s WHERE %s GROUP BY payload_ref HAVING countIf(NOT (%s)) = 0",
		table.Rejects.Name, refers, n.Where), []any{&ref}, func() {
		if objects[ref] != nil {
			gone = append(gone, objects[ref].Name)
		}
	})
	if err != nil {
		return fmt.Errorf("read which lines over 1 MiB are to be dropped: %w", err)
	}
	for _, name := range gone {
		if err := d.free(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// refers selects the rejects that refer to an object.
const refers = "startsWith(payload_ref, '" + stream.ObjectRef + "')"

func (d Dropper) free(ctx context.Context, name string) error {
	err := broker.DeleteObject(ctx, d.Streams.JS, d.Streams.Parts, name)
	if err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
		return fmt.Errorf("delete the line over 1 MiB %s: %w", name, err)
	}
	return nil
}
