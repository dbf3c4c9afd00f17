package sink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

// StreamReport says whether a stream (a bucket is one too) has everything that it says it has.
type StreamReport struct {
	Stream   string
	Messages uint64 // that it says it has
	Read     uint64 // that could be read
	Problems []string
}

// auditStreams reads every message of Warpline's streams. The NATS server checks each by its checksum and leaves out what is damaged.
func auditStreams(ctx context.Context, s *broker.Streams) (out []StreamReport, err error) {
	for _, name := range auditedStreams() {
		r, err := auditStream(ctx, s, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// auditedStreams are the streams whose content cannot be made again; leases are not among them.
func auditedStreams() []string {
	names := []string{stream.IngestStream, stream.RowsStream}
	for _, b := range []string{stream.KeysBucket, stream.WindowsBucket, stream.DictionariesBucket,
		stream.MarksBucket, stream.DeletionsBucket, stream.CubinsBucket} {
		names = append(names, "KV_"+b)
	}
	for _, b := range []string{stream.PartsObjects, stream.StateObjects, stream.ChunksObjects} {
		names = append(names, "OBJ_"+b)
	}
	return names
}

func auditStream(ctx context.Context, s *broker.Streams, name string) (StreamReport, error) {
	r := StreamReport{Stream: name}
	st, err := s.JS.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		r.Problems = append(r.Problems, "it is gone: somebody deleted it; the service makes it anew, without what it held")
		return r, nil
	}
	if err != nil {
		return r, err
	}
	info := st.CachedInfo()
	r.Messages = info.State.Msgs
	lost, _, harmless, err := lostIn(ctx, s, name)
	if err != nil {
		return r, err
	}
	if lost != "" && harmless == "" {
		r.Problems = append(r.Problems, lost)
	}
	if r.Messages == 0 {
		return r, nil
	}
	have, err := readAll(ctx, st, info.State.FirstSeq, info.State.LastSeq)
	if err != nil {
		return r, err
	}
	r.Read = have.n
	if info.State.NumDeleted > maxDeleted {
		// The list of what was deleted is too long to ask for: the counts have to be enough, as long as nothing changes.
		now, err := st.Info(ctx)
		if err == nil && now.State.LastSeq == info.State.LastSeq && now.State.Msgs == info.State.Msgs && have.n < info.State.Msgs {
			r.Problems = append(r.Problems, fmt.Sprintf("%d messages are damaged and cannot be read", info.State.Msgs-have.n))
		}
		return r, err
	}
	unreadable, err := have.unreadable(ctx, st)
	if err != nil {
		return r, err
	}
	if len(unreadable) > 0 {
		r.Problems = append(r.Problems, damaged(ctx, st, name, unreadable))
	}
	return r, nil
}

// damaged says where the messages are that cannot be read, and how old they are, judged by their neighbours.
func damaged(ctx context.Context, st jetstream.Stream, name string, runs [][2]uint64) string {
	var n uint64
	var where []string
	for i, run := range runs {
		n += run[1] - run[0] + 1
		if i >= 5 {
			continue
		}
		at := ""
		if before, err := st.GetMsg(ctx, run[0]-1); err == nil {
			at = fmt.Sprintf(" (behind %q of %s)", before.Subject, before.Time.UTC().Format(time.DateTime))
		}
		where = append(where, fmt.Sprintf("%d to %d%s", run[0], run[1], at))
	}
	then := "what they held is lost; see what the disk says, and restore the data folder of NATS from a backup"
	if name == stream.IngestStream {
		then = "parts that the workers had not folded by then are lost: send again what clients still have from that time"
	}
	return fmt.Sprintf("%d messages are damaged and cannot be read: %s: %s", n, strings.Join(where, ", "), then)
}

// sequences are the sequences that were read, as runs without a gap.
type sequences struct {
	n     uint64
	runs  [][2]uint64
	first uint64
	last  uint64
}

// maxDeleted is how many deleted sequences a server is asked to list.
const maxDeleted = 1 << 19

// maxRuns bounds what is remembered of a stream full of holes.
const maxRuns = 1 << 20

// readAll reads a stream without its bodies.
func readAll(ctx context.Context, st jetstream.Stream, first, last uint64) (s sequences, err error) {
	s.first, s.last = first, last
	c, err := st.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
		OptStartSeq: first, HeadersOnly: true, InactiveThreshold: 30 * time.Second})
	if err != nil {
		return s, fmt.Errorf("read it: %w", err)
	}
	it, err := c.Messages(jetstream.PullMaxMessages(2048))
	if err != nil {
		return s, fmt.Errorf("read it: %w", err)
	}
	defer it.Stop()
	quiet := 0
	for {
		wait, cancel := context.WithTimeout(ctx, time.Second)
		msg, err := it.Next(jetstream.NextContext(wait))
		cancel()
		if err != nil {
			if ctx.Err() != nil {
				return s, ctx.Err()
			}
			// After a damaged message at the very end nothing comes any more.
			if quiet++; quiet >= 3 && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)) {
				return s, nil
			}
			if quiet > 30 {
				return s, fmt.Errorf("read it: %w", err)
			}
			continue
		}
		quiet = 0
		meta, err := msg.Metadata()
		if err != nil {
			return s, fmt.Errorf("read it: %w", err)
		}
		seq := meta.Sequence.Stream
		if seq > last {
			return s, nil
		}
		s.n++
		if k := len(s.runs); k > 0 && s.runs[k-1][1]+1 == seq {
			s.runs[k-1][1] = seq
		} else if k < maxRuns {
			s.runs = append(s.runs, [2]uint64{seq, seq})
		}
		if seq == last || meta.NumPending == 0 {
			return s, nil
		}
	}
}

