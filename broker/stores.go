package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/stream"
)

// store is one JetStream stream as Warpline wants it: one of the two streams, or what is beneath a bucket or an object store.
type store struct {
	name     string // of the JetStream stream
	said     string // the name that people know
	lost     string // what is lost with it, for the log
	maxBytes int64
	maxAge   time.Duration
	subjects []string // of the two streams only
	floor    func(context.Context) (uint64, error)
	make     func(ctx context.Context) error
	forgets  bool // what is oldest in it makes room for what is new, so being full is its usual state
}

// MaxBytes is what all streams, buckets and object stores of the layout may take together.
func (l Layout) MaxBytes() (all int64) {
	for _, st := range (&Streams{layout: l}).stores() {
		all += st.maxBytes
	}
	return all
}

// stores lists everything, in the order in which it is made: ROWS and the marks come before INGEST, whose first sequence follows from
// them.
func (s *Streams) stores() []store {
	l := s.layout
	meta := map[string]string{stream.MetaPartitions: strconv.Itoa(l.Partitions), stream.MetaLanes: strconv.Itoa(l.Lanes)}
	ingest, rows := make([]string, l.Partitions), make([]string, l.Partitions)
	for p := range l.Partitions {
		// Only the partitions' subjects: a message on another one would not be read, and would stay for ever.
		ingest[p], rows[p] = stream.IngestFilter(p), stream.RowsSubject(p)
	}
	var all []store
	add := func(st store) { all = append(all, st) }
	bucket := func(name, lost string, ttl time.Duration, maxBytes int64) {
		cfg := jetstream.KeyValueConfig{Bucket: name, TTL: ttl, Storage: jetstream.FileStorage, Replicas: l.Replicas, History: 1,
			MaxBytes: maxBytes}
		add(store{name: "KV_" + name, said: "bucket " + name, lost: lost, maxBytes: maxBytes, maxAge: ttl, make: func(ctx context.Context) error {
			_, err := s.JS.CreateKeyValue(ctx, cfg)
			return err
		}})
	}
	objects := func(name, lost string, ttl time.Duration) {
		cfg := jetstream.ObjectStoreConfig{Bucket: name, TTL: ttl, Storage: jetstream.FileStorage,
			Replicas: l.Replicas, MaxBytes: l.BucketMaxBytes}
		add(store{name: "OBJ_" + name, said: "object store " + name, lost: lost, maxBytes: l.BucketMaxBytes, maxAge: ttl,
			make: func(ctx context.Context) error {
				_, err := s.JS.CreateObjectStore(ctx, cfg)
				return err
			}})
	}
	const small = 16 << 20
	bucket(stream.MarksBucket, "how far the sink is: it goes on after the ledger's last row", 0, l.BucketMaxBytes)
	add(store{name: stream.RowsStream, said: "stream ROWS", maxBytes: l.RowsMaxBytes, subjects: rows, floor: s.rowsFloor,
		lost: "rows that were not in ClickHouse yet and the workers' checkpoints: run \"warpline audit\"",
		make: func(ctx context.Context) error {
			return s.makeStream(ctx, jetstream.StreamConfig{
				Name: stream.RowsStream, Subjects: rows, MaxBytes: l.RowsMaxBytes, Discard: jetstream.DiscardNew,
				Storage: jetstream.FileStorage, Replicas: l.Replicas, Metadata: meta, AllowDirect: false,
				Description: "chunks of Arrow rows; the newest message of a subject is its partition's checkpoint: never purge a subject whole",
			}, s.rowsFloor)
		}})
	add(store{name: stream.IngestStream, said: "stream INGEST", maxBytes: l.IngestMaxBytes, subjects: ingest, floor: s.ingestFloor,
		lost: "what was accepted and not folded yet: run \"warpline audit\"",
		make: func(ctx context.Context) error {
			return s.makeStream(ctx, jetstream.StreamConfig{
				Name: stream.IngestStream, Subjects: ingest, MaxBytes: l.IngestMaxBytes, Discard: jetstream.DiscardNew,
				Storage: jetstream.FileStorage, Replicas: l.Replicas, Duplicates: cmp.Or(l.Duplicates, DuplicateHorizon), Metadata: meta,
				AllowDirect: true,
				Description: "accepted parts, kept for a replay window behind the workers",
			}, s.ingestFloor)
		}})
	bucket(stream.KeysBucket, "the keys: gateways put back those that they know, others answer 401 until they are made again",
		0, l.BucketMaxBytes)
	bucket(stream.WindowsBucket, "which uploads were accepted: what is sent again is recognised by the workers alone", WindowHorizon,
		l.BucketMaxBytes)
	bucket(stream.DictionariesBucket, "nothing: names are read from ClickHouse", WindowHorizon, l.BucketMaxBytes)
	forget(&all[len(all)-1], s)
	// The leases are in a file although they live for seconds: a bucket in memory is gone for good when NATS restarts.
	bucket(stream.LeasesBucket, "nothing: partitions and lanes are taken again", l.LeaseTTL, min(small, max(l.BucketMaxBytes, 1<<20)))
	bucket(stream.DeletionsBucket, "records of deletions", DeletionHorizon, min(small, max(l.BucketMaxBytes, 1<<20)))
	bucket(stream.CubinsBucket, "which cubins are stored: agents are asked for theirs again, what they send again changes nothing", 0,
		l.BucketMaxBytes)
	bucket(stream.SeenBucket, "nothing: how far the streams reached is noted anew", 0, 1<<20)
	bucket(stream.QuotasBucket, "what tenants sent today: gateways store what they know of it again", 48*time.Hour,
		min(2*small, max(l.BucketMaxBytes, 1<<20)))
	objects(stream.PartsObjects, "bodies of accepted giant lines that were not folded yet: they become rejects", WindowHorizon)
	objects(stream.StateObjects, "snapshots of the workers' state: owners write new ones", 0)
	objects(stream.ChunksObjects, "bodies of giant chunks that were not in ClickHouse yet", 0)
	return all
}

