package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/stream"
)

// Layout is what is fixed when the streams are created, and their limits, which may change later.
type Layout struct {
	Partitions int // of INGEST and ROWS, for the life of the streams
	Lanes      int // of the sink, likewise
	Replicas   int // 1 or 3
	// IngestMaxBytes and RowsMaxBytes bound the two streams; both refuse new messages when full, which is the back-pressure.
	IngestMaxBytes, RowsMaxBytes int64
	// BucketMaxBytes bounds each key-value bucket and object store.
	BucketMaxBytes int64
	LeaseTTL       time.Duration
	// Lower lets Open make existing streams and buckets smaller, never below what they hold. Otherwise Open only ever raises sizes: a
	// role that was started with other flags must not take room from the others.
	Lower bool
	// Duplicates is how long JetStream itself drops a part that is published again (0: DuplicateHorizon). It saves work and is not a
	// promise: workers drop parts that they have folded, whenever they come.
	Duplicates time.Duration
	// Logger gets what Open waits for and what it had to make anew; nil logs nothing.
	Logger *slog.Logger
}

// DefaultLayout fits one machine: 16 partitions, 2 lanes, 4 GiB of each stream. 2 lanes keep inserts large (each insert makes one data part
// per table), and two of them run at once.
func DefaultLayout() Layout {
	return Layout{Partitions: 16, Lanes: 2, Replicas: 1, IngestMaxBytes: 4 << 30, RowsMaxBytes: 4 << 30, BucketMaxBytes: 1 << 30,
		LeaseTTL: 5 * time.Second}
}

// Streams are the opened streams, buckets and object stores. The handles go by name, so they work on after the keeper (Keep) has made
// anew what was deleted. Safe for concurrent use; the connection is the caller's to close.
type Streams struct {
	Conn       *nats.Conn
	JS         jetstream.JetStream
	Ingest     jetstream.Stream
	Rows       jetstream.Stream
	Partitions int // as fixed at creation
	Lanes      int
	LeaseTTL   time.Duration

	Keys, Windows, Dictionaries, Leases, Marks, Deletions, Seen, Cubins, Quotas jetstream.KeyValue
	Parts, State, Chunks                                                        jetstream.ObjectStore

	// Barrier, where set, makes durable what was acknowledged; see Durable. It is set before anything uses the streams.
	Barrier func(context.Context) error

	layout Layout // partitions and lanes as fixed
	log    *slog.Logger
	remade *remade // shared by copies of the struct; nil where Open did not make it
	watch  *watch  // likewise
	// storeLost says for each stream whose end is recorded, by its name, what it means that the stream lost its end.
	storeLost map[string]string
}

// WindowHorizon is how long accepted windows and dictionary entries are remembered.
const WindowHorizon = 7 * 24 * time.Hour

// DeletionHorizon is how long records of deletions are kept.
const DeletionHorizon = 90 * 24 * time.Hour

// DuplicateHorizon is how long JetStream itself drops a part that is published again.
const DuplicateHorizon = 2 * time.Minute

// Open creates what is missing and opens everything. Existing streams and buckets keep their partitions, lanes and replicas unless l has
// more copies, and their sizes unless l has larger ones or says Lower. It waits for a server that is starting or has no room, and logs
// that; it fails when the server will never do what l asks. It is safe to call from several processes at once.
func Open(ctx context.Context, nc *nats.Conn, js jetstream.JetStream, l Layout) (*Streams, error) {
	s := &Streams{Conn: nc, JS: js, LeaseTTL: l.LeaseTTL, layout: l, log: l.Logger, remade: &remade{}, watch: &watch{}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	there, err := s.existing(ctx)
	if err != nil {
		return nil, err
	}
	known, err := s.inherit(ctx, there)
	if err != nil {
		return nil, err
	}
	// The positions in stores that exist already are read before INGEST is made: its first sequence has to be above all of them.
	stores := s.stores()
	s.storeLost = watched(stores)
	for _, st := range stores {
		made, err := s.open(ctx, st)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", st.said, err)
		}
		if made && known && st.name != "KV_"+stream.SeenBucket && st.name != "KV_"+stream.QuotasBucket { // which older versions did not have
			s.log.Warn(st.said+" was not there and is made anew", "lost", st.lost)
			s.remade.add(st.name)
		}
	}
	if err := s.handles(ctx); err != nil {
		return nil, err
	}
	s.Partitions, err = fixed(s.Ingest, stream.MetaPartitions)
	if err != nil {
		return nil, err
	}
	s.Lanes, err = fixed(s.Rows, stream.MetaLanes)
	if err != nil {
		return nil, err
	}
	s.layout.Partitions, s.layout.Lanes = s.Partitions, s.Lanes
	s.sight(ctx) // before anything is written by this process
	return s, nil
}

