package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/stream"
)

// A server that finds damaged bytes in the last block of a stream drops them and all that follows, and says how many bytes it dropped, not
// whether a message was among them. A torn write that was never acknowledged looks the same. So what each stream was seen to hold is kept
// in a bucket of its own, once a second while something changes: a stream that has less than that has lost what NATS had acknowledged. A
// sighting is never ahead of what was acknowledged; where each acknowledgement waits for the disk (durability fsync) a power cut does not
// take anything of it. What came after the last sighting, a second at most, is in no sighting.

// sighting is a stream as it was seen. At is when its last message was stored, ns since the epoch.
type sighting struct {
	Created time.Time `json:"created"`
	Last    uint64    `json:"last"`
	Msgs    uint64    `json:"msgs"`
	At      int64     `json:"at"`
}

// sightingsKey is the key in stream.SeenBucket that has the sightings of all streams, by name.
const sightingsKey = "streams"

// shortened is what a stream lost at its end.
type shortened struct {
	name     string
	from, to uint64 // first and last sequence that may be lost
	why      string
	at       time.Time // when it was found
}

func (l *shortened) String() string {
	return fmt.Sprintf("%s lost messages %d to %d, which NATS had acknowledged: %s", l.name, l.from, l.to, l.why)
}

// watch is what a process remembers between two looks. The zero value is ready.
type watch struct {
	mu         sync.Mutex
	looked     bool
	reconnects uint64
	kept       map[string]sighting
	doubted    map[string]bool // replicated streams that looked short at the last look
	untold     []shortened     // not recorded as findings yet
	told       []shortened
	missing    map[string]uint64 // messages that the metrics have not counted yet
}

// take returns how many messages were found missing since the last call, by stream.
func (w *watch) take() map[string]uint64 {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.missing
	w.missing = nil
	return n
}

// Shortened says what this process has found since a time that streams lost at their ends, in one line each.
func (s *Streams) Shortened(since time.Time) (lines []string) {
	if s.watch == nil {
		return nil
	}
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	for i := range s.watch.told {
		if l := &s.watch.told[i]; l.at.After(since) {
			lines = append(lines, l.String())
		}
	}
	return lines
}

// maxTold bounds how many losses a process remembers.
const maxTold = 64

// sight compares every stream with its sighting, reports what is missing, and keeps what it sees. What fails is tried again the next time.
func (s *Streams) sight(ctx context.Context) {
	w := s.watch
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s.tell(ctx, s.found(ctx)...)
}

// LostEnd reports that a stream has lost messages at its end: in the log, the metrics and Shortened, and for good in the findings.
func (s *Streams) LostEnd(ctx context.Context, name string, from, to uint64, why string) {
	if s.watch == nil {
		return
	}
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	s.tell(ctx, shortened{name: name, from: from, to: to, why: why, at: time.Now()})
}

// tell reports what was found, once.
func (s *Streams) tell(ctx context.Context, lost ...shortened) {
	w := s.watch
	for _, l := range lost {
		if w.missing == nil {
			w.missing = map[string]uint64{}
		}
		w.missing[l.name] += l.to - l.from + 1
		w.untold, w.told = append(w.untold, l), append(w.told, l)
		s.log.Error("NATS has lost data: "+l.String(), "stream", l.name, "from", l.from, "to", l.to,
			"do", "look at the disk of NATS, and run: warpline audit")
	}
	w.told = w.told[max(0, len(w.told)-maxTold):]
	w.untold = slices.DeleteFunc(w.untold, func(l shortened) bool {
		_, err := Find(ctx, s.Marks, FindingShortened, l.name, -1, l.to-l.from+1, Place{First: l.from, Last: l.to, At: l.at.UTC(), Detail: l.why})
		return err == nil
	})
}

// found looks once: it returns what is missing since the last look of any process.
func (s *Streams) found(ctx context.Context) []shortened {
	w := s.watch
	reconnects := s.Conn.Stats().Reconnects
	again := !w.looked || reconnects != w.reconnects
	now, _, err := s.look(ctx)
	if err != nil || !again && len(w.doubted) == 0 && maps.Equal(now, w.kept) {
		return nil
	}
	old, revision, err := s.sightings(ctx)
	if err != nil {
		return nil
	}
	// Only what is seen after the sighting was read can be compared with it: another process may have stored a newer one meanwhile.
	now, infos, err := s.look(ctx)
	if err != nil {
		return nil
	}
	next, doubted, lost := maps.Clone(old), map[string]bool{}, []shortened(nil)
	for name, n := range now {
		o, known := old[name]
		if known && o.Created.Equal(n.Created) {
			l, err := s.compare(ctx, o, infos[name], again)
			if err != nil {
				return nil
			}
			if l != nil && infos[name].Config.Replicas > 1 && !w.doubted[name] {
				doubted[name] = true // a leader that has just been elected may not have caught up
				continue
			}
			if l != nil {
				lost = append(lost, *l)
			}
		}
		next[name] = n
	}
	if !maps.Equal(next, old) {
		body, err := json.Marshal(next)
		if err != nil {
			return nil
		}
		if revision == 0 {
			_, err = s.Seen.Create(ctx, sightingsKey, body)
		} else {
			_, err = s.Seen.Update(ctx, sightingsKey, body, revision)
		}
		if err != nil { // another process was first, and reports it
			return nil
		}
	}
	w.looked, w.reconnects, w.kept, w.doubted = len(doubted) == 0, reconnects, next, doubted
	return lost
}