// forget lets a bucket make room for what is new.
func forget(st *store, s *Streams) {
	make, name := st.make, st.name
	st.forgets = true
	st.make = func(ctx context.Context) error {
		if err := make(ctx); err != nil {
			return err
		}
		made, err := s.JS.Stream(ctx, name)
		if err != nil {
			return err
		}
		cfg := made.CachedInfo().Config
		cfg.Discard = jetstream.DiscardOld
		_, err = s.JS.UpdateStream(ctx, cfg)
		return err
	}
}

// existing returns the names of all streams that the server has.
func (s *Streams) existing(ctx context.Context) (map[string]bool, error) {
	return patient(ctx, s.log, "the list of streams", s.list)
}

func (s *Streams) list(ctx context.Context) (map[string]bool, error) {
	lister := s.JS.StreamNames(ctx)
	have := map[string]bool{}
	for name := range lister.Name() {
		have[name] = true
	}
	return have, lister.Err()
}

// open makes the store when it is missing, and reports that; otherwise it fits the store to the layout.
func (s *Streams) open(ctx context.Context, st store) (made bool, err error) {
	return patient(ctx, s.log, st.said, func(ctx context.Context) (bool, error) {
		old, err := s.JS.Stream(ctx, st.name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return true, st.make(ctx)
		}
		if err != nil {
			return false, err
		}
		info := old.CachedInfo()
		if st.floor != nil && len(info.Config.Subjects) == 1 && strings.HasPrefix(info.Config.Subjects[0], makingSubject) {
			if info.TimeStamp.Sub(info.Created) < makingFor {
				return false, errMaking
			}
			return true, s.finish(ctx, old, st.subjects, st.floor)
		}
		return false, s.fit(ctx, st, info)
	})
}

// fit changes an existing store as far as that does not take anything from others.
func (s *Streams) fit(ctx context.Context, st store, info *jetstream.StreamInfo) error {
	cfg := info.Config
	same := true
	if len(st.subjects) > 0 && !slices.Equal(cfg.Subjects, st.subjects) {
		cfg.Subjects, same = st.subjects, false
	}
	if st.maxAge > 0 && cfg.MaxAge != st.maxAge {
		cfg.MaxAge, same = st.maxAge, false
		if cfg.Duplicates > cfg.MaxAge {
			cfg.Duplicates = cfg.MaxAge
		}
	}
	if st.forgets && cfg.Discard != jetstream.DiscardOld {
		cfg.Discard, same = jetstream.DiscardOld, false
	}
	if s.layout.Replicas > cfg.Replicas {
		cfg.Replicas, same = s.layout.Replicas, false
	}
	if !same {
		if _, err := s.JS.UpdateStream(ctx, cfg); err != nil {
			return err
		}
	}
	had := cfg.MaxBytes
	switch {
	case had <= 0 || st.maxBytes <= 0 || st.maxBytes == had:
		return nil
	case st.maxBytes < had && !s.layout.Lower:
		return nil
	case st.maxBytes < had:
		// If its bound were below what it holds, it would refuse everything until it is emptied.
		cfg.MaxBytes = max(st.maxBytes, min(had, int64(info.State.Bytes)*5/4))
		if cfg.MaxBytes >= had {
			return nil
		}
	default:
		cfg.MaxBytes = st.maxBytes
	}
	if _, err := s.JS.UpdateStream(ctx, cfg); err != nil {
		// It works at its old size, so this is not worth waiting for.
		s.log.Warn(st.said+" keeps its size", "max_bytes", had, "wanted", cfg.MaxBytes, "err", err)
	}
	return nil
}

