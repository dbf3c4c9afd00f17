package sink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

// cleanStreams removes what NATS holds of the chunks' deletions and writes their records, which are in the same order. The worker drops
// later messages of what was deleted; they leave INGEST like all folded parts.
func (k *Sink) cleanStreams(ctx context.Context, chunks []*stream.Chunk, records []stream.DeletionRecord) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute+time.Duration(len(records))*100*time.Millisecond)
	defer cancel()
	names, err := k.s.JS.Stream(ctx, "KV_"+stream.DictionariesBucket)
	if err != nil {
		return fmt.Errorf("dictionaries: %w", err)
	}
	uploads, err := k.s.JS.Stream(ctx, "KV_"+stream.WindowsBucket)
	if err != nil {
		return fmt.Errorf("windows: %w", err)
	}
	objects, err := k.s.Parts.List(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		return fmt.Errorf("list objects: %w", err)
	}
	var first errgroup.Group
	first.SetLimit(atOnce)
	var later []func() error // of a tenant, and what is of the same session again: one after the other
	seen := map[string]bool{}
	i := 0
	for _, c := range chunks {
		for _, d := range c.Deletes {
			r := &records[i]
			i++
			clean := func() error { return k.cleanOf(ctx, c, d, r, names, uploads, objects) }
			if key := d.Tenant + "." + d.Token(); d.Session == "" || seen[key] {
				later = append(later, clean)
			} else {
				seen[key] = true
				first.Go(clean)
			}
		}
	}
	if err := first.Wait(); err != nil {
		return err
	}
	for _, clean := range later {
		if err := clean(); err != nil {
			return err
		}
	}
	return nil
}

// cleanOf does it for one deletion.
func (k *Sink) cleanOf(ctx context.Context, c *stream.Chunk, d stream.Deletion, r *stream.DeletionRecord, names, uploads jetstream.Stream,
	objects []*jetstream.ObjectInfo) error {
	r.Keys, r.Messages, r.Objects = 0, 0, 0 // of an earlier try
	// For a session everything goes, for a tenant what was there before the request: sessions that began since have keys too.
	upToNames, upToUploads := everything, everything
	if d.Session == "" {
		upToNames, upToUploads = d.Dictionaries, d.Windows
	}
	n, err := purge(ctx, names, d.Subjects("$KV."+stream.DictionariesBucket, ".*"), upToNames)
	r.Keys += n
	if err != nil {
		return err
	}
	// The mark comes first, so that what is sent again when its record is gone finds it. It is the one key with a single token.
	if err := k.markUploads(ctx, &d, c.Position); err != nil {
		return err
	}
	n, err = purge(ctx, uploads, d.Subjects("$KV."+stream.WindowsBucket, ".*.>"), upToUploads)
	r.Keys += n
	if err != nil {
		return err
	}
	n, err = k.cleanCubins(ctx, &d) // after the mark, which makes what comes again new
	r.Keys += n
	if err != nil {
		return err
	}
	if d.Session == "" { // before INGEST is purged: its parts say whose the keys are
		n, err = k.cleanNames(ctx, names, c, &d)
		r.Keys += n
		if err != nil {
			return err
		}
	}
	n, err = purge(ctx, k.s.Ingest, d.Subjects("ingest."+strconv.Itoa(c.Partition), ""), c.Position)
	r.Messages += n
	if err != nil {
		return err
	}
	// What gateways said names sessions and windows. The worker has compared it, and nobody needs it any more.
	if _, err := purge(ctx, k.s.Ingest, stream.DoorFilter(c.Partition), c.Position); err != nil {
		return err
	}
	r.Objects, err = k.cleanObjects(ctx, &d, objects)
	if err != nil {
		return err
	}
	r.DoneAt = time.Now().UnixNano()
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode a deletion record: %w", err)
	}
	_, err = k.s.Deletions.Put(ctx, stream.DeletionRecordKey(d.ID, c.Partition), body)
	if err != nil && !broker.IsFull(err) { // a full bucket must not hold the lane
		return fmt.Errorf("write a deletion record: %w", err)
	}
	return nil
}

const everything = ^uint64(0)

