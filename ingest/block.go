package ingest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/varint"
)

// Settled uploads are sealed into blocks: some thousands of one tenant, sorted by hash and cut into pages by the beginning of the hash, so
// that looking one up reads one page. Beside its pages a block has an index: a Bloom filter that gateways hold in memory. For nearly every
// new upload it says that the upload is not in the block. A block is written once and never again.

// uploadID is what a settled upload is known by: the first 96 bits of the SHA-256 of its key in the bucket. If a tenant has 30 million
// uploads, the odds that a new one is taken for an old one are 1 in 10^21 for each upload; a window's body is compared too.
type uploadID [12]byte

func uploadIDOf(key string) uploadID {
	sum := sha256.Sum256([]byte(key))
	return uploadID(sum[:12])
}

// bodyCheck is what is kept of the hash of a window's body, to tell a repeat from a conflict. It is zero where the key stands for the
// bytes.
type bodyCheck [6]byte

// settled is one upload in a page.
type settled struct {
	id         uploadID
	body       bodyCheck
	whole      bool
	generation uint64
	accepted   uint64
	rejected   uint64
	last       uint64
	at         int64
}

const (
	blockVersion = 1
	pageEntries  = 512 // of a page: about 12 KiB
	bloomBits    = 12  // an upload; with 6 probes in one cache line some 6 of 1000 unknown uploads cost a look at a page
	bloomLine    = 64
)

var errBlock = errors.New("not a block of uploads of version 1 (was it written by a newer warpline?)")

// pagesOf is how many pages a block of n uploads has.
func pagesOf(n int) int { return (n + pageEntries - 1) / pageEntries }

// pageOf is the page, of n, that an upload is in.
func pageOf(id uploadID, n int) int {
	return int(uint64(binary.BigEndian.Uint32(id[:])) * uint64(n) >> 32)
}

// Flags of an entry in a page.
const (
	entryWhole = 1 << iota
	entryBody
	entryRejected
	entryGeneration
)

// appendPage encodes the uploads of a page.
func appendPage(dst []byte, entries []settled) []byte {
	base, since := uint64(0), int64(0)
	for i := range entries {
		e := &entries[i]
		if e.last > 0 && (base == 0 || e.last < base) {
			base = e.last
		}
		if i == 0 || e.at < since {
			since = e.at
		}
	}
	dst = append(dst, blockVersion)
	dst = binary.AppendUvarint(dst, uint64(len(entries)))
	dst = binary.AppendUvarint(dst, base)
	dst = binary.AppendUvarint(dst, uint64(since))
	for i := range entries {
		e := &entries[i]
		dst = append(dst, e.id[:]...)
		flags := byte(0)
		if e.whole {
			flags |= entryWhole
		}
		if e.body != (bodyCheck{}) {
			flags |= entryBody
		}
		if e.rejected > 0 {
			flags |= entryRejected
		}
		if e.generation > 0 {
			flags |= entryGeneration
		}
		dst = append(dst, flags)
		if flags&entryBody != 0 {
			dst = append(dst, e.body[:]...)
		}
		dst = binary.AppendUvarint(dst, e.accepted)
		if flags&entryRejected != 0 {
			dst = binary.AppendUvarint(dst, e.rejected)
		}
		if flags&entryGeneration != 0 {
			dst = binary.AppendUvarint(dst, e.generation)
		}
		last := uint64(0) // not known
		if e.last > 0 {
			last = e.last - base + 1
		}
		dst = binary.AppendUvarint(dst, last)
		dst = binary.AppendUvarint(dst, uint64(e.at-since))
	}
	return dst
}

// pageReader reads the uploads of a page one after the other. It allocates nothing.
type pageReader struct {
	d     varint.Reader
	left  int
	base  uint64
	since int64
}

func readPage(page []byte) (r pageReader, err error) {
	if len(page) == 0 || page[0] != blockVersion {
		return r, errBlock
	}
	r.d = varint.Reader{Rest: page[1:]}
	r.left = r.d.Count(len(uploadID{}) + 4)
	r.base, r.since = r.d.Uint(), r.d.Size()
	return r, nil
}

