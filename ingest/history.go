package ingest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/stream"
)

// doubtedFor is how long INGEST is asked whether it still has what was accepted. What is older has been folded and is in ClickHouse.
const doubtedFor = 24 * time.Hour

// maxVerified bounds how many answers of INGEST are remembered.
const maxVerified = 4096

// history finds out whether INGEST still has, or has had for as long as it must, the parts of an upload that is recorded as done. A power
// cut can take the tail of INGEST and leave the record; then an upload that comes again must not be answered as a repeat. It is safe for
// concurrent use.
type history struct {
	mu       sync.Mutex
	created  time.Time
	last     uint64
	verified map[uploadID]uint64 // to the sequence that was asked for
}

// saw takes note of INGEST's state. When it lost something, nothing is verified any more.
func (h *history) saw(info *jetstream.StreamInfo) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !info.Created.Equal(h.created) || info.State.LastSeq < h.last {
		h.verified = nil
	}
	h.created, h.last = info.Created, info.State.LastSeq
}

func (h *history) knows(id uploadID, seq uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	have, ok := h.verified[id]
	return ok && have == seq
}

func (h *history) know(id uploadID, seq uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.verified) >= maxVerified {
		h.verified = nil
	}
	if h.verified == nil {
		h.verified = map[uploadID]uint64{}
	}
	h.verified[id] = seq
}

// has reports whether the parts of a done upload, named by its key and the identity of its parts, are in INGEST or were there and have been
// folded. The last part speaks for all: a stream loses its end. Of others that are lost workers find out (uploads.reopen). reached is up to
// where the upload's partition is in ClickHouse, 0 when that is not known.
func (h *history) has(ctx context.Context, js jetstream.JetStream, key, identity string, w *window, reached uint64) (bool, error) {
	if w.last == 0 || w.at > 0 && time.Since(time.Unix(w.at, 0)) > doubtedFor {
		return true, nil
	}
	id := uploadIDOf(key)
	s, err := js.Stream(ctx, stream.IngestStream)
	if err != nil {
		return false, fmt.Errorf("ask for an accepted part: %w", err)
	}
	info := s.CachedInfo()
	h.saw(info)
	switch {
	case h.knows(id, w.last):
		return true, nil
	case time.Unix(w.at, 0).Before(info.Created): // made anew since; at is rounded up
		return false, nil
	case w.last > info.State.LastSeq:
		return false, nil
	case w.last < info.State.FirstSeq && reached > 0 && reached < w.last:
		return false, nil // purged by hand, it seems: workers drop what they have folded
	case w.last >= info.State.FirstSeq:
		msg, err := s.GetMsg(ctx, w.last)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			info, err = s.Info(ctx)
			if err != nil {
				return false, fmt.Errorf("ask for an accepted part: %w", err)
			}
			if w.last >= info.State.FirstSeq {
				return false, nil // a hole: workers drop what they have folded
			}
			break
		}
		if err != nil {
			return false, fmt.Errorf("ask for an accepted part: %w", err)
		}
		if e, _, err := stream.ParseEnvelope(msg.Data); err != nil || e.Identity != identity {
			return false, nil
		}
	}
	h.know(id, w.last)
	return true, nil
}
