package sink

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// span is a run of a lane's messages that are inserted together. It grows by add and is frozen by load.
type span struct {
	first, last uint64
	messages    []message
	rows        int
	compressed  int64
	raw         int64
	prints      map[string]string // fingerprint by table

	tables []*load // in the order in which they came; nil before load
}

// load is the rows of one table in a span: one insert for each of its blocks.
type load struct {
	table       *table.Table
	name        string
	fingerprint string
	schema      []byte
	blocks      []*block
	rows        uint64
	token       string // see tokenOf
	sql         string
	// verify returns the blocks that are not in ClickHouse.
	verify func(context.Context) ([]*block, error)
}

// block is the rows of a load that go to one ClickHouse partition: what one insert sends, and so one data part there.
type block struct {
	key       string // in the mark's attempts: table/day/retention
	partition table.DayPartition
	batches   []batch
	rows      uint64
	amount    uint64 // see stream.Rows; without meaning while uncounted
	uncounted bool
	newest    map[int]uint64 // largest chunk number by ROWS partition: the proof of arrival
	received  int32          // the earliest possible day of arrival of the oldest row
	attempt   int
	answered  bool // this process had an OK for this attempt
}

// batch is one record batch with its dictionaries. It stays packed until it is sent, so that a span needs as much memory as its messages, a
// fifth of its rows.
type batch struct {
	packed []byte
	rows   stream.Rows
	plain  []byte // instead of packed: the data as it is sent
}

// read returns the data to send. buf is scratch, which the result may alias; it is returned grown.
func (p *batch) read(buf []byte) (data, scratch []byte, err error) {
	if p.packed == nil {
		return p.plain, buf, nil
	}
	buf, err = p.rows.Unpack(buf, p.packed)
	if err != nil {
		return nil, nil, err
	}
	return buf[p.rows.SchemaLen:], buf, nil
}

func (s *span) full(cfg *Config) bool {
	return s.rows >= cfg.MaxRangeRows || s.compressed >= cfg.MaxRangeBytes || s.raw >= 3*cfg.MaxRangeBytes
}

