package aggregate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/stream"
)

// INGEST's history. A position is a sequence. A stream that lost its end (a power cut, an older copy put back) or was made anew gives the
// same sequences to other messages, and an owner that trusted its position would skip them all. So a position is kept with the time at
// which NATS stored the message, and both are compared with the stream: at each takeover, whenever a consumer is made (the client makes one
// after each reconnect), and when the stream's last sequence falls or its time of creation changes.
//
// When they do not match, the owner goes back to the newest anchor that matches, or else to the stream's first message. From there it goes
// over what it has folded before, without counting that again, up to the first message that is new.

// errHistory means that INGEST is not the stream any more whose messages were folded: the partition has to be taken over anew.
var errHistory = errors.New("INGEST lost what was folded")

// check returns why INGEST is no longer the stream in which the partition's message at was stored, "" while it is. A message that was
// purged is not a loss.
func (w *Worker) check(ctx context.Context, partition int, at stream.Point) (string, error) {
	if at.Seq == 0 {
		return "", nil
	}
	ask, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ours := fmt.Sprintf("ingest.%d.", partition)
	msg, err := w.streams.Ingest.GetMsg(ask, at.Seq)
	switch {
	case err == nil && (at.At != 0 && msg.Time.UnixNano() != at.At || !strings.HasPrefix(msg.Subject, ours)):
		return fmt.Sprintf("another message, of %s, is at sequence %d", msg.Time.UTC().Format("2006-01-02 15:04:05"), at.Seq), nil
	case err == nil:
		return "", nil
	case !errors.Is(err, jetstream.ErrMsgNotFound):
		return "", fmt.Errorf("the last folded part: %w", err)
	}
	info, err := w.streams.Ingest.Info(ask)
	if err != nil {
		return "", fmt.Errorf("state of INGEST: %w", err)
	}
	if at.At != 0 && info.Created.UnixNano() > at.At {
		return "the stream was made anew at " + info.Created.UTC().Format("2006-01-02 15:04:05"), nil
	}
	if info.State.LastSeq < at.Seq {
		return fmt.Sprintf("the stream ends at %d", info.State.LastSeq), nil
	}
	// Parts are purged from the partition's first on. A part that is younger than what was folded cannot stand before it.
	first, err := w.streams.Ingest.GetMsg(ask, 1, jetstream.WithGetMsgSubject(stream.IngestFilter(partition)))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("the partition's first part: %w", err)
	}
	if at.At != 0 && first.Sequence < at.Seq && first.Time.UnixNano() > at.At {
		return fmt.Sprintf("a younger message is at sequence %d", first.Sequence), nil
	}
	return "", nil
}

const (
	// maxAnchors is how many earlier positions of a partition are kept, anchorEvery apart at first and then wider and wider: they reach
	// back for days.
	maxAnchors  = 12
	anchorEvery = 10 * time.Second
)

// anchor adds the position to the anchors, newest first. When there are too many, the one is dropped whose neighbours are closest, compared
// with how long ago it was.
func anchor(anchors []stream.Point, p stream.Point) []stream.Point {
	if p.Seq == 0 || p.At == 0 || len(anchors) > 0 && (p.Seq <= anchors[0].Seq || p.At-anchors[0].At < int64(anchorEvery)) {
		return anchors
	}
	anchors = slices.Insert(slices.Clone(anchors), 0, p)
	if len(anchors) <= maxAnchors {
		return anchors
	}
	drop, least := 1, 0.0
	for i := 1; i < len(anchors)-1; i++ {
		gap := float64(anchors[i-1].At-anchors[i+1].At) / float64(p.At-anchors[i].At+1)
		if i == 1 || gap < least {
			drop, least = i, gap
		}
	}
	return slices.Delete(anchors, drop, drop+1)
}

// past is the chunk up to which everything is in ClickHouse or on its way: what an owner goes on from.
type past struct {
	number, epoch uint64
	position      stream.Point
	anchors       []stream.Point
	createdAt     int64
	flushed       bool // it holds no rollups back
	released      stream.Released
}

