package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

// maxLookBack is how many of the newest uploads are looked for in INGEST after it was away.
const maxLookBack = 4096

// lookBackAll looks whether INGEST has lost what was accepted last: at the start, and whenever NATS was away. The other watch on INGEST's
// end (broker.Streams.Keep) looks once a second; the record has each upload.
func (u *uploads) lookBackAll(ctx context.Context) {
	again := u.conn.StatusChanged(nats.CONNECTED)
	defer u.conn.RemoveStatusListener(again)
	for {
		for wait := time.Second; ; wait = min(2*wait, time.Minute) {
			err := u.lookBack(ctx)
			if err == nil {
				break
			}
			if ok, _ := u.quiet.say("look_back", time.Now()); ok && ctx.Err() == nil {
				u.log.Warn("cannot look whether INGEST still has what was accepted last, trying again", "err", err)
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
		}
	}
}

// lookedKey is a key in stream.SeenBucket. Its value is when the newest upload that was reported as lost had been accepted, in seconds
// since the epoch.
const lookedKey = "uploads"

// lookBack reports which of the newest uploads INGEST has lost.
func (u *uploads) lookBack(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	told := int64(0)
	if e, err := u.streams.Seen.Get(ctx, lookedKey); err == nil {
		told, _ = strconv.ParseInt(string(e.Value()), 10, 64) // garbage counts as 0
	} else if !errors.Is(err, jetstream.ErrKeyNotFound) {
		return err
	}
	var newest []candidate
	trim := func(most int) {
		if len(newest) > most {
			slices.SortFunc(newest, func(a, b candidate) int { return cmp.Compare(b.at, a.at) })
			newest = newest[:maxLookBack]
		}
	}
	err := eachClaim(ctx, u.streams, func(e broker.Entry) error {
		if c := claimed(e); c.last > 0 && c.at > told {
			newest = append(newest, c)
			trim(8 * maxLookBack)
		}
		return nil
	})
	if err != nil {
		return err
	}
	trim(maxLookBack)
	info, err := u.streams.Ingest.Info(ctx)
	if err != nil {
		return err
	}
	var first, last, n uint64
	var at int64
	tenants := map[string]bool{}
	for i := range newest {
		c := &newest[i]
		if c.last <= info.State.LastSeq {
			if has, err := stored(ctx, u.streams.Ingest, c); err != nil {
				return err
			} else if has != replaced {
				continue
			}
		}
		if n++; n == 1 {
			first = c.last
		}
		first, last, at = min(first, c.last), max(last, c.last), max(at, c.at)
		tenants[c.tenant] = true
	}
	if n == 0 {
		return nil
	}
	if _, err := u.streams.Seen.Put(ctx, lookedKey, strconv.AppendInt(nil, at, 10)); err != nil {
		return err
	}
	names := strings.Join(slices.Sorted(maps.Keys(tenants)), ", ")
	u.streams.LostEnd(ctx, stream.IngestStream, first, last,
		fmt.Sprintf("%d accepted uploads are not where they were stored, the last of %s UTC, of tenants %.100s; what was not folded by "+
			"then has to be sent again",
			n, time.Unix(at, 0).UTC().Format(time.DateTime), names))
	return nil
}
