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
	Number    uint64 `json:"chunk"` // counts this partition's chunks from 1; the column "chunk" of every row
	// Epoch and Nonce tell the owner that wrote it: an owner whose publish timed out reads the last message and compares.
	Epoch uint64 `json:"epoch"`
	Nonce string `json:"nonce"`
	// Position is the INGEST stream sequence of the last part that is folded into this chunk or an earlier one.
	Position  uint64 `json:"position"`
	CreatedAt int64  `json:"created_at"` // ns since the epoch
	// OldestReceivedAt is the earliest gateway stamp among the rows (0: no rows); the sink measures "accepted → visible" with it.
	OldestReceivedAt int64 `json:"oldest_received_at,omitempty"`
	// Snapshot is the last full state that later chunks' State builds on.
	Snapshot Snapshot `json:"snapshot"`
	Tables   []Rows   `json:"tables,omitempty"`
	// Object names the body in ChunksObjects when it is too large for the message.
	Object string `json:"object,omitempty"`

	StateLen int `json:"state_len"`
	BodyLen  int `json:"body_len"`
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
	Fingerprint   string `json:"fp"`  // of the Arrow schema: a splice must not mix two
	Day           int32  `json:"day"` // days since the epoch, see table.Partition
	RetentionDays uint16 `json:"retention_days"`
	Rows          int    `json:"rows"`
	SchemaLen     int    `json:"schema_len"` // the IPC schema message comes first, then
	DataLen       int    `json:"data_len"`   // dictionary batches and the record batch, no end-of-stream
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

// ErrChunk is returned, wrapped, for bytes that are no chunk of a version this build reads.
var ErrChunk = errors.New("not a ROWS chunk of version 1 (was it written by a newer warpline?)")

// AppendChunk appends header, S2-compressed state change and S2-compressed body (the concatenation, per entry of c.Tables, of
// schema and data). It sets c.StateLen and c.BodyLen. With c.Object set, the body stays out of the message.
func AppendChunk(dst []byte, c *Chunk, state, body []byte) ([]byte, error) {
	scratch := packed.Get().(*[]byte)
	defer packed.Put(scratch)
	var cs, cb []byte
	if len(state) > 0 {
		cs = s2.Encode(nil, state)
	}
	if len(body) > 0 && c.Object == "" {
		*scratch = slices.Grow((*scratch)[:0], s2.MaxEncodedLen(len(body)))
		cb = s2.Encode((*scratch)[:cap(*scratch)], body)
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

// ParseChunk reads a ROWS message. state and body are still compressed and alias msg.
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

// DecodeSection decompresses a chunk's state or body into dst (grown when needed). Its size is bounded by MaxChunkBody.
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