// unreadable returns the runs of sequences that were not read and that the stream does not say are deleted.
func (s *sequences) unreadable(ctx context.Context, st jetstream.Stream) (out [][2]uint64, err error) {
	// What was deleted during the reading is deleted by now.
	info, err := st.Info(ctx, jetstream.WithDeletedDetails(true))
	if err != nil {
		return nil, err
	}
	deleted := info.State.Deleted
	if !slices.IsSorted(deleted) {
		slices.Sort(deleted)
	}
	next := max(s.first, info.State.FirstSeq)
	add := func(from, to uint64) {
		for from <= to {
			at, is := slices.BinarySearch(deleted, from)
			if is {
				from++
				continue
			}
			end := to
			if at < len(deleted) {
				end = min(end, deleted[at]-1)
			}
			out = append(out, [2]uint64{from, end})
			from = end + 1
		}
	}
	for _, run := range s.runs {
		if run[0] > next {
			add(next, run[0]-1)
		}
		next = max(next, run[1]+1)
	}
	if last := min(s.last, info.State.LastSeq); next <= last {
		add(next, last)
	}
	return out, nil
}

// lostIn returns what the NATS server says it has lost of a stream since it was started, "" when nothing. When a message in the last block
// is damaged, all after it are lost too: the server cuts the stream there, and gives their sequences to others. Bytes without messages are
// a torn end: what was being written in a power cut. Damaged bytes near the end of a stream of a server that was killed look the same. So a
// torn end is logged and is not a proof of loss: whether messages were lost with it is found by other means (broker/sighting.go,
// aggregate/history.go, the lanes' marks, ingest.AuditUploads). Keys are written so seldom that in their bucket a torn end counts as the
// loss of a key.
//
// harmless says in words why nothing can be missing all the same; "" means that something may be missing.
func lostIn(ctx context.Context, s *broker.Streams, name string) (said string, bytes uint64, harmless string, err error) {
	st, err := s.JS.Stream(ctx, name)
	if err != nil {
		return "", 0, "", err
	}
	if st.CachedInfo().State.NumDeleted > maxDeleted {
		return "", 0, "", nil // the answer would list them all
	}
	info, err := st.Info(ctx, jetstream.WithDeletedDetails(true)) // without details the server does not say what it has lost
	if err != nil {
		return "", 0, "", err
	}
	lost := info.State.Lost
	if lost == nil || lost.Bytes == 0 && len(lost.Msgs) == 0 {
		return "", 0, "", nil
	}
	said = fmt.Sprintf("the NATS server dropped %d bytes of it that were damaged on disk", lost.Bytes)
	if len(lost.Msgs) == 0 {
		if name != "KV_"+stream.KeysBucket {
			harmless = "the end of a stream was torn, as after a power cut"
		}
		return said, lost.Bytes, harmless, nil
	}
	last := slices.Max(lost.Msgs)
	said += fmt.Sprintf(", %d messages, %d to %d", len(lost.Msgs), slices.Min(lost.Msgs), last)
	if name == stream.RowsStream && last < info.State.FirstSeq {
		inserted, err := insertedUpTo(ctx, s, info.Created)
		if err != nil {
			return "", 0, "", err
		}
		if last <= inserted {
			harmless = "a stream was said to have lost what is in ClickHouse, as after a power cut"
		}
	}
	return said, lost.Bytes, harmless, nil
}

// insertedUpTo is the sequence of ROWS up to which every lane has put everything into ClickHouse, 0 when that is not known of all lanes. A
// message up to there that is also before the stream's first message is not a checkpoint: it was deleted after it was inserted. A power cut
// can set the server's list of its files back to before that, while the files stay gone. A lane that passes over messages which were never
// inserted notices that by their chunk numbers, whatever is said here.
func insertedUpTo(ctx context.Context, s *broker.Streams, created time.Time) (uint64, error) {
	least := uint64(math.MaxUint64)
	for lane := range s.Lanes {
		entry, err := s.Marks.Get(ctx, markKey(lane))
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return 0, nil
		}
		if err != nil {
			return 0, fmt.Errorf("read the mark of lane %d: %w", lane, err)
		}
		var m mark
		if json.Unmarshal(entry.Value(), &m) != nil || m.StreamCreated != created.Unix() {
			return 0, nil
		}
		least = min(least, m.Mark)
	}
	return least, nil
}