// settle makes the position one from which INGEST can be folded. The fold's state is the one at position have, and everything up to before
// has been folded. With behind, the state is that of an earlier chunk: the parts in between change the state and do not give rows.
func (o *owner) settle(ctx context.Context, before past, have stream.Point, behind bool) error {
	o.position, o.positionAt = have.Seq, have.At
	why, err := o.w.check(ctx, o.partition, before.position)
	if err != nil {
		return err
	}
	if why == "" && !behind {
		return nil
	}
	if why != "" {
		var match stream.Point
		for i, a := range before.anchors {
			if a.Seq >= before.position.Seq {
				continue
			}
			if wrong, err := o.w.check(ctx, o.partition, a); err != nil {
				return err
			} else if wrong == "" {
				match, o.anchors = a, before.anchors[i:]
				break
			}
		}
		if match.Seq == 0 {
			o.anchors = nil
		}
		o.lost = &stream.Loss{Stream: stream.IngestStream, Partition: o.partition, From: match.Seq + 1, To: before.position.Seq, Why: why,
			Missing: "what was folded is in the tables; parts that were accepted and not folded yet are gone, their senders have to send them again"}
		if match.Seq < o.position {
			o.position, o.positionAt = match.Seq, match.At
		}
	}
	if err := o.replay(ctx, before, have, why != "", behind); err != nil {
		return err
	}
	if why == "" {
		o.position, o.positionAt = before.position.Seq, before.position.At
	} else {
		// Its sequences are others' now, or nobody's: what stood up to where it was folded is not lost.
		o.passed.load(nil, max(o.position, before.position.Seq))
		o.lost.From = max(o.lost.From, o.position+1)
		o.tell(ctx, *o.lost)
	}
	return nil
}