// Over returns the same streams through another connection to the same server. What is large and what is small must not share one: a
// connection takes one message after the other, and an answer of a few bytes comes behind all MiB that were sent before it. Each
// connection is the caller's to close.
func (s *Streams) Over(ctx context.Context, nc *nats.Conn, js jetstream.JetStream) (*Streams, error) {
	other := *s
	other.Conn, other.JS = nc, js
	if err := other.handles(ctx); err != nil {
		return nil, err
	}
	return &other, nil
}

// inherit takes partitions and lanes from whichever of the two streams is there: the other, made anew, must agree with it. known is false
// when there is nothing yet that could have been lost: another process makes the stores just now.
func (s *Streams) inherit(ctx context.Context, there map[string]bool) (known bool, err error) {
	for _, name := range []string{stream.IngestStream, stream.RowsStream} {
		if !there[name] {
			continue
		}
		st, err := patient(ctx, s.log, "stream "+name, func(ctx context.Context) (jetstream.Stream, error) { return s.JS.Stream(ctx, name) })
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("stream %s: %w", name, err)
		}
		info := st.CachedInfo()
		known = known || info.State.LastSeq > 0 || info.TimeStamp.Sub(info.Created) > makingFor
		s.layout.Partitions, err = fixed(st, stream.MetaPartitions)
		if err != nil {
			return false, err
		}
		s.layout.Lanes, err = fixed(st, stream.MetaLanes)
		if err != nil {
			return false, err
		}
	}
	return known, nil
}

// handles opens the streams, buckets and object stores, which exist by now.
func (s *Streams) handles(ctx context.Context) (err error) {
	for name, to := range map[string]*jetstream.Stream{stream.IngestStream: &s.Ingest, stream.RowsStream: &s.Rows} {
		*to, err = patient(ctx, s.log, "stream "+name, func(ctx context.Context) (jetstream.Stream, error) { return s.JS.Stream(ctx, name) })
		if err != nil {
			return fmt.Errorf("stream %s: %w", name, err)
		}
	}
	for name, to := range map[string]*jetstream.KeyValue{
		stream.KeysBucket: &s.Keys, stream.WindowsBucket: &s.Windows, stream.DictionariesBucket: &s.Dictionaries,
		stream.LeasesBucket: &s.Leases, stream.MarksBucket: &s.Marks, stream.DeletionsBucket: &s.Deletions,
		stream.SeenBucket: &s.Seen, stream.CubinsBucket: &s.Cubins, stream.QuotasBucket: &s.Quotas,
	} {
		*to, err = patient(ctx, s.log, "bucket "+name, func(ctx context.Context) (jetstream.KeyValue, error) { return s.JS.KeyValue(ctx, name) })
		if err != nil {
			return fmt.Errorf("bucket %s: %w", name, err)
		}
	}
	for name, to := range map[string]*jetstream.ObjectStore{stream.PartsObjects: &s.Parts, stream.StateObjects: &s.State,
		stream.ChunksObjects: &s.Chunks} {
		*to, err = patient(ctx, s.log, "object store "+name, func(ctx context.Context) (jetstream.ObjectStore, error) {
			return s.JS.ObjectStore(ctx, name)
		})
		if err != nil {
			return fmt.Errorf("object store %s: %w", name, err)
		}
	}
	return nil
}

func fixed(st jetstream.Stream, key string) (int, error) {
	cfg := st.CachedInfo().Config
	n, err := strconv.Atoi(cfg.Metadata[key])
	if err != nil || n < 1 || n > 4096 {
		return 0, fmt.Errorf("stream %s has no usable metadata %q (%q): it was not created by warpline; remove it or use another NATS account",
			cfg.Name, key, cfg.Metadata[key])
	}
	return n, nil
}

// IsFull reports whether err is JetStream refusing a message for lack of room: the stream's max_bytes or the server's storage.
func IsFull(err error) bool {
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return false
	}
	switch api.ErrorCode {
	case codeStoreFailed, codeInsufficientResources, codeStorageExceeded, codeStreamMaxBytes:
		return true
	}
	return false
}

// Error codes of NATS for a lack of room, for which its client library has no names.
const (
	codeInsufficientResources jetstream.ErrorCode = 10023
	codeStorageExceeded       jetstream.ErrorCode = 10047
	codeStoreFailed           jetstream.ErrorCode = 10077 // "maximum bytes exceeded" among others
	codeStreamMaxBytes        jetstream.ErrorCode = 10122
)

// IsWrongSequence reports whether err is an optimistic write that lost: somebody else wrote the subject or key first.
func IsWrongSequence(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, jetstream.ErrKeyExists) || errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence
}
