package ingest

import (
	"context"
	"encoding/json"
	"time"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

// restore puts the keys and tenants that this gateway knows into a bucket that was deleted and made anew: deleting the bucket does not
// revoke the keys in it, and clients that get a 401 may give up. A key that another gateway or a person has already put there stays.
func (k *keyring) restore(ctx context.Context) {
	k.mu.RLock()
	known := make(map[string]any, len(k.meters))
	for hash, m := range k.meters {
		if hash != k.dev {
			known[hash], _ = m.current()
		}
	}
	for name, h := range k.households {
		if h.record != nil {
			known[tenantPrefix+name] = *h.record
		}
	}
	k.mu.RUnlock()
	back, failed := 0, error(nil)
	for name, of := range known {
		value, err := json.Marshal(of)
		if err != nil {
			failed = err
			continue
		}
		for range 5 {
			try, cancel := context.WithTimeout(ctx, 5*time.Second)
			_, err = k.kv.Create(try, name, value)
			cancel()
			if err == nil || broker.IsWrongSequence(err) || ctx.Err() != nil {
				break
			}
		}
		switch {
		case err == nil:
			back++
		case !broker.IsWrongSequence(err):
			failed = err
		}
	}
	if failed != nil {
		k.log.Error("the bucket of keys was made anew, and not every key could be put back", "keys", len(known), "put_back", back,
			"err", failed)
		return
	}
	k.log.Warn("the bucket of keys was made anew: the keys that this gateway knows are in it again", "keys", len(known), "put_back", back)
}

// remade reports whether the bucket was made anew since the last call.
func (k *keyring) remade() bool {
	if k.streams == nil {
		return false
	}
	n := k.streams.Remade("KV_" + stream.KeysBucket)
	if n == k.restored {
		return false
	}
	k.restored = n
	return true
}
