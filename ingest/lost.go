package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

// LostUploads are uploads of a tenant that were accepted and that INGEST has lost. What a worker had folded by then is in the tables.
type LostUploads struct {
	Tenant       string
	Uploads      uint64
	Events       uint64    // that were accepted with them
	First, Last  uint64    // sequences of their last parts
	Since, Until time.Time // when they were accepted, to a second
}

// String says it in one line.
func (l LostUploads) String() string {
	return fmt.Sprintf("INGEST lost %d uploads of tenant %s with %d events, at %d to %d, accepted from %s to %s: what was folded by then "+
		"is in the "+
		"tables, the rest is gone; have the senders of that time send again: what is there already is recognised",
		l.Uploads, l.Tenant, l.Events, l.First, l.Last, l.Since.UTC().Format(time.DateTime), l.Until.UTC().Format(time.DateTime))
}

// AuditUploads compares the record of accepted uploads with INGEST: it returns those that INGEST does not have and never gave up, by
// tenant. found are the findings of the roles, which say from where on INGEST was found to have lost its end. An upload that was sent again
// since is not lost. It reads only those pages of the record that may name such uploads.
func AuditUploads(ctx context.Context, s *broker.Streams, found []broker.Finding) ([]LostUploads, error) {
	var gaps []broker.Place
	for _, f := range found {
		if f.Kind == broker.FindingShortened && f.Stream == stream.IngestStream {
			gaps = append(gaps, f.Places...)
		}
	}
	a := &uploadAudit{streams: s, kv: s.Windows, ingest: s.Ingest, gaps: gaps}
	if err := a.read(ctx); err != nil {
		return nil, fmt.Errorf("read the record of accepted uploads: %w", err)
	}
	info, err := s.Ingest.Info(ctx) // after the record: what is in it was in INGEST before
	if err != nil {
		return nil, fmt.Errorf("state of INGEST: %w", err)
	}
	return a.lost(ctx, info.State.LastSeq)
}

// LostPart is an upload of which INGEST lost parts before they were folded, and which nobody has sent again yet.
type LostPart struct {
	Tenant string
	stream.LostUpload
}

// String says it in one line.
func (l LostPart) String() string {
	what := l.Source + " upload"
	if l.Window != "" {
		what = fmt.Sprintf("window %q", l.Window)
	}
	if l.Session != "" {
		what += fmt.Sprintf(" of session %q", l.Session)
	}
	return fmt.Sprintf("INGEST lost %d parts of the %s of tenant %s, with %d events, before they were folded (found %s): have it sent "+
		"again, or send its file with warpline send: what is lost of it is taken, once", len(l.Parts), what, l.Tenant, l.Events,
		time.Unix(0, l.At).UTC().Format(time.DateTime))
}

// AcceptParts keeps AuditParts from naming uploads that a person has read of, so that the audit is content though nobody has them any more.
func AcceptParts(ctx context.Context, s *broker.Streams) error {
	return s.Scan(ctx, s.Windows, stream.LostUploadKeys, func(e broker.Entry) error {
		l, err := stream.ParseLostUpload(e.Value)
		if err != nil || l.Accepted {
			return err
		}
		l.Accepted = true
		body, err := l.Encode()
		if err == nil {
			_, err = s.Windows.Update(ctx, e.Key, body, e.Revision)
		}
		if err != nil && !broker.IsWrongSequence(err) { // else it was sent again, or more of it is lost
			return fmt.Errorf("accept a lost upload: %w", err)
		}
		return nil
	})
}

// AuditParts returns the uploads of which INGEST lost parts before they were folded, as workers found, and which were neither sent again
// nor accepted since.
func AuditParts(ctx context.Context, s *broker.Streams) (out []LostPart, err error) {
	err = s.Scan(ctx, s.Windows, stream.LostUploadKeys, func(e broker.Entry) error {
		l, err := stream.ParseLostUpload(e.Value)
		if err != nil {
			return err
		}
		if tenant, _, _ := strings.Cut(e.Key, "."); !l.Accepted {
			out = append(out, LostPart{Tenant: tenant, LostUpload: l})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the record of accepted uploads: %w", err)
	}
	slices.SortStableFunc(out, func(a, b LostPart) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Session, b.Session), cmp.Compare(a.Window, b.Window))
	})
	return out, nil
}

