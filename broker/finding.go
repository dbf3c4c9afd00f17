package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Kinds of findings.
const (
	// FindingAside is messages that did not belong where they were, and were set aside.
	FindingAside = "set-aside"
	// FindingMissing is chunks that ROWS did not have when their turn came.
	FindingMissing = "chunks-missing"
	// FindingDamaged is bytes that the NATS server found damaged and dropped.
	FindingDamaged = "stream-damaged"
	// FindingShortened is messages that are gone from the end of a stream after NATS had acknowledged them.
	FindingShortened = "end-lost"
	// FindingUnfolded is uploads of which INGEST lost parts before a worker had folded them.
	FindingUnfolded = "parts-lost"
)

// Finding is something that a role found and that a person must learn of, even a month later: the audit names it until it is accepted.
// There is one record for each kind, stream and partition, so findings stay few whatever happens.
type Finding struct {
	Kind      string    `json:"kind"`
	Stream    string    `json:"stream"`
	Partition int       `json:"partition"` // -1: of no partition
	Count     uint64    `json:"count"`     // of messages, chunks or bytes, whatever Kind counts
	Since     time.Time `json:"since"`
	Until     time.Time `json:"until"`
	Places    []Place   `json:"places,omitempty"` // the newest maxPlaces
}

// Place says where a finding was made.
type Place struct {
	First  uint64    `json:"first"` // sequences in the stream, or for FindingMissing chunk numbers
	Last   uint64    `json:"last"`
	At     time.Time `json:"at"`
	Tenant string    `json:"tenant,omitempty"` // where it is known
	Detail string    `json:"detail"`
	Object string    `json:"object,omitempty"` // in the store of chunk bodies; it has the bytes
}

// maxPlaces is how many places are kept of one finding, maxDetail how many bytes of each place's detail.
const maxPlaces, maxDetail = 32, 300

// findingPrefix begins the keys of findings; lossPrefix those of the records that workers keep of what a stream has lost.
const findingPrefix, lossPrefix = "found.", "lost."

func (f *Finding) key() string {
	p := "all"
	if f.Partition >= 0 {
		p = strconv.Itoa(f.Partition)
	}
	return findingPrefix + f.Kind + "." + f.Stream + "." + p
}

// Find records a finding in the marks bucket: count more of a kind, at one place. The same place again changes nothing, so several roles
// may report the same. It returns the record as it is then.
func Find(ctx context.Context, kv jetstream.KeyValue, kind, stream string, partition int, count uint64, at Place) (Finding, error) {
	if at.At.IsZero() {
		at.At = time.Now().UTC()
	}
	at.Detail = strings.ToValidUTF8(at.Detail[:min(len(at.Detail), maxDetail)], "\uFFFD")
	for try := 0; ; try++ {
		f := Finding{Kind: kind, Stream: stream, Partition: partition}
		entry, err := kv.Get(ctx, f.key())
		revision := uint64(0)
		switch {
		case err == nil:
			revision = entry.Revision()
			if json.Unmarshal(entry.Value(), &f) != nil { // what is under our key cannot be read: it is written anew
				f = Finding{Kind: kind, Stream: stream, Partition: partition}
			}
		case !errors.Is(err, jetstream.ErrKeyNotFound):
			return f, fmt.Errorf("read findings: %w", err)
		}
		if slices.ContainsFunc(f.Places, func(p Place) bool { return p.First == at.First && p.Last == at.Last && p.Detail == at.Detail }) {
			return f, nil
		}
		if f.Count == 0 {
			f.Since = at.At
		}
		f.Count, f.Until = f.Count+count, at.At
		f.Places = append(f.Places, at)
		f.Places = f.Places[max(0, len(f.Places)-maxPlaces):]
		body, err := json.Marshal(f)
		if err != nil {
			return f, fmt.Errorf("encode a finding: %w", err)
		}
		if revision == 0 {
			_, err = kv.Create(ctx, f.key(), body)
		} else {
			_, err = kv.Update(ctx, f.key(), body, revision)
		}
		if err == nil {
			return f, nil
		}
		if !IsWrongSequence(err) || try >= 20 {
			return f, fmt.Errorf("write a finding: %w", err)
		}
	}
}

// Findings returns what was found and not yet accepted, in the order of the keys. A record that cannot be read is a finding too.
func Findings(ctx context.Context, kv jetstream.KeyValue) (out []Finding, err error) {
	keys, err := findingKeys(ctx, kv, findingPrefix)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		entry, err := kv.Get(ctx, key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read findings: %w", err)
		}
		var f Finding
		if err := json.Unmarshal(entry.Value(), &f); err != nil {
			f = Finding{Kind: "unreadable record " + key, Stream: "KV_" + kv.Bucket(), Partition: -1, Count: 1}
		}
		out = append(out, f)
	}
	return out, nil
}

// AcceptFindings forgets what was found until now and deletes what was set aside, because a person has read it.
func (s *Streams) AcceptFindings(ctx context.Context) error {
	keys, err := findingKeys(ctx, s.Marks, findingPrefix, lossPrefix)
	if err != nil {
		return err
	}
	list, err := s.Chunks.List(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		return fmt.Errorf("list what was set aside: %w", err)
	}
	for _, o := range list {
		if !strings.HasPrefix(o.Name, asidePrefix) {
			continue
		}
		if err := s.Chunks.Delete(ctx, o.Name); err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
			return fmt.Errorf("delete what was set aside: %w", err)
		}
	}
	for _, key := range keys {
		if err := s.Marks.Purge(ctx, key); err != nil {
			return fmt.Errorf("forget a finding: %w", err)
		}
	}
	return acceptWindows(ctx, s.Marks)
}

func findingKeys(ctx context.Context, kv jetstream.KeyValue, prefixes ...string) (keys []string, err error) {
	for i := range prefixes {
		prefixes[i] += ">"
	}
	list, err := kv.ListKeysFiltered(ctx, prefixes...)
	if err != nil {
		return nil, fmt.Errorf("list findings: %w", err)
	}
	defer list.Stop()
	for key := range list.Keys() {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys, ctx.Err() // then it is a part of them
}

// String is the finding in one line, for people.
func (f Finding) String() string {
	what := map[string]string{
		FindingAside:     "messages that no worker or gateway published were set aside",
		FindingMissing:   "chunks were gone from the stream before they were inserted",
		FindingDamaged:   "bytes were found damaged by the NATS server and dropped",
		FindingShortened: "messages at most are gone from its end that NATS had acknowledged",
		FindingUnfolded:  "uploads lost parts before they were folded",
	}[f.Kind]
	if what == "" {
		what = "of " + f.Kind
	}
	s := f.Stream
	if f.Partition >= 0 {
		s += fmt.Sprintf(", partition %d", f.Partition)
	}
	s += fmt.Sprintf(": %d %s, from %s to %s", f.Count, what, f.Since.UTC().Format(time.DateTime), f.Until.UTC().Format(time.DateTime))
	for i := len(f.Places) - 1; i >= max(0, len(f.Places)-3); i-- {
		p := &f.Places[i]
		s += fmt.Sprintf("; %d to %d", p.First, p.Last)
		if p.Tenant != "" {
			s += " of tenant " + p.Tenant
		}
		s += ": " + p.Detail
		if p.Object != "" {
			s += " (its bytes: object " + p.Object + ")"
		}
	}
	return s
}
