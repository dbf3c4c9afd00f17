package stream

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// Point is a message of INGEST: its sequence and when NATS stored it, in nanoseconds since the epoch (0: not known, as in chunks of older
// versions). A sequence alone does not prove anything: a stream that lost its end, or was made anew, gives the same numbers to other
// messages.
type Point struct {
	Seq uint64 `json:"seq"`
	At  int64  `json:"at,omitempty"`
}

// Inserted is what a lane's mark says of one ROWS partition: how far ClickHouse has it. A worker that finds ROWS shorter than that goes on
// from here. The zero value says that nothing of the partition is in ClickHouse.
type Inserted struct {
	Chunk    uint64 `json:"chunk"`    // number of the newest inserted chunk
	Snapshot uint64 `json:"snapshot"` // ROWS sequence that recovery of the partition needs, and all after it
	Epoch    uint64 `json:"epoch,omitempty"`
	// Position is where that chunk stood in INGEST; CreatedAt when it was made, ns since the epoch; Flushed is the chunk's own.
	Position  Point `json:"position,omitzero"`
	CreatedAt int64 `json:"created_at,omitempty"`
	Flushed   bool  `json:"flushed,omitempty"`
	// Released is the chunk's own.
	Released Released `json:"released,omitzero"`
	// Used is the largest chunk number that may have rows in ClickHouse without being inserted: the span was never finished. A worker must
	// go on above it.
	Used uint64 `json:"used,omitempty"`
	// Void is set by a worker that goes on from here: chunks with smaller numbers are not to be inserted any more, their parts are folded
	// again.
	Void uint64 `json:"void,omitempty"`
	// Erased is the ROWS sequence of the newest chunk that carried deletions: what ROWS has up to there must not stay, nor come back.
	Erased uint64 `json:"erased,omitempty"`
}

// InsertedUpTo is the partition's record after the mark has moved past c.
func (c *Chunk) InsertedUpTo(old Inserted) Inserted {
	return Inserted{Chunk: c.Number, Snapshot: c.Snapshot.Seq, Epoch: c.Epoch, Position: Point{c.Position, c.PositionAt},
		CreatedAt: c.CreatedAt, Flushed: c.Flushed, Released: c.Released,
		Used: old.Used, Void: old.Void, Erased: old.Erased}
}

// MarkKey is the key of a lane's mark in MarksBucket.
func MarkKey(lane int) string { return "lane." + strconv.Itoa(lane) }

// Loss is a durable record of what a stream was found to have lost, in MarksBucket under LossKey. The newest of each kind and partition
// stays.
type Loss struct {
	Stream    string `json:"stream"`    // IngestStream or RowsStream
	Partition int    `json:"partition"` // -1: of the stream as a whole
	// From and To are the first and last lost sequences of INGEST (of ROWS: chunk numbers) that are recorded anywhere; parts that came
	// after To and were lost too are not recorded.
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
	At   int64  `json:"at"` // when it was found, ns since the epoch
	Why  string `json:"why"`
	// Missing says what may be missing or counted twice in the tables; "" when everything was restored.
	Missing string `json:"missing,omitempty"`
}

// LossPrefix begins the keys of all records of losses.
const LossPrefix = "lost."

// LossKey is the key of a loss in MarksBucket.
func LossKey(stream string, partition int) string {
	return LossPrefix + stream + "." + strconv.Itoa(partition)
}

// String says it in one line.
func (l Loss) String() string {
	what := "sequences"
	if l.Stream == RowsStream {
		what = "chunks"
	}
	of := "partition " + strconv.Itoa(l.Partition)
	if l.Partition < 0 {
		of = "all partitions"
	}
	s := fmt.Sprintf("%s lost %s %d to %d of %s (%s; found %s)", l.Stream, what, l.From, l.To, of, l.Why,
		time.Unix(0, l.At).UTC().Format("2006-01-02 15:04:05"))
	if l.Missing != "" {
		s += ": " + l.Missing
	}
	return s
}

// ParseLoss reads a record.
func ParseLoss(value []byte) (l Loss, err error) {
	if err := json.Unmarshal(value, &l); err != nil {
		return l, fmt.Errorf("record of a loss: %w", err)
	}
	return l, nil
}
