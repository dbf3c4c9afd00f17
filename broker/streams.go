package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	// Duplicates is how long JetStream itself drops a part that is published again (0: DuplicateWindow). It is a saving, no promise:
	// workers drop parts that they have folded, whenever they come.
	Duplicates time.Duration
}

// DefaultLayout fits `warpline up` on one machine: 16 partitions, 2 lanes, 4 GiB of each stream.
// 2 lanes keep inserts large (each insert makes one part per table) and both cores busy.
func DefaultLayout() Layout {
	return Layout{Partitions: 16, Lanes: 2, Replicas: 1, IngestMaxBytes: 4 << 30, RowsMaxBytes: 4 << 30, BucketMaxBytes: 1 << 30, LeaseTTL: 5 * time.Second}
}

// Streams are the opened streams, buckets and object stores.
type Streams struct {
	Conn       *nats.Conn
	JS         jetstream.JetStream
	Ingest     jetstream.Stream
	Rows       jetstream.Stream
	Partitions int // as fixed at creation
	Lanes      int
	LeaseTTL   time.Duration

	Keys, Windows, Dictionaries, Leases, Marks, Deletions jetstream.KeyValue
	Parts, State, Chunks                                  jetstream.ObjectStore

	// Barrier, where set, makes durable what was acknowledged; see Durable. It is set before anything uses the streams.
	Barrier func(context.Context) error
}

// WindowHorizon is how long accepted windows and dictionary entries are remembered.
const WindowHorizon = 7 * 24 * time.Hour

// ReceiptHorizon is how long receipts of deletions are kept.
const ReceiptHorizon = 90 * 24 * time.Hour

// DuplicateWindow is how long JetStream itself drops a part that is published again.
const DuplicateWindow = 2 * time.Minute

// Open creates what is missing and opens everything. Limits follow l; partitions and lanes of existing streams win over l.
// It is safe to call from several processes at once.
func Open(ctx context.Context, nc *nats.Conn, js jetstream.JetStream, l Layout) (*Streams, error) {
	s := &Streams{Conn: nc, JS: js, LeaseTTL: l.LeaseTTL}
	meta := map[string]string{stream.MetaPartitions: strconv.Itoa(l.Partitions), stream.MetaLanes: strconv.Itoa(l.Lanes)}
	var err error
	if s.Ingest, err = openStream(ctx, js, jetstream.StreamConfig{
		Name: stream.IngestStream, Subjects: []string{"ingest.>"}, MaxBytes: l.IngestMaxBytes, Discard: jetstream.DiscardNew,
		Storage: jetstream.FileStorage, Replicas: l.Replicas, Duplicates: cmp.Or(l.Duplicates, DuplicateWindow), Metadata: meta, AllowDirect: true,
		Description: "accepted parts, kept for a replay window behind the workers",
	}); err != nil {
		return nil, err
	}
	if s.Rows, err = openStream(ctx, js, jetstream.StreamConfig{
		Name: stream.RowsStream, Subjects: []string{"rows.*"}, MaxBytes: l.RowsMaxBytes, Discard: jetstream.DiscardNew,
		Storage: jetstream.FileStorage, Replicas: l.Replicas, Metadata: meta, AllowDirect: false,
		Description: "chunks of Arrow rows; the newest message of a subject is its partition's checkpoint: never purge a subject whole",
	}); err != nil {
		return nil, err
	}
	if s.Partitions, err = fixed(s.Ingest, stream.MetaPartitions); err != nil {
		return nil, err
	}
	if s.Lanes, err = fixed(s.Rows, stream.MetaLanes); err != nil {
		return nil, err
	}
	for _, b := range []struct {
		kv   *jetstream.KeyValue
		name string
		ttl  time.Duration
	}{
		{&s.Keys, stream.KeysBucket, 0}, {&s.Windows, stream.WindowsBucket, WindowHorizon}, {&s.Dictionaries, stream.DictionariesBucket, WindowHorizon},
		{&s.Leases, stream.LeasesBucket, l.LeaseTTL}, {&s.Marks, stream.MarksBucket, 0},
		{&s.Deletions, stream.DeletionsBucket, ReceiptHorizon},
	} {
		cfg := jetstream.KeyValueConfig{Bucket: b.name, TTL: b.ttl, Storage: jetstream.FileStorage, Replicas: l.Replicas, History: 1, MaxBytes: l.BucketMaxBytes}
		if b.name == stream.LeasesBucket || b.name == stream.DeletionsBucket { // small; the first in a file although it lives for seconds: a bucket in memory is gone for good when NATS restarts
			cfg.MaxBytes = 16 << 20
		}
		if *b.kv, err = create(ctx, func(ctx context.Context) (jetstream.KeyValue, error) { return js.CreateOrUpdateKeyValue(ctx, cfg) }); err != nil {
			return nil, fmt.Errorf("bucket %s: %w", b.name, err)
		}
	}
	for _, o := range []struct {
		store *jetstream.ObjectStore
		name  string
		ttl   time.Duration
	}{{&s.Parts, stream.PartsObjects, WindowHorizon}, {&s.State, stream.StateObjects, 0}, {&s.Chunks, stream.ChunksObjects, 0}} {
		cfg := jetstream.ObjectStoreConfig{Bucket: o.name, TTL: o.ttl, Storage: jetstream.FileStorage, Replicas: l.Replicas, MaxBytes: l.BucketMaxBytes}
		if *o.store, err = create(ctx, func(ctx context.Context) (jetstream.ObjectStore, error) {
			return js.CreateOrUpdateObjectStore(ctx, cfg)
		}); err != nil {
			return nil, fmt.Errorf("object store %s: %w", o.name, err)
		}
	}
	return s, nil
}

// openStream creates the stream or, when it exists, applies the limits and keeps its metadata.
func openStream(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	st, err := create(ctx, func(ctx context.Context) (jetstream.Stream, error) {
		old, err := js.Stream(ctx, cfg.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return js.CreateStream(ctx, cfg)
		}
		if err != nil {
			return nil, err
		}
		have := old.CachedInfo().Config
		if have.MaxBytes == cfg.MaxBytes && have.Replicas == cfg.Replicas {
			return old, nil
		}
		have.MaxBytes, have.Replicas = cfg.MaxBytes, cfg.Replicas
		return js.UpdateStream(ctx, have)
	})
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", cfg.Name, err)
	}
	return st, nil
}

// create retries f while the server is still starting or another process creates the same thing, until ctx ends.
func create[T any](ctx context.Context, f func(context.Context) (T, error)) (T, error) {
	for {
		try, cancel := context.WithTimeout(ctx, 10*time.Second)
		v, err := f(try)
		cancel()
		if err == nil || ctx.Err() != nil {
			return v, err
		}
		var api *jetstream.APIError
		if errors.As(err, &api) && api.Code >= 400 && api.Code < 500 && api.ErrorCode != jetstream.JSErrCodeStreamNameInUse {
			return v, err
		}
		select {
		case <-ctx.Done():
			return v, err
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func fixed(st jetstream.Stream, key string) (int, error) {
	cfg := st.CachedInfo().Config
	n, err := strconv.Atoi(cfg.Metadata[key])
	if err != nil || n < 1 || n > 4096 {
		return 0, fmt.Errorf("stream %s has no usable metadata %q (%q): it was not created by warpline; remove it or use another NATS account", cfg.Name, key, cfg.Metadata[key])
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

// NATS's own codes for a lack of room, which its client library has no names for.
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
