// Package stream is what Warpline's processes say to each other over JetStream: the names of streams, subjects and buckets, the envelope of
// one INGEST message and the chunk that is one ROWS message. It does not do I/O.
//
// Start with Envelope (what the gateway publishes) and Chunk (what a worker publishes and the sink inserts).
package stream

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"
)

// Streams and buckets. The names are wire format: every role must use the same ones.
const (
	// IngestStream holds accepted parts until some time after the workers have folded them.
	IngestStream = "INGEST"
	// RowsStream holds chunks of Arrow rows. The newest message of each of its subjects is that partition's checkpoint.
	RowsStream = "ROWS"

	// KeysBucket maps the hash of a key to its tenant and limits.
	KeysBucket = "WL_KEYS"
	// WindowsBucket records which windows and uploads were accepted, for 7 days.
	WindowsBucket = "WL_WINDOWS"
	// DictionariesBucket holds dictionary entries, one create-only key per (session, part).
	DictionariesBucket = "WL_DICTIONARIES"
	// LeasesBucket holds one key per owned partition or lane and one per live process; all of it expires within seconds.
	LeasesBucket = "WL_LEASES"
	// DeletionsBucket holds a record of each tombstone that was carried out, for 90 days.
	DeletionsBucket = "WL_DELETIONS"
	// MarksBucket holds the sink's marks, one key per lane.
	MarksBucket = "WL_MARKS"
	// SeenBucket holds how far each stream was seen to reach, so that the loss of a stream's end is noticed.
	SeenBucket = "WL_SEEN"
	// QuotasBucket holds what each tenant and key with a quota has sent today, one key each.
	QuotasBucket = "WL_QUOTAS"

	// PartsObjects holds bodies that do not fit one INGEST message (giant lines).
	PartsObjects = "WL_PARTS"
	// KeptForReject is the description of an object in PartsObjects that is folded and stays only because a reject refers to it.
	KeptForReject = "kept for a reject"
	// KeptPartition and KeptChunk are keys of the metadata of such an object: which chunk, of which partition, brings the reject. Objects that
	// older versions kept have neither.
	KeptPartition, KeptChunk = "partition", "chunk"
	// ObjectRef begins what a reject refers to when that is an object in PartsObjects; the name of the object follows.
	ObjectRef = "object:"
	// StateObjects holds snapshots of partition state.
	StateObjects = "WL_STATE"
	// ChunksObjects holds chunk bodies that do not fit one ROWS message.
	ChunksObjects = "WL_CHUNKS"
)

// MaxPayloadBytes is the NATS max_payload that every deployment must allow; it is checked at connect.
const MaxPayloadBytes = 8 << 20

// PartBytes is the largest uncompressed body of one part that is cut by line. It is part of every part's identity:
// changing it changes what "the same part" means, so a golden test holds it.
const PartBytes = 1 << 20

// Metadata keys of the streams, fixed when they are created.
const (
	// MetaPartitions is the number of partitions of INGEST and ROWS.
	MetaPartitions = "warpline-partitions"
	// MetaLanes is the number of sink lanes.
	MetaLanes = "warpline-lanes"
)

// SessionToken returns the subject token of a session: 128 bits of SHA-256 of the client's id in hex. Subjects never contain client text.
func SessionToken(session string) string {
	sum := sha256.Sum256([]byte(session))
	return hex.EncodeToString(sum[:16])
}

// Partition returns the partition, in [0, n), that owns a session of a tenant.
func Partition(tenant, session string, n int) int {
	var h xxh3.Hasher
	h.WriteString(tenant)
	h.Write([]byte{0})
	h.WriteString(session)
	return int(h.Sum64() % uint64(n))
}

// IngestSubject is the subject of a part: ingest.<partition>.<tenant>.<session token>.
func IngestSubject(partition int, tenant, token string) string {
	return "ingest." + strconv.Itoa(partition) + "." + tenant + "." + token
}

// RepeatsToken is in the subject of KindRepeats in place of a session's token, which is hex.
const RepeatsToken = "repeats"

// IngestFilter selects every part of one partition.
func IngestFilter(partition int) string { return "ingest." + strconv.Itoa(partition) + ".>" }

// SpendingSubject is where gateways tell each other what they let in. No stream takes it.
const SpendingSubject = "warpline.spending"

// RowsSubject is the subject of a partition's chunks.
func RowsSubject(partition int) string { return "rows." + strconv.Itoa(partition) }

// PartitionOfRows returns the partition of a ROWS subject, or -1 when it is not a subject of ROWS.
func PartitionOfRows(subject string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(subject, "rows."))
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// Lane returns the sink lane of a partition, in [0, lanes).
func Lane(partition, lanes int) int { return partition % lanes }

// DictionaryKey is the KV key of the dictionary entries that arrived in one part of a session: <tenant>.<token>.<ingest sequence>. The
// content follows only from the part, so writing it again after a crash writes the same.
func DictionaryKey(tenant, token string, seq uint64) string {
	return tenant + "." + token + "." + strconv.FormatUint(seq, 10)
}

// DictionaryFilter selects every dictionary key of a session.
func DictionaryFilter(tenant, token string) string { return tenant + "." + token + ".*" }
