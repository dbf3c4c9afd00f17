package sink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

var (
	errFenced = errors.New("the lane's mark was written by another sink")
	errVoided = errors.New("a worker goes on from what ClickHouse has, since ROWS lost chunks: those that were read are void")
	errCrash  = errors.New("crashed on purpose")
)

// mark is a lane's record in the marks bucket: all that a successor needs.
type mark struct {
	// Generation is random and part of every token. The tokens of a mark that begins anew, because the stream was made anew, must differ
	// from those that the old one left in ClickHouse.
	Generation string `json:"generation"`
	// StreamCreated is when the ROWS stream was made, seconds since the epoch: in another stream the sequences mean other messages.
	StreamCreated int64  `json:"stream_created"`
	Epoch         uint64 `json:"epoch"` // raised by each owner as it begins
	Owner         string `json:"owner"`
	// Since is when the generation began, ns since the epoch (0: with the stream). Ranges in the ledger from before that mean other
	// messages.
	Since int64 `json:"since,omitempty"`
	// Mark is the ROWS sequence up to which every message of the lane is in ClickHouse, and MarkAt when NATS stored that message (0: not
	// known): a stream that lost its end gives the sequence to another message.
	Mark    uint64   `json:"mark"`
	MarkAt  int64    `json:"mark_at,omitempty"`
	Pending *pending `json:"pending,omitempty"`
	// Partitions holds the newest inserted chunk of each ROWS partition. Chunk numbers rise for ever, whatever happens to ROWS, so a chunk
	// whose number is not larger is in ClickHouse. Workers read it, and set Void.
	Partitions map[int]stream.Inserted `json:"partitions,omitempty"`
	// Fresh says that there was no mark and this one was made from the ledger's end: ClickHouse may have rows of a span that the ledger
	// does not have.
	Fresh bool `json:"fresh,omitempty"`
	// Drop names chunk bodies in the object store that are inserted and may not have been deleted yet.
	Drop []string `json:"drop,omitempty"`
	// Erased are deletions that were carried out and will be checked once more.
	Erased []erased `json:"erased,omitempty"`
}

// pending is a span that may be inserted in part.
type pending struct {
	First     uint64         `json:"first"` // one above the mark before it
	Last      uint64         `json:"last"`
	Messages  int            `json:"messages"`
	Attempts  map[string]int `json:"attempts,omitempty"` // by block key, for those above 0
	StartedAt time.Time      `json:"started_at"`
	// Inserted says that every row of the span is in ClickHouse and that its deletions may have begun: nothing of it may be inserted again.
	Inserted bool      `json:"inserted,omitempty"`
	Erased   []erasure `json:"erased,omitempty"`
	// Removed is the same by ClickHouse partition, for the ledger.
	Removed []removal `json:"removed,omitempty"`
	// LastAt is when NATS stored the last message, ns since the epoch; 0 in marks of older versions.
	LastAt int64 `json:"last_at,omitempty"`
	// Reaches is what Partitions will say of the partitions in the span.
	Reaches map[int]stream.Inserted `json:"reaches,omitempty"`
	// Gone says that the stream with the span's messages is gone.
	Gone bool `json:"gone,omitempty"`
}

// marks reads and writes one lane's mark. Not safe for concurrent use.
type marks struct {
	kv       jetstream.KeyValue
	key      string
	revision uint64
	mark     mark
	voided   bool // a worker has set Void since the mark was taken: what was read may be void
}

func markKey(lane int) string { return stream.MarkKey(lane) }

// take makes owner the owner of the lane: it reads the mark, or makes one that starts at begin(), and raises its epoch.
func (m *marks) take(ctx context.Context, owner string, state func(context.Context, *mark) (streamState, error),
	begin func(context.Context, streamState) (uint64, error)) (fresh string, err error) {
	for {
		next, revision, why, err := m.get(ctx)
		if err != nil {
			return "", err
		}
		// The stream is asked after the mark was read, each time. A stream only grows, so when its end is then before the mark, it has lost
		// its end. If it were asked first, another owner might have moved the mark meanwhile.
		now, err := state(ctx, &next)
		if err != nil {
			return "", err
		}
		if why == "" {
			why = next.foreign(now)
			if why != "" {
				next = next.anew()
			}
		}
		if why != "" {
			next.Generation, next.StreamCreated = broker.NewID(), now.created
			if len(next.Partitions) > 0 { // the chunk numbers say what is inserted
				next.Since = time.Now().UnixNano()
			} else {
				next.Mark, err = begin(ctx, now)
				if err != nil {
					return "", err
				}
				next.Fresh = next.Mark > 0
			}
		}
		next.Epoch++
		next.Owner = owner
		m.revision = revision
		err = m.write(ctx, next)
		if errors.Is(err, errFenced) {
			continue // someone took it in between: read again and raise theirs
		}
		return why, err
	}
}

