package quota

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Store is the bucket of counts, which all gateways write: the last count of each tenant or key, by its name. Names are bytes. The bucket's
// connection belongs to the caller. It is safe for concurrent use.
type Store struct{ KV jetstream.KeyValue }

// Put stores a count.
func (s Store) Put(ctx context.Context, name string, u Used) error {
	value, err := json.Marshal(u)
	if err != nil {
		return fmt.Errorf("encode a count: %w", err)
	}
	if _, err := s.KV.Put(ctx, hex.EncodeToString([]byte(name)), value); err != nil {
		return fmt.Errorf("store a count: %w", err)
	}
	return nil
}

// Watch calls each with every count that is stored, and with those that come, until ctx ends or the connection is lost; all is called once
// those that were there have come. What cannot be read is left out.
func (s Store) Watch(ctx context.Context, each func(name string, u Used), all func()) error {
	w, err := s.KV.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return fmt.Errorf("watch counts: %w", err)
	}
	defer w.Stop()
	again := time.NewTimer(time.Minute) // a watch of a bucket that was made anew tells nothing any more
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
			return nil
		case e, ok := <-w.Updates():
			if !ok {
				return fmt.Errorf("watch counts: %w", nats.ErrConnectionClosed)
			}
			if e == nil {
				all()
				continue
			}
			if name, u, err := parse(e.Key(), e.Value()); err == nil {
				each(name, u)
			}
		}
	}
}

func parse(key string, value []byte) (string, Used, error) {
	var u Used
	name, err := hex.DecodeString(key)
	if err != nil {
		return "", u, err
	}
	if err := json.Unmarshal(value, &u); err != nil {
		return "", u, err
	}
	if len(name) == 0 || u.Events < 0 || u.Bytes < 0 {
		return "", u, errors.New("not a count")
	}
	return string(name), u, nil
}
