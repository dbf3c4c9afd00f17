package parca

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/parca"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

func init() { rows.Strict = true }

// noon is when the tests begin, on a day in 2026.
const noon = int64(1795176000e9)

const day = int64(86400e9)

// newTestFold returns a partition without an owner, and this source in it.
func newTestFold() (f *aggregate.Fold, m *folding) {
	source := Source()
	open := source.Open
	source.Open = func(f *aggregate.Fold) aggregate.Folding {
		m = open(f).(*folding)
		return m
	}
	return aggregate.NewFold(aggregate.Config{Sources: []aggregate.Source{source}}), m
}

// sent is a part on its way to the owner.
type sent struct {
	env  stream.Envelope
	body []byte
}

// owner is a partition's owner without NATS, whose clock the test moves.
type owner struct {
	t      testing.TB
	f      *aggregate.Fold
	m      *folding
	now    int64
	seq    uint64
	states [][]byte
	rows   map[string][]map[string]any // of published chunks, by table
	counts aggregate.Counts
}

func newOwner(t testing.TB) *owner {
	o := &owner{t: t, now: noon, rows: map[string][]map[string]any{}}
	o.f, o.m = newTestFold()
	return o
}

// message is a part of a session as a gateway publishes it.
func message(session, identity string, number int, receivedAt int64, in *parca.Part) sent {
	n := uint64(len(in.PC) + len(in.Kernels))
	for _, r := range in.Refused {
		n += r.Rows
	}
	return sent{stream.Envelope{Tenant: "t", Session: session, Recurs: true, Kind: stream.KindParca, Source: parca.SourceName,
		Identity: identity, Part: number, Events: n, Bytes: 100, ReceivedAt: receivedAt, RetentionDays: 7, RollupDays: 395}, encoded(in)}
}

// take folds a part and looks whether the books balance.
func (o *owner) take(in sent) {
	o.seq++
	p := &aggregate.Part{Seq: o.seq, Now: o.now, Env: in.env}
	o.f.Take(p, o.f.Session(p), in.body)
	if c := p.Counted(); c.Events != in.env.Events || c.Events != c.Stored+c.Rejected()+c.Duplicates {
		o.t.Fatalf("%d events came, the books have %+v", in.env.Events, c)
	}
}

// say folds a part that was received now.
func (o *owner) say(session string, in *parca.Part) {
	o.take(message(session, fmt.Sprint("batch", o.seq+1), 0, o.now, in))
}

// publish closes the chunk; its rows count from here on.
func (o *owner) publish() {
	o.f.Flush(o.now)
	list, body, err := o.f.Out.Encode(rows.Tails{})
	if err != nil {
		o.t.Fatal(err)
	}
	for _, r := range list {
		n := r.SchemaLen + r.DataLen
		o.read(r.Table, body[:n:n])
		body = body[n:]
	}
	o.states = append(o.states, o.f.AppendState(nil, false))
	o.f.Published()
	o.f.Out.Reset()
	o.f.OutSerial++
}

func (o *owner) read(name string, piece []byte) {
	reader, err := ipc.NewReader(bytes.NewReader(append(piece, table.EOS()...)))
	if err != nil {
		o.t.Fatal(err)
	}
	defer reader.Release()
	for reader.Next() {
		rec := reader.Record()
		for row := range int(rec.NumRows()) {
			values := map[string]any{}
			for i, column := range rec.Columns() {
				values[rec.ColumnName(i)] = cell(column, row)
			}
			o.rows[name] = append(o.rows[name], values)
		}
	}
}

func cell(column any, row int) any {
	switch c := column.(type) {
	case *array.Dictionary:
		return c.Dictionary().ValueStr(c.GetValueIndex(row))
	case *array.Uint64:
		return c.Value(row)
	case *array.Uint32:
		return uint64(c.Value(row))
	case *array.Int32:
		return int64(c.Value(row))
	case *array.Timestamp:
		return int64(c.Value(row))
	case *array.String:
		return c.Value(row)
	case *array.Binary:
		return string(c.Value(row))
	case *array.Date32:
		return int64(c.Value(row))
	case interface{ ValueStr(int) string }:
		return c.ValueStr(row)
	}
	panic(fmt.Sprintf("a column of %T", column))
}

// die loses what was not published; a successor goes on from what was, by snapshot or by changes.
func (o *owner) die(snapshot bool) {
	states := o.states
	if snapshot {
		states = [][]byte{o.f.AppendState(nil, true)}
	}
	o.f, o.m = newTestFold()
	for _, s := range states {
		if err := o.f.ApplyState(s); err != nil {
			o.t.Fatal(err)
		}
	}
	o.f.Resume(o.now, o.now, false)
}

// settle lets what waits go out.
func (o *owner) settle() {
	for range 70 {
		o.now += 1e9
		o.f.Expire(o.now)
		o.publish()
	}
}

// sum adds a column up.
func (o *owner) sum(name, column string) (n uint64) {
	for _, row := range o.rows[name] {
		n += row[column].(uint64)
	}
	return n
}

// session is what the source keeps of a session.
func (o *owner) session(id string) *session {
	o.t.Helper()
	s := o.f.Sessions[aggregate.SessionKey{Tenant: "t", ID: id}]
	if s == nil {
		o.t.Fatalf("session %s is not known", id)
	}
	return o.f.State(s, parca.SourceName).(*session)
}