// look asks what each stream holds that has to be kept.
func (s *Streams) look(ctx context.Context) (map[string]sighting, map[string]*jetstream.StreamInfo, error) {
	list := s.JS.ListStreams(ctx)
	now, infos := map[string]sighting{}, map[string]*jetstream.StreamInfo{}
	for info := range list.Info() {
		name := info.Config.Name
		if _, ours := s.storeLost[name]; ours {
			now[name] = sighting{Created: info.Created.UTC(), Last: info.State.LastSeq, Msgs: info.State.Msgs, At: info.State.LastTime.UnixNano()}
			infos[name] = info
		}
	}
	return now, infos, list.Err()
}

// sightings reads what was kept. What cannot be read proves nothing and is written anew.
func (s *Streams) sightings(ctx context.Context) (old map[string]sighting, revision uint64, err error) {
	old = map[string]sighting{}
	entry, err := s.Seen.Get(ctx, sightingsKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return old, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read sightings: %w", err)
	}
	if json.Unmarshal(entry.Value(), &old) != nil || old == nil {
		old = map[string]sighting{}
	}
	return old, entry.Revision(), nil
}

// compare returns what a stream lacks of what was seen in it, nil for nothing. Messages that come after a loss take the sequences of those
// that are gone, so at the first look (again) the message at the sighting is asked for its age.
func (s *Streams) compare(ctx context.Context, old sighting, info *jetstream.StreamInfo, again bool) (*shortened, error) {
	name, state := info.Config.Name, &info.State
	st, err := s.JS.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", name, err)
	}
	short := state.LastSeq < old.Last
	younger := false
	switch {
	case short || old.Last == 0:
	case state.LastSeq == old.Last && state.Msgs < old.Msgs:
		// Deleted by us, or lost: a server that found its index intact goes on after the sequences of what it lost.
		detail, err := st.Info(ctx, jetstream.WithDeletedDetails(true))
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", name, err)
		}
		short = again && detail.State.Lost != nil && detail.State.Lost.Bytes > 0
	case again:
		msg, err := st.GetMsg(ctx, old.Last)
		if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil, fmt.Errorf("stream %s: %w", name, err)
		}
		younger = err == nil && msg.Time.UnixNano() > old.At
	}
	if !short && !younger {
		return nil, nil
	}
	left, err := newestBefore(ctx, st, state.FirstSeq, min(state.LastSeq, old.Last), old.At)
	if err != nil {
		return nil, err
	}
	l := &shortened{name: name, from: 1, to: old.Last, at: time.Now()}
	what := "nothing of before is left"
	if left != nil {
		l.from, what = left.Sequence+1, "the newest that is left of before, "+fmt.Sprint(left.Sequence)+
			", is of "+left.Time.UTC().Format(time.DateTime)
	}
	l.from = min(max(l.from, state.FirstSeq), old.Last)
	l.why = fmt.Sprintf("%s, the newest that was there is of %s UTC; lost with it: %s", what, time.Unix(0, old.At).UTC().Format(time.DateTime),
		s.storeLost[name])
	return l, nil
}

// newestBefore finds the message with the largest sequence in [first, last] that was stored no later than at, nil when there is none.
func newestBefore(ctx context.Context, st jetstream.Stream, first, last uint64, at int64) (*jetstream.RawStreamMsg, error) {
	var found *jetstream.RawStreamMsg
	for lo, hi := max(first, 1), last; lo <= hi; {
		mid := lo + (hi-lo)/2
		msg, err := st.GetMsg(ctx, mid, jetstream.WithGetMsgSubject(">"))
		if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil, fmt.Errorf("stream %s, from %d on: %w", st.CachedInfo().Config.Name, mid, err)
		}
		if err != nil || msg.Sequence > hi || msg.Time.UnixNano() > at {
			hi = mid - 1
			continue
		}
		found, lo = msg, msg.Sequence+1
	}
	return found, nil
}

// watched are the streams whose ends are recorded, each with what it means that it lost its end. Leases live for seconds, quotas are
// written again soon, and a sighting of the sightings would not prove anything.
func watched(stores []store) map[string]string {
	names := map[string]string{}
	for _, st := range stores {
		if st.name != "KV_"+stream.LeasesBucket && st.name != "KV_"+stream.SeenBucket && st.name != "KV_"+stream.QuotasBucket {
			names[st.name] = strings.TrimSuffix(st.lost, ": run \"warpline audit\"")
		}
	}
	return names
}