// next returns the next upload; more is false after the last one, and at an error.
func (r *pageReader) next() (e settled, more bool, err error) {
	if r.left == 0 {
		return e, false, nil
	}
	r.left--
	have := r.d.Take(len(e.id) + 1)
	if r.d.Bad {
		return e, false, errBlock
	}
	e.id = uploadID(have[:len(e.id)])
	flags := have[len(e.id)]
	e.whole = flags&entryWhole != 0
	if flags&entryBody != 0 {
		copy(e.body[:], r.d.Take(len(e.body)))
	}
	e.accepted = r.d.Uint()
	if flags&entryRejected != 0 {
		e.rejected = r.d.Uint()
	}
	if flags&entryGeneration != 0 {
		e.generation = r.d.Uint()
	}
	if last := r.d.Uint(); last > 0 {
		e.last = r.base + last - 1
	}
	e.at = r.since + r.d.Size()
	if r.d.Bad {
		return e, false, errBlock
	}
	return e, true, nil
}

// findInPage looks for an upload in a page. It allocates nothing.
func findInPage(page []byte, id uploadID) (settled, bool, error) {
	r, err := readPage(page)
	if err != nil {
		return settled{}, false, err
	}
	for {
		e, more, err := r.next()
		if err != nil || !more {
			return settled{}, false, err
		}
		if e.id == id {
			return e, true, nil
		}
	}
}

// block is the index of a block, as a gateway holds it.
type block struct {
	name         string // of the block among its tenant's; names sort by age
	count        int    // of the uploads
	bytes        int64  // of pages and index at rest, about
	since, until int64  // when the first and the last of them were settled
	bloom        []byte
}

// newBlock makes the index of sorted entries, of which there is at least one.
func newBlock(name string, entries []settled, bytes int64) *block {
	b := &block{name: name, count: len(entries), bytes: bytes, since: entries[0].at, until: entries[0].at}
	b.bloom = make([]byte, bloomLine*((len(entries)*bloomBits+8*bloomLine-1)/(8*bloomLine)))
	for i := range entries {
		e := &entries[i]
		b.since, b.until = min(b.since, e.at), max(b.until, e.at)
		line, probes := b.line(e.id)
		for range 6 {
			line[probes>>3&(bloomLine-1)] |= 1 << (probes & 7)
			probes >>= 9
		}
	}
	return b
}

// line is the cache line of the filter that an upload is in, and six times nine bits that say where. Neither uses the bits by which the
// page is found.
func (b *block) line(id uploadID) ([]byte, uint64) {
	n := len(b.bloom) / bloomLine
	at := int(binary.BigEndian.Uint32(id[8:])%uint32(n)) * bloomLine
	return b.bloom[at : at+bloomLine], binary.LittleEndian.Uint64(id[2:])
}

// may reports whether the upload can be in the block. It is wrong now and then when it says yes, and never when it says no.
func (b *block) may(id uploadID) bool {
	line, probes := b.line(id)
	for range 6 {
		if line[probes>>3&(bloomLine-1)]&(1<<(probes&7)) == 0 {
			return false
		}
		probes >>= 9
	}
	return true
}

// appendIndex encodes b without its name, which is in the key.
func (b *block) appendIndex(dst []byte) []byte {
	dst = append(dst, blockVersion)
	for _, n := range [...]uint64{uint64(b.count), uint64(b.bytes), uint64(b.since), uint64(b.until)} {
		dst = binary.AppendUvarint(dst, n)
	}
	return append(dst, b.bloom...)
}

func parseIndex(name string, src []byte) (*block, error) {
	if len(src) == 0 || src[0] != blockVersion {
		return nil, errBlock
	}
	d := varint.Reader{Rest: src[1:]}
	b := &block{name: name, count: int(d.Size()), bytes: d.Size(), since: d.Size(), until: d.Size()}
	if d.Bad || b.count <= 0 || len(d.Rest) == 0 || len(d.Rest)%bloomLine != 0 || b.count > 8*len(d.Rest) {
		return nil, errBlock
	}
	b.bloom = bytes.Clone(d.Rest)
	return b, nil
}

// sortEntries sorts by id. If an id is there twice, the later entry stays: a conflict was accepted in between.
func sortEntries(entries []settled) []settled {
	slices.SortStableFunc(entries, func(a, b settled) int { return bytes.Compare(a.id[:], b.id[:]) })
	out := entries[:0]
	for i := range entries {
		if i+1 < len(entries) && entries[i+1].id == entries[i].id {
			continue
		}
		out = append(out, entries[i])
	}
	return out
}

// blockName is a name that no other block of the tenant has and that sorts by time.
func blockName(now time.Time) string {
	return fmt.Sprintf("%012x-%08x", now.UnixMilli(), rand.Uint32())
}