// purge removes the messages of a subject up to a sequence and returns how many there were.
func purge(ctx context.Context, s jetstream.Stream, subject string, upTo uint64) (n uint64, err error) {
	count := func() (n uint64, err error) {
		info, err := s.Info(ctx, jetstream.WithSubjectFilter(subject))
		if err != nil {
			return 0, fmt.Errorf("look for %s: %w", subject, err)
		}
		for _, have := range info.State.Subjects {
			n += have
		}
		return n, nil
	}
	before, err := count()
	if err != nil || before == 0 {
		return 0, err
	}
	opts := []jetstream.StreamPurgeOpt{jetstream.WithPurgeSubject(subject)}
	if upTo != everything {
		opts = append(opts, jetstream.WithPurgeSequence(upTo+1)) // the message at that sequence stays
	}
	if err := s.Purge(ctx, opts...); err != nil {
		return 0, fmt.Errorf("purge %s: %w", subject, err)
	}
	after, err := count()
	return before - min(before, after), err
}

// cleanNames removes those dictionary entries of a tenant that are younger than the request and belong to this chunk's partition. Their key
// ends in the sequence of their part in INGEST, whose subject names the partition. If that part is gone, the entries stay: they may be of a
// session that began since, and they expire within a week.
func (k *Sink) cleanNames(ctx context.Context, names jetstream.Stream, c *stream.Chunk, d *stream.Deletion) (n uint64, err error) {
	young, err := k.s.ScanKeys(ctx, k.s.Dictionaries, d.Tenant+".>")
	if err != nil {
		return 0, fmt.Errorf("list dictionary keys: %w", err)
	}
	here := fmt.Sprintf("ingest.%d.", c.Partition)
	for _, key := range young {
		text, _, _ := strings.Cut(key[strings.LastIndexByte(key, '.')+1:], "-")
		seq, err := strconv.ParseUint(text, 10, 64)
		if err != nil || seq > c.Position {
			continue
		}
		part, err := k.s.Ingest.GetMsg(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return n, fmt.Errorf("part %d of dictionary entries: %w", seq, err)
		}
		if !strings.HasPrefix(part.Subject, here) {
			continue
		}
		if err := names.Purge(ctx, jetstream.WithPurgeSubject("$KV."+stream.DictionariesBucket+"."+key)); err != nil {
			return n, fmt.Errorf("purge dictionary entries: %w", err)
		}
		n++
	}
	return n, nil
}

// cleanCubins forgets that cubins are stored, so that agents are asked for theirs again. Of a tenant it forgets all, those too that came
// after the request and that stay: to have one again does no harm.
func (k *Sink) cleanCubins(ctx context.Context, d *stream.Deletion) (n uint64, err error) {
	keys := stream.CubinFilter(d.Tenant)
	if d.Session != "" {
		buildID, ok := strings.CutPrefix(d.Session, stream.CubinSession)
		if !ok {
			return 0, nil
		}
		keys = stream.CubinKey(d.Tenant, buildID)
	}
	list, err := k.s.ScanKeys(ctx, k.s.Cubins, keys)
	if err != nil {
		return 0, fmt.Errorf("list cubins: %w", err)
	}
	for _, key := range list {
		if err := k.s.Cubins.Purge(ctx, key); err != nil { // unlike a purge of the stream, gateways are told of it
			return n, fmt.Errorf("forget a cubin: %w", err)
		}
		n++
	}
	return n, nil
}

// cleanObjects removes giant lines that were not folded, or to which a reject refers. For a tenant it removes those that are older than the
// tombstone.
func (k *Sink) cleanObjects(ctx context.Context, d *stream.Deletion, list []*jetstream.ObjectInfo) (n uint64, err error) {
	token := ""
	if d.Session != "" {
		token = d.Token()
	}
	prefix := stream.ObjectPrefix(d.Tenant, token)
	for _, o := range list {
		if !strings.HasPrefix(o.Name, prefix) || d.Session == "" && o.ModTime.UnixNano() > d.At {
			continue
		}
		if err := k.s.Parts.Delete(ctx, o.Name); err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
			return n, fmt.Errorf("delete an object: %w", err)
		}
		n++
	}
	return n, nil
}