// candidate is the newest record of an upload.
type candidate struct {
	settled
	tenant string
}

type uploadAudit struct {
	streams *broker.Streams
	kv      jetstream.KeyValue
	ingest  jetstream.Stream
	gaps    []broker.Place
	newest  map[uploadID]candidate
}

// maxCandidates bounds the memory of an audit: some 100 MB. Further uploads are not looked at.
const maxCandidates = 1 << 20

// suspect reports whether an upload may be lost: it stood where INGEST lost messages, or after the end that is known (0: not yet).
func (a *uploadAudit) suspect(e *settled, end uint64) bool {
	if e.last == 0 {
		return false
	}
	return e.last > end || slices.ContainsFunc(a.gaps, func(g broker.Place) bool { return e.last >= g.First && e.at <= g.At.Unix()+1 })
}

func (a *uploadAudit) add(tenant string, e settled) {
	old, known := a.newest[e.id]
	if known && old.at >= e.at || !known && len(a.newest) >= maxCandidates {
		return
	}
	a.newest[e.id] = candidate{settled: e, tenant: tenant}
}

// read collects what may be lost, and what was sent again since: every claim, and the blocks that reach into a gap or beyond.
func (a *uploadAudit) read(ctx context.Context) error {
	a.newest = map[uploadID]candidate{}
	info, err := a.ingest.Info(ctx)
	if err != nil {
		return err
	}
	end := info.State.LastSeq
	from := end + 1 // sequences below are of no interest
	for _, g := range a.gaps {
		from = min(from, g.First)
	}
	claims := func(e broker.Entry) error {
		if c := claimed(e); c.last >= from {
			a.add(c.tenant, c.settled)
		}
		return nil
	}
	if err := eachClaim(ctx, a.streams, claims); err != nil {
		return err
	}
	blocks := map[string]*block{}
	index := func(e broker.Entry) error {
		tenant, rest, _ := strings.Cut(e.Key, ".")
		if b, err := parseIndex(strings.TrimPrefix(rest, "f."), e.Value); err == nil {
			b.bloom = nil
			blocks[tenant+"/"+b.name] = b
		}
		return nil
	}
	if err := a.streams.Scan(ctx, a.kv, "*.f.*", index); err != nil {
		return err
	}
	for at, b := range blocks {
		tenant, _, _ := strings.Cut(at, "/")
		for page := range pagesOf(b.count) {
			last, err := a.page(ctx, tenant, pageKey(tenant, b.name, page), from)
			if err != nil {
				return err
			}
			if last < from {
				break // pages are cut by hash: one speaks for the block
			}
		}
	}
	return nil
}

// page collects from a page what stood at a sequence or after it, and returns the largest sequence in it.
func (a *uploadAudit) page(ctx context.Context, tenant, key string, from uint64) (last uint64, err error) {
	e, err := a.kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return from, nil // expired, forgotten or lost
	}
	if err != nil {
		return 0, err
	}
	r, err := readPage(e.Value())
	for more := true; err == nil; {
		var u settled
		u, more, err = r.next()
		if !more {
			break
		}
		last = max(last, u.last)
		if u.last >= from {
			a.add(tenant, u)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("page %s: %w", key, err)
	}
	return last, nil
}

// presence says what is at the place in INGEST where an upload was stored.
type presence int

const (
	there    presence = iota
	nothing           // it was lost, or folded and deleted
	replaced          // another upload: INGEST lost the first one
)

// stored looks where an upload was stored.
func stored(ctx context.Context, ingest jetstream.Stream, c *candidate) (presence, error) {
	msg, err := ingest.GetMsg(ctx, c.last)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nothing, nil
	}
	if err != nil {
		return there, fmt.Errorf("INGEST message %d: %w", c.last, err)
	}
	e, _, err := stream.ParseEnvelope(msg.Data)
	if err != nil || uploadIDOf(keyOf(&e)) == c.id {
		return there, nil // what cannot be read proves nothing
	}
	return replaced, nil
}