// streamState is the state of the ROWS stream.
type streamState struct {
	created int64 // seconds since the epoch
	lastSeq uint64
	markAt  int64 // when NATS stored the message at the mark, ns since the epoch; 0: there is none
}

// anew is the mark for a stream of which nothing is read yet, while ClickHouse has all that m says.
func (m *mark) anew() mark {
	next := mark{Epoch: m.Epoch, Partitions: make(map[int]stream.Inserted, len(m.Partitions)), Drop: m.Drop, Erased: m.Erased}
	for p, s := range m.Partitions {
		s.Snapshot, s.Erased = 0, 0 // sequences of the other stream
		next.Partitions[p] = s
	}
	if m.Pending != nil {
		p := *m.Pending
		p.Gone = true
		next.Pending = &p
	}
	return next
}

// get returns the mark as it is stored; if there is none, why says why.
func (m *marks) get(ctx context.Context) (next mark, revision uint64, why string, err error) {
	ask, cancel := context.WithTimeout(ctx, natsTimeout)
	defer cancel()
	entry, err := m.kv.Get(ask, m.key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return mark{}, 0, "there is none", nil
	}
	if err != nil {
		return mark{}, 0, "", fmt.Errorf("read mark %s: %w", m.key, err)
	}
	if err := json.Unmarshal(entry.Value(), &next); err != nil {
		return mark{}, entry.Revision(), fmt.Sprintf("its key %s holds something else (%v)", m.key, err), nil
	}
	return next, entry.Revision(), "", nil
}

// since is when the sequences began to mean the present messages, ns since the epoch.
func (m *mark) since() int64 { return max(m.StreamCreated*int64(time.Second), m.Since) }

// foreign says why the mark does not belong to the stream, "" when it does.
func (m *mark) foreign(now streamState) string {
	if d := m.StreamCreated - now.created; d > 1 || d < -1 {
		return "it belongs to another ROWS stream"
	}
	if m.Mark > now.lastSeq {
		return fmt.Sprintf("it stands at %d and the ROWS stream ends at %d: the stream lost its end", m.Mark, now.lastSeq)
	}
	if m.MarkAt != 0 && now.markAt != 0 && m.MarkAt != now.markAt {
		return fmt.Sprintf("another message is at %d, where it stands: the stream lost its end", m.Mark)
	}
	return ""
}

// write stores next if nobody else wrote since. After a time-out it is not known whether it was stored, so write reads back what is there:
// every record has its owner's epoch, so equal bytes are our own.
func (m *marks) write(ctx context.Context, next mark) error {
	body, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("encode mark: %w", err)
	}
	pause := newPause(time.Second)
	for {
		try, cancel := context.WithTimeout(ctx, natsTimeout)
		var revision uint64
		if m.revision == 0 {
			revision, err = m.kv.Create(try, m.key, body)
		} else {
			revision, err = m.kv.Update(try, m.key, body, m.revision)
		}
		cancel()
		if err == nil {
			m.revision, m.mark = revision, next
			return nil
		}
		get, cancel := context.WithTimeout(ctx, natsTimeout)
		entry, getErr := m.kv.Get(get, m.key)
		cancel()
		switch {
		case getErr == nil && entry.Revision() > m.revision:
			if bytes.Equal(entry.Value(), body) {
				m.revision, m.mark = entry.Revision(), next
				return nil
			}
			var stored mark
			if json.Unmarshal(entry.Value(), &stored) != nil || stored.Epoch != next.Epoch || stored.Owner != next.Owner {
				return errFenced
			}
			// A worker wrote it. A span that was begun goes on, with what the worker wrote; no new span is begun before the void chunks are
			// known.
			m.revision, m.voided = entry.Revision(), true
			if next.Pending != nil && m.mark.Pending == nil {
				return errVoided
			}
			next = next.clone()
			for p, s := range stored.Partitions {
				if mine := next.Partitions[p]; s.Void > mine.Void {
					mine.Void = s.Void
					next.Partitions[p] = mine
				}
			}
			body, err = json.Marshal(next)
			if err != nil {
				return fmt.Errorf("encode mark: %w", err)
			}
			continue
		case errors.Is(getErr, jetstream.ErrKeyNotFound) && m.revision != 0:
			return errFenced // somebody deleted it
		}
		// Either nothing was stored, or the answer came from a replica that does not have it yet: the next try shows which.
		if !sleep(ctx, pause.next()) {
			return fmt.Errorf("write mark %s: %w", m.key, err)
		}
	}
}

// clone copies what next steps change.
func (m mark) clone() mark {
	parts := make(map[int]stream.Inserted, len(m.Partitions))
	for p, s := range m.Partitions {
		parts[p] = s
	}
	m.Partitions = parts
	if m.Pending != nil {
		p := *m.Pending
		p.Attempts = make(map[string]int, len(m.Pending.Attempts))
		for k, v := range m.Pending.Attempts {
			p.Attempts[k] = v
		}
		m.Pending = &p
	}
	return m
}
