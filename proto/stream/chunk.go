package stream

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/s2"
)

// Chunk is one ROWS message: rows of every table that a partition's owner folded, the position it reached in INGEST and what
// changed in its state. Publishing it is the checkpoint; a chunk that was not published never happened.
type Chunk struct {
	Partition int    `json:"partition"`
	Number    uint64 `json:"chunk"` // counts this partition's chunks; the column "chunk" of every row
	// Base is the number of the partition's first chunk. It is a time in milliseconds, so that a NATS that was lost and made anew counts
	// above what ClickHouse still has: the sink's proof that rows arrived is that the largest number in ClickHouse is not smaller.
	Base uint64 `json:"base"`
	// Epoch and Nonce identify the owner that wrote it: an owner whose publish timed out reads the last message and compares.
	Epoch uint64 `json:"epoch"`
	Nonce string `json:"nonce"`
	// After is 1 + the ROWS sequence of the partition's chunk before this one, the condition under which it was published: of all messages
	// on the subject, the chunk is the first after that sequence, and a copy of it never is. It is 0 in chunks of workers that did not
	// write it.
	After uint64 `json:"after,omitempty"`
	// Position is the INGEST stream sequence of the last part that is folded into this chunk or an earlier one.
	Position uint64 `json:"position"`
	// PositionAt is when NATS stored that part, ns since the epoch; 0 in chunks of older versions, and while Position is 0. With Anchors,
	// some earlier positions from the newest to the oldest, an owner finds out whether INGEST still is the stream that was folded, and up
	// to where.
	PositionAt int64   `json:"position_at,omitempty"`
	Anchors    []Point `json:"anchors,omitempty"`
	// Lost is INGEST's last loss, for as long as Position is inside the lost range.
	Lost      *Loss `json:"lost,omitempty"`
	CreatedAt int64 `json:"created_at"` // ns since the epoch
	// Flushed says that no rollups are held back in the state: all that was folded is rows of this chunk and earlier ones.
	Flushed bool `json:"flushed,omitempty"`
	// Released says which rows no longer wait for their other halves.
	Released Released `json:"released,omitzero"`
	// OldestReceivedAt is the earliest gateway stamp among the rows (0: no rows); the sink measures "accepted → visible" with it.
	OldestReceivedAt int64 `json:"oldest_received_at,omitempty"`
	// Snapshot is the last full state that later chunks' State builds on.
	Snapshot Snapshot `json:"snapshot"`
	Tables   []Rows   `json:"tables,omitempty"`
	// Deletes is what tombstones up to Position delete, out of this chunk and all before it; later chunks of the partition do not bring
	// anything of it. The sink carries it out after it has inserted this chunk and before it goes on.
	Deletes []Deletion `json:"deletes,omitempty"`
	// Passed are the places of the parts up to Position that were folded in the last seconds: what a gateway says that it stored between
	// them, and is not among them, is lost. It is nil in chunks of older versions.
	Passed *Passed `json:"passed,omitempty"`
	// Suspects are parts beyond Position whose fold was begun by this owner or an earlier one, and how often.
	Suspects []Suspect `json:"suspects,omitempty"`
	// Left says that the owner ended in a known way: only a part among Suspects may have ended it.
	Left bool `json:"left,omitempty"`
	// Verdicts are what became of parts up to Position whose senders asked for it, the newest few.
	Verdicts []Verdict `json:"verdicts,omitempty"`
	// Writer is the version of the program that wrote it, for people.
	Writer string `json:"writer,omitempty"`
	// Object names the body in ChunksObjects when it is too large for the message.
	Object string `json:"object,omitempty"`
	// StateObject names the S2-compressed state change in ChunksObjects when even that is too large for the message.
	StateObject string `json:"state_object,omitempty"`

	StateLen int `json:"state_len"`
	BodyLen  int `json:"body_len"`
}

// Released says which rows that waited for their other halves had waited long enough, in the state after a chunk: those of parts that NATS
// stored up to Stored, because the owner's clock was At. Both are ns since the epoch. The zero value says that it is not known, as in
// chunks of older versions.
type Released struct {
	At     int64 `json:"at"`
	Stored int64 `json:"stored"`
}

// Passed are INGEST sequences of a partition's parts: all that were passed after From.
type Passed struct {
	From uint64 `json:"from"`
	// Seqs are the sequences, rising, each less the one before it (the first less From) as a uvarint.
	Seqs []byte `json:"seqs,omitempty"`
}

