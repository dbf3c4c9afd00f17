package parca

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/parca"
	"github.com/warpline/warpline/proto/reject"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// maxBuildID bounds a build id: it is in the id of a session.
const maxBuildID = stream.MaxSessionBytes - len(parca.CubinPrefix)

// checkBuildID refuses what cannot be a build id.
func checkBuildID(id string) *ingest.Refusal {
	if id == "" || len(id) > maxBuildID || ingest.Printable(id, maxBuildID) != id {
		return refuse(http.StatusBadRequest, "bad_build_id", fmt.Sprintf("a build id is 1 to %d bytes of UTF-8 without control characters",
			maxBuildID))
	}
	return nil
}

// cubin is the upload of one cubin. It is stored under its build id, which the client names where the file is stripped: a build id is that
// of the whole file.
type cubin struct {
	buildID string // "" until the file is here
	from    io.ReaderAt
	size    int64
	record  stream.CubinRecord
	stored  bool // it was stored before
}

// cubinAnswer is the answer to a cubin by HTTP.
type cubinAnswer struct {
	Sessions  int      `json:"sessions"`
	Accepted  uint64   `json:"accepted"` // 1: a cubin is an event
	Rejected  uint64   `json:"rejected"`
	Duplicate bool     `json:"duplicate"`
	Errors    []string `json:"errors"`
	Session   string   `json:"session"`
	BuildID   string   `json:"build_id"`
	Whole     bool     `json:"whole"`
	SizeBytes int64    `json:"size_bytes"`
}

func newCubin(r *http.Request, _ tenant.Limits) (ingest.Intake, error) {
	q := r.URL.Query()
	for name := range q {
		if name != "build_id" {
			return nil, refuse(http.StatusBadRequest, "bad_option", strconv.Quote(ingest.Printable(name, 40))+" is no option: there is build_id")
		}
	}
	c := &cubin{buildID: q.Get("build_id")}
	if q.Has("build_id") {
		if no := checkBuildID(c.buildID); no != nil {
			return nil, no
		}
	}
	return c, nil
}

// Received implements ingest.Intake.
func (c *cubin) Received(u *ingest.Upload) error {
	if u.Total() > u.Size() {
		return cubinTooLarge(http.StatusRequestEntityTooLarge, u.Own())
	}
	return nil
}

func cubinTooLarge(status int, l tenant.Limits) *ingest.Refusal {
	return refuse(status, "cubin_too_large", fmt.Sprintf("the cubin is longer than limit-cubin = %d bytes; nothing was stored: ask the "+
		"operator for a higher limit", l.MaxCubinBytes))
}

// Survey implements ingest.Intake. What the file is recognised by is its content.
func (c *cubin) Survey(u *ingest.Upload) (ingest.Identity, error) {
	c.from, c.size = u.Reader(), u.Size()
	if u.Gzip() {
		var err error
		c.from, c.size, err = u.Spill(u.Open(), u.Own().MaxCubinBytes)
		var torn *ingest.TornError
		switch {
		case errors.As(err, &torn) && torn.Reason == reject.TornGzip:
			return ingest.Identity{}, refuse(http.StatusBadRequest, torn.Reason, torn.Detail+"; nothing was stored")
		case errors.As(err, &torn):
			return ingest.Identity{}, cubinTooLarge(http.StatusRequestEntityTooLarge, u.Own())
		case err != nil:
			return ingest.Identity{}, err
		}
	}
	var head [headBytes]byte
	n, _ := c.from.ReadAt(head[:], 0)
	if !isCubin(head[:n]) {
		return ingest.Identity{}, notACubin("the file")
	}
	whole, err := isWhole(c.from, c.size, head[:])
	if err != nil {
		return ingest.Identity{}, err
	}
	c.record.Whole = whole
	if c.buildID == "" && !whole {
		return ingest.Identity{}, refuse(http.StatusBadRequest, "bad_build_id",
			"the cubin is stripped, and a build id is that of the whole file: name it with ?build_id=, "+
				"or call the file <build id>.cubin for \"warpline send\"")
	}
	if c.buildID == "" {
		c.buildID, err = fileID(c.from, c.size)
		if err != nil {
			return ingest.Identity{}, err
		}
	}
	if _, detail := u.SetSession(parca.CubinPrefix + c.buildID); detail != "" {
		return ingest.Identity{}, refuse(http.StatusBadRequest, "bad_build_id", detail)
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(c.from, 0, c.size)); err != nil {
		return ingest.Identity{}, fmt.Errorf("read spooled body: %w", err)
	}
	c.record.Hash, c.record.SizeBytes = "sha256-"+ingest.SumOf(h).String(), uint64(c.size)
	c.record.KeptUntilDay = int32(dayOf(u.Received) + int64(u.Own().RollupDays))
	return ingest.Unrecorded(c.record.Hash), nil
}

