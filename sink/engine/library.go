package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// LibraryEnv names the environment variable that points at a libchdb which is already there.
const LibraryEnv = "WARPLINE_LIBCHDB"

const libraryName = "libchdb.so"

// ErrLibrary is wrapped by every error of Locate, so that callers can tell "no library" from
// "the engine would not start".
var ErrLibrary = errors.New("the ClickHouse library is not available")

// elsewhere is the remedy that does not need the library, in words that are right for every command.
const elsewhere = `or run "warpline up --clickhouse HOST:PORT" with a server of yours`

// Locate returns the path of libchdb. It takes, in this order, the file named by WARPLINE_LIBCHDB,
// the copy in the user's cache folder, or a fresh copy that it fetches with the npm client, checks
// against the digest pinned in this package and puts into the cache.
//
// progress receives the words and the bar of a fetch; nil means none. Locate is safe to call from
// several goroutines and processes at once: one fetches, the others wait for it or for ctx.
// Every error wraps ErrLibrary and says which of the three ways out applies.
func Locate(ctx context.Context, progress io.Writer) (string, error) {
	if path := os.Getenv(LibraryEnv); path != "" {
		if err := regularFile(path); err != nil {
			return "", fmt.Errorf("%w: %s: %w; point %s at a libchdb.so of version %s, or unset it to have one fetched, "+elsewhere,
				ErrLibrary, LibraryEnv, err, LibraryEnv, Version)
		}
		return filepath.Abs(path)
	}
	rel, err := platformRelease()
	if err != nil {
		return "", fmt.Errorf("%w: %w; set %s to a libchdb built for this machine, "+elsewhere, ErrLibrary, err, LibraryEnv)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w: no cache folder for this user: %w; set %s to a libchdb, "+elsewhere, ErrLibrary, err, LibraryEnv)
	}
	if progress == nil {
		progress = io.Discard
	}
	path, err := cached(ctx, filepath.Join(cache, "warpline", "libchdb", Version), rel, progress)
	if err != nil {
		return "", fmt.Errorf("%w: %w; install npm and check the network, or set %s to a libchdb that is already there, "+elsewhere,
			ErrLibrary, err, LibraryEnv)
	}
	return path, nil
}

// cached returns the library in dir, fetching it under an exclusive lock when it is missing or has
// the wrong size (a disk that filled up while someone copied it there by hand).
func cached(ctx context.Context, dir string, rel release, progress io.Writer) (string, error) {
	path := filepath.Join(dir, libraryName)
	if sizeIs(path, rel.unpacked) {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := lockFile(ctx, filepath.Join(dir, "fetch.lock"), func() {
		fmt.Fprintln(progress, "another process is fetching the ClickHouse library; waiting for it")
	})
	if err != nil {
		return "", err
	}
	defer unlock()
	if sizeIs(path, rel.unpacked) {
		return path, nil // somebody else fetched it while this process waited
	}
	if err := fetch(ctx, dir, rel, progress); err != nil {
		return "", err
	}
	return path, nil
}

// lockFile takes an exclusive lock on path, creating it, and returns what releases it. The kernel
// drops the lock when its holder dies, so a killed holder never blocks the next one. wait is
// called once, when the lock is not free at once.
func lockFile(ctx context.Context, path string, wait func()) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for waited := false; ; {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { f.Close() }, nil
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, unix.EWOULDBLOCK):
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !waited {
			waited = true
			wait()
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("wait for the lock of %s: %w", path, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func regularFile(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file", path)
	}
	return nil
}

func sizeIs(path string, size int64) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() == size
}