// keyOf is the key under which a part's upload is recorded.
func keyOf(e *stream.Envelope) string {
	kind, rest, named := strings.Cut(e.Identity, "/")
	generation, name, numbered := strings.Cut(rest, "/")
	switch {
	case named && numbered && !isNumber(generation): // <source>/<kind>/<id>, see BySource
		return e.Tenant + ".t." + generation + "." + name
	case named && numbered:
		return windowKey(e.Tenant, e.Session, kind, name)
	}
	_, sum, _ := strings.Cut(e.Identity, "-")
	sum, _, _ = strings.Cut(sum, "~")
	return sessionPrefix(e.Tenant, e.Session) + "u." + sum
}

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 64)
	return err == nil
}

// claimKeys are where single uploads are recorded.
var claimKeys = []string{"*.*.v.*", "*.*.u.*", "*.t.*.*"}

// claimed reads a single upload that is done; its last is 0 when it is half-way, or was recorded by an older build, without sequences.
func claimed(e broker.Entry) (c candidate) {
	rec, err := parseRecord(e.Value)
	if err != nil || len(rec.windows) != 1 || rec.windows[0].state != windowDone {
		return c
	}
	w := &rec.windows[0]
	c.tenant, _, _ = strings.Cut(e.Key, ".")
	c.settled = settled{id: uploadIDOf(e.Key), accepted: w.accepted, last: w.last, at: w.at}
	return c
}

// lost judges the candidates and adds them up.
func (a *uploadAudit) lost(ctx context.Context, end uint64) ([]LostUploads, error) {
	sums := map[string]*LostUploads{}
	for _, c := range a.newest {
		if !a.suspect(&c.settled, end) {
			continue
		}
		if c.last <= end {
			has, err := stored(ctx, a.ingest, &c)
			if err != nil {
				return nil, err
			}
			if has == there {
				continue // taken after the loss and before it was found
			}
		}
		l := sums[c.tenant]
		if l == nil {
			l = &LostUploads{Tenant: c.tenant, First: c.last, Since: time.Unix(c.at, 0), Until: time.Unix(c.at, 0)}
			sums[c.tenant] = l
		}
		l.Uploads++
		l.Events += c.accepted
		l.First, l.Last = min(l.First, c.last), max(l.Last, c.last)
		if at := time.Unix(c.at, 0); at.Before(l.Since) {
			l.Since = at
		} else if at.After(l.Until) {
			l.Until = at
		}
	}
	out := make([]LostUploads, 0, len(sums))
	for _, l := range sums {
		out = append(out, *l)
	}
	slices.SortFunc(out, func(a, b LostUploads) int { return strings.Compare(a.Tenant, b.Tenant) })
	return out, nil
}

// lostToken is what stands in the key of a lost upload in place of its session: what does where it is recorded, or that it has several.
func lostToken(key string) string {
	_, rest, _ := strings.Cut(key, ".")
	token, _, _ := strings.Cut(rest, ".")
	if token == "t" {
		return stream.ManySessionsToken
	}
	return token
}

// reopen makes a claim of one that was found done when workers have found that INGEST lost parts of it before they were folded. Then only
// these are published: the others are not counted again, however long ago they were folded.
func (u *uploads) reopen(ctx context.Context, c *claim, want window) error {
	if !u.someLost.Load() || c.window.last == 0 {
		return nil
	}
	token := lostToken(c.key)
	e, err := u.kv.Get(ctx, stream.LostUploadKey(c.tenant, token, c.window.last))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("upload record: %w", err)
	}
	l, err := stream.ParseLostUpload(e.Value())
	if err != nil {
		return err
	}
	limits := c.window.limits // under which it was cut
	c.again(want)
	c.window.limits, c.found = limits, e.Revision()
	if token != stream.ManySessionsToken { // of others, more partitions may have more to say
		slices.Sort(l.Parts)
		c.only = append([]int{}, l.Parts...)
	}
	return nil
}

// mended forgets that parts of an upload were lost, once they are in INGEST again.
func (u *uploads) mended(ctx context.Context, c *claim) error {
	s, err := u.js.Stream(ctx, "KV_"+stream.WindowsBucket)
	if err != nil {
		return err
	}
	key := stream.LostUploadKey(c.tenant, lostToken(c.key), c.window.last)
	return s.Purge(ctx, jetstream.WithPurgeSubject("$KV."+stream.WindowsBucket+"."+key), jetstream.WithPurgeSequence(c.found+1))
}