// replay goes over parts that were folded before, up to before.position or to the first one that is new. Those that the state knows are
// passed over; the others change the state, and their rows are in the tables already.
func (o *owner) replay(ctx context.Context, before past, have stream.Point, broken, behind bool) error {
	q := &quiet{o: o, stateless: have.Seq == 0, released: before.released}
	if behind {
		if err := q.begin(ctx); err != nil {
			return err
		}
	}
	last := int64(0)
	var changes []*Part
	for o.position < before.position.Seq {
		msg, err := o.next(ctx, o.position+1)
		if err != nil {
			return err
		}
		if msg == nil || msg.Sequence > before.position.Seq {
			break
		}
		at := msg.Time.UnixNano()
		if broken && (before.position.At != 0 && at > before.position.At || at < last) {
			break // younger than all that was folded, or the clock was set back: only a lost end could show which
		}
		last = at
		if msg.Sequence <= have.Seq || !behind {
			if broken {
				known, change := o.knows(msg)
				if !known {
					break
				}
				if change != nil {
					changes = append(changes, change)
				}
			}
			o.position, o.positionAt = msg.Sequence, at
		} else if err := q.take(ctx, msg); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if behind {
		q.end(max(before.createdAt, last), before.flushed)
	}
	o.opened = time.Time{}
	for _, p := range changes {
		o.fold.administered(p)
		o.opened = o.clock()
	}
	return nil
}

// next returns the partition's next part from a sequence on, nil when there is none.
func (o *owner) next(ctx context.Context, from uint64) (*jetstream.RawStreamMsg, error) {
	for try := 0; ; try++ {
		ask, cancel := context.WithTimeout(ctx, 10*time.Second)
		msg, err := o.streams.Ingest.GetMsg(ask, from, jetstream.WithGetMsgSubject(stream.IngestFilter(o.partition)))
		cancel()
		switch {
		case err == nil:
			return msg, nil
		case !errors.Is(err, jetstream.ErrMsgNotFound):
			return nil, fmt.Errorf("parts from %d on: %w", from, err)
		case try > 0 || o.streams.Ingest.CachedInfo().Config.Replicas < 2:
			return nil, nil
		}
		sleep(ctx, time.Second) // a replica answered, which may not have it yet
	}
}

// knows reports whether the state says that the part was folded, or dropped for good. Of what an administrator changed no state says so: it
// is returned, to be written again, since a change that is there twice is one in the view.
func (o *owner) knows(msg *jetstream.RawStreamMsg) (known bool, change *Part) {
	env, _, err := stream.ParseEnvelope(msg.Data)
	switch {
	case err == nil && env.Kind == stream.KindAdmin && env.Admin != nil:
		return true, &Part{Seq: msg.Sequence, Env: env}
	case err != nil || env.Kind == stream.KindDelete || o.seen(&env):
		return true, nil
	case env.Kind == stream.KindDoor || env.Kind == stream.KindRepeats:
		return true, nil // no state says so; that a count is passed over though it is new makes it too small, twice the same is worse
	}
	_, tenant := o.fold.deletions[deletionKey{tenant: env.Tenant}]
	_, session := o.fold.deletions[keyOf(env.Tenant, env.Session)]
	return tenant || session, nil
}

// tell reports that something is lost: in the log, the metrics and the status, and for good in the marks bucket, where the audit finds it.
func (o *owner) tell(ctx context.Context, l stream.Loss) {
	l.At = cmp.Or(l.At, time.Now().UnixNano())
	o.w.setStatus(o.partition, func(st *PartitionStatus) { st.Loss, st.LossAt = l.String(), time.Unix(0, l.At) })
	o.w.tell(ctx, l)
}

func (w *Worker) tell(ctx context.Context, l stream.Loss) {
	l.At = cmp.Or(l.At, time.Now().UnixNano())
	w.metrics.lost.WithLabelValues(l.Stream).Inc()
	w.metrics.brokenAt.Set(float64(l.At) / 1e9)
	w.cfg.Logger.Error("NATS has lost data: "+l.String(), "stream", l.Stream, "partition", l.Partition, "from", l.From, "to", l.To)
	if l.Partition < 0 {
		w.mu.Lock()
		w.loss, w.lossAt = l.String(), time.Unix(0, l.At)
		w.mu.Unlock()
	}
	body, err := json.Marshal(l)
	if err != nil {
		return
	}
	put, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, err := w.streams.Marks.Put(put, stream.LossKey(l.Stream, l.Partition), body); err != nil {
		w.cfg.Logger.Warn("the record of the loss could not be stored; the audit will not show it", "err", err)
	}
}

// historian looks for signs that INGEST is another stream, or shorter, than at its last look. If so, owners ask the stream themselves. What
// it saw is kept in the marks bucket, for the first look of the next process: positions do not show a loss of parts that were not folded
// yet.
type historian struct {
	kv         jetstream.KeyValue
	created    time.Time
	last       uint64
	reconnects uint64
	kept       sighting
}

// sighting is INGEST as it was last seen.
type sighting struct {
	Created time.Time `json:"created"`
	Last    uint64    `json:"last"`
}

// sightingKey is its key in the marks bucket.
const sightingKey = "seen." + stream.IngestStream

// recall reads what another process saw. Without that the first look cannot find anything, as after an upgrade.
func (h *historian) recall(ctx context.Context, reconnects uint64) {
	get, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	entry, err := h.kv.Get(get, sightingKey)
	if err != nil || json.Unmarshal(entry.Value(), &h.kept) != nil {
		return
	}
	h.created, h.last, h.reconnects = h.kept.Created, h.kept.Last, reconnects
}

// keep stores what was seen, if it has changed.
func (h *historian) keep(ctx context.Context) {
	now := sighting{h.created, h.last}
	if now == h.kept {
		return
	}
	body, err := json.Marshal(now)
	if err != nil {
		return
	}
	put, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := h.kv.Put(put, sightingKey, body); err == nil {
		h.kept = now
	}
}

// look reports whether owners should look at their positions, and what the stream was seen to have lost.
func (h *historian) look(info *jetstream.StreamInfo, reconnects uint64) (suspect bool, lost *stream.Loss) {
	if !h.created.IsZero() {
		suspect = reconnects != h.reconnects
		switch {
		case !info.Created.Equal(h.created):
			suspect = true
			lost = &stream.Loss{From: 1, To: h.last, Why: "the stream was removed and made anew"}
		case info.State.LastSeq < h.last:
			suspect = true
			lost = &stream.Loss{From: info.State.LastSeq + 1, To: h.last, Why: fmt.Sprintf("the stream ended at %d and ends at %d", h.last,
				info.State.LastSeq)}
		}
		if lost != nil {
			lost.Stream, lost.Partition = stream.IngestStream, -1
			lost.Missing = "parts among them that were accepted and not folded yet are gone, their senders have to send them again"
		}
	}
	h.created, h.last, h.reconnects = info.Created, info.State.LastSeq, reconnects
	return suspect, lost
}

// verify returns errHistory, wrapped, when the part at last is not in INGEST any more. It waits for NATS.
func (o *owner) verify(ctx context.Context, last stream.Point) error {
	for {
		why, err := o.w.check(ctx, o.partition, last)
		switch {
		case err == nil && why == "":
			return nil
		case err == nil:
			return fmt.Errorf("%w: %s", errHistory, why)
		case ctx.Err() != nil:
			return nil
		}
		sleep(ctx, 500*time.Millisecond)
	}
}

// now is the clock that decides how long halves wait.
func (o *owner) now() int64 {
	if o.replaying {
		return o.at + o.shift
	}
	return o.clock().UnixNano()
}

// clock is the time by which the fold waits and forgets.
func (o *owner) clock() time.Time {
	if o.w.cfg.clock != nil {
		return o.w.cfg.clock(o.partition)
	}
	return time.Now()
}