// Suspect is a part that may end its owner.
type Suspect struct {
	Seq   uint64 `json:"seq"` // of INGEST
	Tries int    `json:"tries"`
}

// Snapshot points to a full partition state in StateObjects. The zero value means "none yet: start empty".
type Snapshot struct {
	Object string `json:"object,omitempty"`
	Chunk  uint64 `json:"chunk"`    // state after this chunk number
	Seq    uint64 `json:"rows_seq"` // ROWS sequence of that chunk: messages before it are not needed to recover
}

// Rows is one record batch of one table, bound for one ClickHouse partition.
type Rows struct {
	Table         string `json:"table"`
	Fingerprint   string `json:"fp"`  // of the Arrow schema: a splice must not mix two schemas
	Day           int32  `json:"day"` // days since the epoch, see table.DayPartition
	RetentionDays uint16 `json:"retention_days"`
	Rows          int    `json:"rows"`
	SchemaLen     int    `json:"schema_len"` // the IPC schema message comes first, then
	DataLen       int    `json:"data_len"`   // dictionary batches and the record batch, no end-of-stream
	// Amount is what the rows of a table that merges them add up to, see table.Batch.Amount; nil: the table does not have one, or an older
	// worker did not write it.
	Amount *uint64 `json:"amount,omitempty"`
	// PackedLen is the length of both together in the body: each entry is one S2 block of its own, so that a sink can send one table at a
	// time and never holds more than one block unpacked.
	PackedLen int `json:"packed_len"`
}

// MaxChunkMessage is the largest ROWS message that a worker publishes; a larger body goes to ChunksObjects.
const MaxChunkMessage = 7 << 20

// MaxChunkBody bounds a decompressed chunk body when it is read back.
const MaxChunkBody = 1 << 30

var chunkMagic = [4]byte{'W', 'L', 'C', 1}

// maxChunkHeader bounds the JSON header: 40 tables × a few ClickHouse partitions × 200 B stays far below.
const maxChunkHeader = 1 << 20

// packed holds scratch space for compressing bodies, which are megabytes each.
var packed = sync.Pool{New: func() any { return new([]byte) }}

// ErrChunk is returned, wrapped, for bytes that are not a chunk of a version that this build reads.
var ErrChunk = errors.New("not a ROWS chunk of version 1 (was it written by a newer warpline?)")

// PackBody compresses a body, the concatenation, per entry of c.Tables, of schema and data, and sets the entries' PackedLen. It
// appends to dst.
func PackBody(dst []byte, c *Chunk, body []byte) ([]byte, error) {
	for i := range c.Tables {
		r := &c.Tables[i]
		n := r.SchemaLen + r.DataLen
		if r.SchemaLen < 0 || r.DataLen < 0 || n > len(body) {
			return nil, fmt.Errorf("encode chunk: table %s is longer than the body", r.Table)
		}
		at := len(dst)
		dst = slices.Grow(dst, s2.MaxEncodedLen(n))
		r.PackedLen = len(s2.Encode(dst[at:cap(dst)], body[:n]))
		dst, body = dst[:at+r.PackedLen], body[n:]
	}
	if len(body) > 0 {
		return nil, fmt.Errorf("encode chunk: %d bytes of the body belong to no table", len(body))
	}
	return dst, nil
}

// Unpack decompresses the rows of one entry, schema and data, from its PackedLen bytes into dst (grown when needed). The size is
// checked against the header before anything is allocated.
func (r *Rows) Unpack(dst, packed []byte) ([]byte, error) {
	n, err := s2.DecodedLen(packed)
	if err != nil || n != r.SchemaLen+r.DataLen || n > MaxChunkBody {
		return nil, fmt.Errorf("rows of %s: %d bytes where the header says %d + %d: %w", r.Table, n, r.SchemaLen, r.DataLen, ErrChunk)
	}
	out, err := s2.Decode(dst[:cap(dst)], packed)
	if err != nil {
		return nil, fmt.Errorf("rows of %s: %w: %w", r.Table, err, ErrChunk)
	}
	return out, nil
}

