package ingest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warpline/warpline/proto/stream"
)

// routeUploads is the question what became of uploads: GET /api/v1/uploads/{receipt}.
const routeUploads = "/api/v1/uploads/{receipt}"

// States of a verdict.
const (
	verdictPending = "pending" // not all of it is folded yet
	verdictDone    = "done"
	verdictUnknown = "unknown" // it is folded, and what became of it is not known any more
)

// verdict is the answer. Counts are those of what is known so far.
type verdict struct {
	State      string            `json:"state"`
	Events     uint64            `json:"events"` // = stored + rejected + duplicates
	Stored     uint64            `json:"stored"`
	Rejected   uint64            `json:"rejected"`
	Duplicates uint64            `json:"duplicates"`
	Reasons    []stream.Rejected `json:"reasons"` // of rejected, the most first
	// Repeated are events of uploads that had been taken before, which the door knows, and RepeatedRejected those of them that the door
	// refused then; neither is in the counts above.
	Repeated         uint64 `json:"repeated"`
	RepeatedRejected uint64 `json:"repeated_rejected"`
	Parts            uint64 `json:"parts"`
	PartsFolded      uint64 `json:"parts_folded"`
	Detail           string `json:"detail,omitempty"` // for people, while the state is not done
}

// serveVerdict answers what became of the uploads that a receipt stands for.
func (g *Gateway) serveVerdict(ctx context.Context, w http.ResponseWriter, r *http.Request, x *exchange) *Refusal {
	m, no := g.enter(r, x)
	if no != nil {
		return no
	}
	defer g.leave(m)
	_, text, _ := strings.Cut(r.URL.Path, strings.TrimSuffix(routeUploads, "{receipt}"))
	key, _ := m.current()
	a, err := g.openReceipts(ctx, &key, text)
	if errors.Is(err, errReceipt) || err == nil && !strings.Contains(text, ".") {
		return &Refusal{Status: http.StatusNotFound, Code: "unknown_upload",
			Detail: "this key has no such upload: ask with the receipt that the answer to the upload has in its header " + headerUpload +
				", and with the key that sent it"}
	}
	if err != nil {
		return Unavailable("not_stored", "the gateway cannot read receipts just now", err)
	}
	m.chargeQuestion(time.Now(), len(a.ranges))
	w.Header().Set("Cache-Control", "no-store")
	x.answer = g.verdict(ctx, a)
	return nil
}

// partitionsPerRequest is how many partitions are asked for the price of one request.
const partitionsPerRequest = 8

// chargeQuestion takes what a question to many partitions costs beyond the request that brought it.
func (m *meter) chargeQuestion(now time.Time, partitions int) {
	m.chargeRequests(now, int64(max(partitions-1, 0)/partitionsPerRequest))
}

// verdict asks the owners of the partitions.
func (g *Gateway) verdict(ctx context.Context, a *asked) *verdict {
	v := &verdict{State: verdictDone, Repeated: a.repeated, RepeatedRejected: a.refused, Reasons: []stream.Rejected{}}
	silent, behind, forgotten := 0, 0, a.incomplete
	for p, word := range g.askOwners(ctx, a) {
		s := a.ranges[p]
		v.Parts += s.parts
		if word == nil {
			silent++
			continue
		}
		d := word.Verdict
		if d != nil {
			v.PartsFolded += min(d.Parts, s.parts)
			v.Events += d.Events
			v.Stored += d.Stored
			v.Duplicates += d.Duplicates
			for _, r := range d.Rejected {
				v.Rejected += r.Events
				v.Reasons = stream.AddRejected(v.Reasons, r.Reason, r.Events, maxVerdictReasons)
			}
		}
		switch {
		case word.Position < s.last:
			behind++
		case s.parts > 0 && (d == nil || d.Since > s.first || d.Parts < s.parts):
			forgotten = true
		}
	}
	slices.SortFunc(v.Reasons, func(a, b stream.Rejected) int {
		return cmp.Or(cmp.Compare(b.Events, a.Events), cmp.Compare(a.Reason, b.Reason))
	})
	switch {
	case silent > 0:
		v.State, v.Detail = verdictPending,
			"no worker answers for some of the partitions: what was accepted waits there, and is folded when one is back"
	case behind > 0:
		v.State, v.Detail = verdictPending, "not all of it is folded yet"
	case forgotten:
		v.State = verdictUnknown
		v.Detail = "it was accepted and is folded; how much of it was refused is not known any more: see the table rejects"
	}
	return v
}

// maxVerdictReasons is how many reasons are counted one by one over all partitions.
const maxVerdictReasons = 32

const (
	// ownerWait is how long an owner may take to answer.
	ownerWait = time.Second
	// ownersAtOnce is how many owners one question asks at the same time.
	ownersAtOnce = 8
)

// askOwners returns the answer of each partition's owner, nil where none came.
func (g *Gateway) askOwners(ctx context.Context, a *asked) map[int]*stream.VerdictAnswer {
	ctx, cancel := context.WithTimeout(ctx, 4*ownerWait)
	defer cancel()
	question, err := json.Marshal(stream.VerdictQuestion{Asked: a.id})
	out := make(map[int]*stream.VerdictAnswer, len(a.ranges))
	if err != nil {
		panic("BUG: ingest: encode a question: " + err.Error())
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	turns := make(chan struct{}, ownersAtOnce)
	for p := range a.ranges {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			word := g.askOwner(ctx, p, question)
			mu.Lock()
			out[p] = word
			mu.Unlock()
		})
	}
	wg.Wait()
	return out
}

func (g *Gateway) askOwner(ctx context.Context, p int, question []byte) *stream.VerdictAnswer {
	ctx, cancel := context.WithTimeout(ctx, ownerWait)
	defer cancel()
	msg, err := g.streams.Conn.RequestWithContext(ctx, stream.VerdictSubject(p), question)
	if err != nil {
		return nil
	}
	word := &stream.VerdictAnswer{}
	if json.Unmarshal(msg.Data, word) != nil {
		return nil
	}
	return word
}

// ends returns where each of the given partitions ends in INGEST.
func (g *Gateway) ends(ctx context.Context, partitions map[int]bool) map[int]uint64 {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.PublishTimeout)
	defer cancel()
	out := map[int]uint64{}
	for p := range partitions {
		if msg, err := g.streams.Ingest.GetLastMsgForSubject(ctx, stream.IngestFilter(p)); err == nil {
			out[p] = msg.Sequence
		}
	}
	return out
}
