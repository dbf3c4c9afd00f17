package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/tenant"
)

// DefaultTenant gets a key at the first start, so that there is something to send with.
const DefaultTenant = "default"

// KeyFile is the name of the file in the data folder that holds that key, for commands that send.
const KeyFile = "key"

// FirstKey makes the default tenant's key at the first start and returns the path of the file that holds it.
func (s *Stack) FirstKey(ctx context.Context) (string, error) {
	path := s.Dir.File(KeyFile)
	keys := ingest.NewKeys(s.Streams.Keys)
	// An empty file is what a power cut left of one that was not synced yet: nobody can have used its key, so another is made.
	if kept, err := os.ReadFile(path); err == nil && len(bytes.TrimSpace(kept)) > 0 {
		secret := strings.TrimSpace(string(kept))
		// The folder of NATS may have been removed beneath it: put the same key back rather than leave a file that opens nothing.
		if _, err := s.Streams.Keys.Get(ctx, tenant.Hash(secret)); !errors.Is(err, jetstream.ErrKeyNotFound) {
			return path, err
		}
		if _, err := keys.Put(ctx, secret, DefaultTenant, "put back by warpline up", tenant.Limits{}, 0); err != nil {
			return "", fmt.Errorf("put the key of %s back: %w", path, err)
		}
		return path, nil
	}
	secret, _, err := keys.Create(ctx, DefaultTenant, "made at the first start", tenant.Limits{}, 0)
	if err != nil {
		return "", fmt.Errorf("make the first key: %w", err)
	}
	return path, s.Dir.WriteSecret(KeyFile, []byte(secret+"\n"))
}