// Split splits a body, from a message or an object, into the packed rows of c.Tables, in order. They alias body.
func (c *Chunk) Split(body []byte) ([][]byte, error) {
	out := make([][]byte, len(c.Tables))
	if len(body) > 0 && len(c.Tables) > 0 && c.Tables[0].PackedLen == 0 {
		return out, c.splitWhole(out, body)
	}
	for i := range c.Tables {
		n := c.Tables[i].PackedLen
		if n < 0 || n > len(body) {
			return nil, fmt.Errorf("rows of %s do not fit the body: %w", c.Tables[i].Table, ErrChunk)
		}
		out[i], body = body[:n:n], body[n:]
	}
	if len(body) > 0 {
		return nil, fmt.Errorf("%d bytes after the last rows: %w", len(body), ErrChunk)
	}
	return out, nil
}

// splitWhole splits a body of the first chunks: one S2 block of all rows.
func (c *Chunk) splitWhole(out [][]byte, body []byte) error {
	plain, err := DecodeSection(nil, body)
	if err != nil {
		return fmt.Errorf("%w: %w", err, ErrChunk)
	}
	for i := range c.Tables {
		r := &c.Tables[i]
		n := r.SchemaLen + r.DataLen
		if r.SchemaLen < 0 || r.DataLen < 0 || r.PackedLen != 0 || n < 0 || n > len(plain) {
			return fmt.Errorf("rows of %s do not fit the body: %w", r.Table, ErrChunk)
		}
		out[i], plain = s2.Encode(nil, plain[:n]), plain[n:]
	}
	if len(plain) > 0 {
		return fmt.Errorf("%d bytes after the last rows: %w", len(plain), ErrChunk)
	}
	return nil
}

// AppendChunk appends header, S2-compressed state change and packed body. body is what PackBody takes; with c.Object set it is packed
// and stored by the caller and must be empty here. It sets c.StateLen and c.BodyLen.
func AppendChunk(dst []byte, c *Chunk, state, body []byte) ([]byte, error) {
	scratch := packed.Get().(*[]byte)
	defer packed.Put(scratch)
	var cs []byte
	if len(state) > 0 {
		cs = s2.Encode(nil, state)
	}
	cb := (*scratch)[:0]
	if c.Object == "" {
		var err error
		cb, err = PackBody(cb, c, body)
		if err != nil {
			return nil, err
		}
		*scratch = cb
	}
	c.StateLen, c.BodyLen = len(cs), len(cb)
	header, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode chunk: %w", err)
	}
	if len(header) > maxChunkHeader {
		return nil, fmt.Errorf("encode chunk: header of %d bytes is over %d", len(header), maxChunkHeader)
	}
	dst = slices.Grow(dst, 8+len(header)+len(cs)+len(cb))
	dst = append(dst, chunkMagic[:]...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(header)))
	dst = append(dst, header...)
	dst = append(dst, cs...)
	return append(dst, cb...), nil
}

// ParseChunk reads a ROWS message. state is still compressed, body packed (see Split); both alias msg.
func ParseChunk(msg []byte) (c Chunk, state, body []byte, err error) {
	if len(msg) < 8 || [4]byte(msg[:4]) != chunkMagic {
		return c, nil, nil, ErrChunk
	}
	n := int(binary.LittleEndian.Uint32(msg[4:8]))
	if n > maxChunkHeader || n > len(msg)-8 {
		return c, nil, nil, fmt.Errorf("header of %d bytes in a message of %d: %w", n, len(msg), ErrChunk)
	}
	if err := json.Unmarshal(msg[8:8+n], &c); err != nil {
		return c, nil, nil, fmt.Errorf("header: %w: %w", err, ErrChunk)
	}
	rest := msg[8+n:]
	if c.StateLen < 0 || c.BodyLen < 0 || c.StateLen > len(rest) || c.BodyLen != len(rest)-c.StateLen {
		return c, nil, nil, fmt.Errorf("state %d + body %d bytes, have %d: %w", c.StateLen, c.BodyLen, len(rest), ErrChunk)
	}
	return c, rest[:c.StateLen], rest[c.StateLen:], nil
}

// DecodeSection decompresses a chunk's state into dst (grown when needed). Its size is bounded by MaxChunkBody.
func DecodeSection(dst, section []byte) ([]byte, error) {
	if len(section) == 0 {
		return dst[:0], nil
	}
	n, err := s2.DecodedLen(section)
	if err != nil {
		return nil, fmt.Errorf("chunk section: %w", err)
	}
	if n > MaxChunkBody {
		return nil, fmt.Errorf("chunk section of %d bytes is over %d", n, MaxChunkBody)
	}
	out, err := s2.Decode(dst[:cap(dst)], section)
	if err != nil {
		return nil, fmt.Errorf("chunk section: %w", err)
	}
	return out, nil
}