// deletions returns those chunks of the span that carry deletions, in the order of the messages.
func (s *span) deletions() (out []*stream.Chunk) {
	for i := range s.messages {
		if c := &s.messages[i].chunk; len(c.Deletes) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// deletes is how many deletions the span holds.
func (s *span) deletes() (n int) {
	for _, c := range s.deletions() {
		n += len(c.Deletes)
	}
	return n
}

// closed reports whether the span holds deletions from a ROWS partition of what may come again: that must not be inserted before they are
// carried out. Of other sessions the worker drops what comes after the tombstone, and other partitions do not bring anything of what is
// deleted, so their chunks, and their deletions, may join the span. Each span with deletions takes seconds, in which its lane inserts
// nothing of anybody, so it is to have as many as there are.
func (s *span) closed(partition int) bool {
	for i := range s.messages {
		c := &s.messages[i].chunk
		if c.Partition == partition && slices.ContainsFunc(c.Deletes, func(d stream.Deletion) bool { return d.Bounded() }) {
			return true
		}
	}
	return false
}

// fits reports whether m may join the span: within the limits, and of the same schema in every table.
func (s *span) fits(m *message, cfg *Config) bool {
	if len(s.messages) == 0 {
		return true
	}
	if s.closed(m.chunk.Partition) || len(m.chunk.Deletes) > 0 && s.deletes() > mostDeletes {
		return false
	}
	rows, raw := weigh(&m.chunk)
	if s.rows+rows > cfg.MaxRangeRows || s.compressed+m.size > cfg.MaxRangeBytes || s.raw+raw > 3*cfg.MaxRangeBytes {
		return false
	}
	return s.samePrints(m)
}

func (s *span) samePrints(m *message) bool {
	for i := range m.chunk.Tables {
		r := &m.chunk.Tables[i]
		if p, ok := s.prints[r.Table]; ok && p != r.Fingerprint {
			return false
		}
	}
	return true
}

func weigh(c *stream.Chunk) (rows int, raw int64) {
	for i := range c.Tables {
		rows += c.Tables[i].Rows
		raw += int64(c.Tables[i].SchemaLen) + int64(c.Tables[i].DataLen)
	}
	return rows, raw
}

func (s *span) add(m message) {
	rows, raw := weigh(&m.chunk)
	s.rows += rows
	s.raw += raw
	s.compressed += m.size
	s.last = m.seq
	s.messages = append(s.messages, m)
	if s.prints == nil {
		s.prints = map[string]string{}
	}
	for i := range m.chunk.Tables {
		s.prints[m.chunk.Tables[i].Table] = m.chunk.Tables[i].Fingerprint
	}
}

// load sorts the batches of the span's messages by table and ClickHouse partition.
func (s *span) load(ctx context.Context, schema *table.Schema, objects jetstream.ObjectStore) error {
	s.unload()
	byName := map[string]*load{}
	for i := range s.messages {
		if err := s.loadMessage(ctx, &s.messages[i], schema, objects, byName); err != nil {
			s.unload()
			return fmt.Errorf("ROWS message %d: %w", s.messages[i].seq, err)
		}
	}
	// Facts first: a row must not be seen before the names and launches that explain it. Contents come after the links to them, see
	// orphans.go. The order is that of the messages otherwise, so a successor builds the same.
	slices.SortStableFunc(s.tables, func(a, b *load) int { return cmp.Compare(order(a.table), order(b.table)) })
	return nil
}

func order(t *table.Table) int {
	switch {
	case t.LinkedBy != "":
		return 1
	case t.Retention == table.Fact:
		return 0
	}
	return 2
}

func (s *span) loadMessage(ctx context.Context, m *message, schema *table.Schema, objects jetstream.ObjectStore,
	byName map[string]*load) error {
	c := &m.chunk
	if len(c.Tables) == 0 {
		return nil
	}
	_, raw := weigh(c)
	if raw < 0 || raw > stream.MaxChunkBody {
		return fmt.Errorf("body of %d bytes: %w", raw, stream.ErrChunk)
	}
	section := m.body
	if c.Object != "" {
		var err error
		section, err = fetch(ctx, objects, c.Object)
		if err != nil {
			return err
		}
	}
	batches, err := c.Split(section)
	if err != nil {
		return err
	}
	for i := range c.Tables {
		r := &c.Tables[i]
		n, err := s2.DecodedLen(batches[i])
		if err != nil || r.SchemaLen < 0 || r.DataLen < 0 || r.Rows < 0 || n != r.SchemaLen+r.DataLen {
			return fmt.Errorf("table %s: lengths do not fit the body: %w", r.Table, stream.ErrChunk)
		}
		if r.Rows == 0 {
			continue
		}
		l := byName[r.Table]
		if l == nil {
			t := schema.Table(r.Table)
			if t == nil || t.Retention == table.Static {
				return fmt.Errorf("this sink does not know table %q: was the chunk written by a newer worker? upgrade the sink", r.Table)
			}
			first, err := r.Unpack(nil, batches[i])
			if err != nil {
				return err
			}
			l = &load{table: t, name: r.Table, fingerprint: r.Fingerprint, schema: slices.Clone(first[:r.SchemaLen])}
			byName[r.Table] = l
			s.tables = append(s.tables, l)
		}
		l.add(c, r, batches[i])
	}
	return nil
}

func (l *load) add(c *stream.Chunk, r *stream.Rows, packed []byte) {
	at := table.DayPartition{Day: r.Day, RetentionDays: r.RetentionDays}
	if l.table.Retention != table.Raw {
		at.Day = table.MonthOf(r.Day)
	}
	var p *block
	for _, have := range l.blocks {
		if have.partition == at {
			p = have
		}
	}
	received := at.Day
	if c.OldestReceivedAt > 0 {
		received = max(received, table.DayOf(c.OldestReceivedAt))
	}
	if p == nil {
		p = &block{key: fmt.Sprintf("%s/%d/%d", l.name, at.Day, at.RetentionDays), partition: at, newest: map[int]uint64{}, received: received}
		l.blocks = append(l.blocks, p)
	}
	p.batches = append(p.batches, batch{packed: packed, rows: *r})
	p.rows += uint64(r.Rows)
	if r.Amount != nil {
		p.amount += *r.Amount
	} else {
		p.uncounted = true
	}
	l.rows += uint64(r.Rows)
	p.received = min(p.received, received)
	p.newest[c.Partition] = max(p.newest[c.Partition], c.Number)
}

// unload forgets what load made.
func (s *span) unload() { s.tables = nil }

// fetch reads a chunk body from the object store.
func fetch(ctx context.Context, objects jetstream.ObjectStore, name string) ([]byte, error) {
	get, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r, err := objects.Get(get, name)
	if err != nil {
		return nil, fmt.Errorf("chunk body %s: %w", name, err)
	}
	defer r.Close()
	info, err := r.Info()
	if err != nil {
		return nil, fmt.Errorf("chunk body %s: %w", name, err)
	}
	if info.Size > stream.MaxChunkBody {
		return nil, fmt.Errorf("chunk body %s of %d bytes is over %d", name, info.Size, stream.MaxChunkBody)
	}
	body := make([]byte, info.Size)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, fmt.Errorf("chunk body %s: %w", name, err)
	}
	return body, nil
}