// pageKey and indexKey are under which keys the pages and the index of a block are stored.
func pageKey(tenant, block string, page int) string {
	return tenant + ".p." + block + "." + strconv.Itoa(page)
}

func indexKey(tenant, block string) string { return tenant + ".f." + block }

// watchStalls is how long a watch may tell nothing while it reads what is there.
const watchStalls = 5 * time.Second

// watchAll holds the watch of the indexes. It is begun anew on every reconnect, and after a while in silence: a bucket that was made anew
// has no consumer, and a watch on the old one gets nothing.
func (u *uploads) watchAll(ctx context.Context) {
	status := u.conn.StatusChanged(nats.CONNECTED)
	defer u.conn.RemoveStatusListener(status)
	for ctx.Err() == nil {
		if err := u.watch(ctx, status); err != nil && ctx.Err() == nil {
			if ok, _ := u.quiet.say("watch_uploads", time.Now()); ok {
				u.log.Warn("cannot watch the record of accepted uploads, trying again", "err", err)
			}
			select {
			case <-ctx.Done():
			case <-status:
			case <-time.After(500 * time.Millisecond):
			}
		}
	}
}

func (u *uploads) watch(ctx context.Context, status <-chan nats.Status) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var updates [3]<-chan jetstream.KeyValueEntry // a watch each, as broker.Streams.Scan
	for i, filter := range []string{"*.f.*", "*.h.forgotten", stream.LostUploadKeys} {
		w, err := u.kv.Watch(ctx, filter)
		if err != nil {
			return err
		}
		defer w.Stop()
		updates[i] = w.Updates()
	}
	again := time.NewTimer(watchStalls) // entries that go while they are read are waited for, for ever
	defer again.Stop()
	seen := map[string]map[string]bool{} // tenant, block
	for reading := len(updates); ; {
		var e jetstream.KeyValueEntry
		var ok bool
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-status:
			return nil
		case <-again.C:
			return nil
		case e, ok = <-updates[0]:
		case e, ok = <-updates[1]:
		case e, ok = <-updates[2]:
		}
		if !ok {
			return nats.ErrConnectionClosed
		}
		if e != nil {
			if u.learn(e, seen); reading > 0 {
				again.Reset(watchStalls)
			}
			continue
		}
		if reading--; reading > 0 {
			continue
		}
		again.Reset(15 * time.Minute)
		u.retain(seen)
		seen = nil
		select {
		case <-u.loaded:
		default:
			close(u.loaded)
		}
	}
}

// learn takes what the watch brought.
func (u *uploads) learn(e jetstream.KeyValueEntry, seen map[string]map[string]bool) {
	tenant, rest, _ := strings.Cut(e.Key(), ".")
	kind, name, _ := strings.Cut(rest, ".")
	put := e.Operation() == jetstream.KeyValuePut
	if kind != "f" && kind != "h" {
		u.someLost.Store(true)
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	t := u.of(tenant)
	if kind == "h" {
		if at, err := strconv.ParseInt(string(e.Value()), 10, 64); err == nil && put {
			t.until = max(t.until, at)
		}
		return
	}
	if !put {
		t.remove(name)
		return
	}
	if seen != nil {
		if seen[tenant] == nil {
			seen[tenant] = map[string]bool{}
		}
		seen[tenant][name] = true
	}
	b, err := parseIndex(name, e.Value())
	if err != nil {
		u.log.Warn("an index of accepted uploads cannot be read: what is in it is not recognised", "key", e.Key(), "err", err)
		return
	}
	t.insert(b)
}

// insert puts a block where its name belongs; nearly always that is the end.
func (t *tenantUploads) insert(b *block) {
	i := len(t.blocks)
	for i > 0 && t.blocks[i-1].name > b.name {
		i--
	}
	if i > 0 && t.blocks[i-1].name == b.name {
		return
	}
	// Readers hold the old slice.
	next := make([]*block, 0, len(t.blocks)+1)
	t.blocks = append(append(append(next, t.blocks[:i]...), b), t.blocks[i:]...)
}

func (t *tenantUploads) remove(name string) {
	next := make([]*block, 0, len(t.blocks))
	for _, b := range t.blocks {
		if b.name != name {
			next = append(next, b)
		}
	}
	t.blocks = next
}

// retain forgets blocks that are gone, whether they expired or were purged.
func (u *uploads) retain(seen map[string]map[string]bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for tenant, t := range u.tenants {
		for _, b := range t.blocks {
			if !seen[tenant][b.name] {
				t.remove(b.name)
			}
		}
	}
}