// Conflict implements ingest.Intake. There is none: a cubin is known by its content.
func (c *cubin) Conflict(*ingest.Upload) *ingest.Refusal {
	return ingest.Unavailable("internal", "the gateway failed", nil)
}

// Publish implements ingest.Intake. Of one build id the first cubin is kept, or a whole one after a stripped one.
func (c *cubin) Publish(ctx context.Context, u *ingest.Upload, to *ingest.Publisher) error {
	to.Envelope.Kind = stream.KindCubin
	to.Tally.Whole = true
	kv := to.Streams().Cubins
	key := stream.CubinKey(u.Tenant, c.buildID)
	unlock, err := uploading.lock(ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	// An agent sends a cubin once, so it is taken also while nobody can say whether it is stored: if it is, the worker drops it.
	old, revision, err := look(ctx, kv, u.Tenant, c.buildID)
	if ctx.Err() != nil {
		return err
	}
	to.Tally.Accept(1, c.size)
	stored := revision > 0 && !old.Declined
	if stored && (old.Whole || !c.record.Whole) && suffices(&old, u.Own(), u.Received) {
		c.stored = true
		to.Known(1)
		return nil
	}
	e := to.Envelope
	e.Events, e.Bytes, e.Last = 1, uint64(c.size), true
	// What comes back after a deletion, or before its rows expire, is new.
	deleted, err := u.Deleted(ctx, u.Session)
	if err != nil {
		return err
	}
	if deleted > 0 {
		e.Identity += "~" + strconv.FormatUint(deleted, 10)
	}
	if stored && old.Hash == c.record.Hash {
		e.Identity += "/" + strconv.FormatInt(int64(c.record.KeptUntilDay), 10)
	}
	to.Envelope.Identity = e.Identity
	var body []byte
	if c.size <= stream.PartBytes {
		body = u.Buffer()[:c.size]
		if _, err := c.from.ReadAt(body, 0); err != nil && err != io.EOF {
			return fmt.Errorf("read spooled body: %w", err)
		}
	} else if e.Object, err = to.Object(ctx, 0, io.NewSectionReader(c.from, 0, c.size), c.size); err != nil {
		return err
	}
	if err := to.Send(ctx, &e, body); err != nil {
		return err
	}
	if err := to.Flush(ctx); err != nil {
		return err
	}
	c.register(ctx, kv, u.Tenant, key)
	return nil
}

// registerFor is how long an upload waits for the record of cubins: the keeper makes a bucket that is gone anew within seconds.
const registerFor = 8 * time.Second

// register says that the cubin is stored, unless a better one is. It is stored whether or not that can be recorded: without a record,
// agents are asked for it again.
func (c *cubin) register(ctx context.Context, kv jetstream.KeyValue, tenantName, key string) {
	ctx, cancel := context.WithTimeout(ctx, registerFor)
	defer cancel()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := c.writeRecord(ctx, kv, tenantName, key)
		if err == nil || broker.IsFull(err) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// writeRecord tries once to write the record.
func (c *cubin) writeRecord(ctx context.Context, kv jetstream.KeyValue, tenantName, key string) error {
	value := c.record.Append(nil)
	old, revision, err := look(ctx, kv, tenantName, c.buildID)
	if err != nil {
		return err
	}
	if revision > 0 && !old.Declined && old.Whole && !c.record.Whole && old.KeptUntilDay >= c.record.KeptUntilDay {
		return nil
	}
	if revision == 0 {
		_, err = kv.Create(ctx, key, value)
	} else {
		_, err = kv.Update(ctx, key, value, revision)
	}
	return err
}

// Answer implements ingest.Intake.
func (c *cubin) Answer(o ingest.Outcome) any {
	return &cubinAnswer{Sessions: 1, Accepted: o.Accepted, Rejected: o.Rejected, Duplicate: c.stored || o.Repeat, Errors: []string{},
		Session: parca.CubinPrefix + c.buildID, BuildID: c.buildID, Whole: c.record.Whole, SizeBytes: c.size}
}
