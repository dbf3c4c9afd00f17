package broker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/warpline/warpline/proto/stream"
)

// ledgerStreams are the streams that ClickHouse must never be ahead of: the chunks, what they point to, and the marks. The keys and the
// records of deletions are synced with them: they are small, and clients are told that they are stored.
var ledgerStreams = []string{
	stream.RowsStream, "KV_" + stream.MarksBucket, "KV_" + stream.DictionariesBucket, "KV_" + stream.KeysBucket,
	"KV_" + stream.DeletionsBucket,
	"OBJ_" + stream.StateObjects, "OBJ_" + stream.ChunksObjects,
}

// Barrier makes durable what the embedded server has acknowledged from its page cache. Without Fsync the server itself syncs every
// SyncInterval only, each stream at its own time, so after a power cut one stream may remember what another has forgotten. Code that is
// about to do something that must not outlive its cause (insert the rows of a chunk, delete what a mark says is not needed) calls Sync
// first.
//
// The zero value is not usable; see NewBarrier. Safe for concurrent use.
type Barrier struct {
	dir string
	// turn lets one caller sync at a time: the one that waited finds little left to do.
	turn   sync.Mutex
	synced map[string]stamp
}

// stamp is how a file looked before it was last synced.
type stamp struct {
	inode    uint64
	size     int64
	modified time.Time
}

// settled is how old a file's last change must be before its stamp is trusted: clocks of file systems tick in milliseconds, so a later
// change within a tick has the same stamp.
const settled = 50 * time.Millisecond

// NewBarrier returns a barrier for the server that keeps its files in dir, which is ServerConfig.Dir.
func NewBarrier(dir string) *Barrier {
	return &Barrier{dir: dir, synced: map[string]stamp{}}
}

// Sync returns once everything that the server had acknowledged before the call, of the streams that ClickHouse must not be ahead of, is on
// disk, and the descriptions of all streams: a few bytes that the server writes once and does not sync. It syncs the files that changed
// since its last call, some at once, so it takes a few milliseconds; ctx is checked between files. An error means that what was
// acknowledged since the last call that returned nil must not be relied on.
func (b *Barrier) Sync(ctx context.Context) error {
	b.turn.Lock()
	defer b.turn.Unlock()
	changed := map[string]stamp{}
	seen := map[string]bool{}
	if err := b.changes(changed, seen); err != nil {
		return fmt.Errorf("sync NATS's files: %w", err)
	}
	now := time.Now()
	var files errgroup.Group
	files.SetLimit(8) // a journal commits many at once
	for path := range changed {
		files.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return syncFile(path)
		})
	}
	if err := files.Wait(); err != nil {
		return fmt.Errorf("sync NATS's files: %w", err)
	}
	for path, s := range changed {
		if now.Sub(s.modified) > settled {
			b.synced[path] = s
		}
	}
	if len(b.synced) > 4*len(seen)+1024 { // blocks come and go
		for path := range b.synced {
			if !seen[path] {
				delete(b.synced, path)
			}
		}
	}
	return nil
}

// changes finds the files and folders that do not look as they did when they were synced. What is removed meanwhile does not need a sync.
func (b *Barrier) changes(changed map[string]stamp, seen map[string]bool) error {
	streams := filepath.Join(b.dir, "jetstream", "$G", "streams")
	return filepath.WalkDir(b.dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			stream := filepath.Base(filepath.Dir(path))
			switch {
			case e.Name() == "obs": // how far consumers have read: ours begin where the marks say
				return filepath.SkipDir
			case e.Name() == "msgs" && filepath.Dir(filepath.Dir(path)) == streams && !slices.Contains(ledgerStreams, stream):
				return filepath.SkipDir
			}
		}
		var info fs.FileInfo
		if err == nil {
			info, err = e.Info()
		}
		if errors.Is(err, fs.ErrNotExist) && path != b.dir {
			return nil
		}
		if err != nil {
			return err
		}
		s := stamp{size: info.Size(), modified: info.ModTime()}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			s.inode = st.Ino
		}
		seen[path] = true
		if b.synced[path] != s {
			changed[path] = s
		}
		return nil
	})
}

// syncFile makes a file or a folder durable; one that is gone is left out.
func syncFile(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Durable returns once everything that NATS has acknowledged to this process, of the streams that ClickHouse must not be ahead of, survives
// a power cut. It does nothing where NATS is not embedded: a server elsewhere keeps what its own settings promise.
func (s *Streams) Durable(ctx context.Context) error {
	if s.Barrier == nil {
		return nil
	}
	return s.Barrier(ctx)
}