// makeStream creates a stream whose first sequence is above floor's. It gets its subjects last: nobody can publish before that. The
// server's own FirstSeq is not used, because with it the server purges what it finds on its disk under the name.
func (s *Streams) makeStream(ctx context.Context, cfg jetstream.StreamConfig, floor func(context.Context) (uint64, error)) error {
	subjects := cfg.Subjects
	cfg.Subjects = []string{makingSubject + strings.ToLower(cfg.Name)}
	st, err := s.JS.CreateStream(ctx, cfg)
	if err != nil {
		return err
	}
	return s.finish(ctx, st, subjects, floor)
}

// finish gives a stream that is being made its first sequence and its subjects.
func (s *Streams) finish(ctx context.Context, st jetstream.Stream, subjects []string, floor func(context.Context) (uint64, error)) error {
	last, err := floor(ctx)
	if err != nil {
		return err
	}
	info := st.CachedInfo()
	if last > 0 && info.State.LastSeq == 0 {
		if err := st.Purge(ctx, jetstream.WithPurgeSequence(last+1)); err != nil {
			return fmt.Errorf("begin at %d: %w", last+1, err)
		}
		s.log.Info("stream "+info.Config.Name+" begins after every position that is known", "first", last+1)
	}
	cfg := info.Config
	cfg.Subjects = subjects
	_, err = s.JS.UpdateStream(ctx, cfg)
	return err
}

// makingSubject is before the only subject of a stream that is being made; makingFor is how long its maker may take before others finish
// it.
const (
	makingSubject = "warpline.making."
	makingFor     = 15 * time.Second
)

var errMaking = errors.New("another process is making it")

// patient calls f again while the server is starting, has no room, or another process makes the same thing, until ctx ends. After two
// seconds it logs what it waits for and what would end the waiting. It returns at once on an error that will not go away.
func patient[T any](ctx context.Context, log *slog.Logger, what string, f func(context.Context) (T, error)) (T, error) {
	began, told := time.Now(), ""
	for {
		try, cancel := context.WithTimeout(ctx, 10*time.Second)
		v, err := f(try)
		cancel()
		if err == nil || ctx.Err() != nil {
			if told != "" && err == nil {
				log.Info("over: waiting for "+what, "after", time.Since(began).Round(time.Millisecond))
			}
			return v, err
		}
		var api *jetstream.APIError
		if errors.As(err, &api) {
			switch {
			case api.ErrorCode == codeReplicasNeedCluster:
				return v, fmt.Errorf("%w: this NATS is a single server, which keeps one copy: start it as a cluster, or leave --replicas at 1", err)
			case api.ErrorCode == jetstream.JSErrCodeStreamNameInUse:
			case api.Code >= 400 && api.Code < 500 && !waitable(api.ErrorCode):
				return v, err
			}
		}
		text := err.Error()
		if time.Since(began) > 2*time.Second && text != told {
			told = text
			log.Warn("trouble: waiting for "+what, "err", err, "do", advice(err))
		}
		select {
		case <-ctx.Done():
			return v, err
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// waitable are refusals with a code below 500 that go away when room is made.
func waitable(code jetstream.ErrorCode) bool {
	return code == codeNoPeers || code == codeStorageExceeded || code == codeAccountResources
}

// advice is what ends the waiting for err.
func advice(err error) string {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return "turn JetStream on in the server's configuration, and for this account"
	case errors.As(err, &api) && (api.ErrorCode == codeStorageExceeded || api.ErrorCode == codeInsufficientResources ||
		api.ErrorCode == codeAccountResources):
		return "the server has no room: raise its max_file_store (--store-max of the embedded one), make room on its disk, or ask for less " +
			"with --ingest-max, --rows-max and --bucket-max"
	case errors.As(err, &api) && api.ErrorCode == codeNoPeers:
		return "--replicas asks for more servers with JetStream and room than the cluster has now: start them"
	}
	return "look at the NATS server's log; this goes on by itself when it answers"
}

// Error codes of NATS for which its client library has no names.
const (
	codeAccountResources    jetstream.ErrorCode = 10002
	codeNoPeers             jetstream.ErrorCode = 10005
	codeReplicasNeedCluster jetstream.ErrorCode = 10074
)
