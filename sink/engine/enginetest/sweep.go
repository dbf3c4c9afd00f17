package enginetest

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const sharedPrefix = "warpline-engine-"

// sweepAfter is how old a folder must be: a younger one may belong to an engine which has not
// taken its lock yet.
const sweepAfter = 3 * time.Minute

// sweep removes the folders of shared engines that no process holds. ClickHouse locks data/status
// while it lives and removes it at an orderly end.
func sweep() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), sharedPrefix+"*"))
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil || time.Since(info.ModTime()) < sweepAfter {
			continue
		}
		f, err := os.Open(filepath.Join(dir, "data", "status"))
		free := errors.Is(err, os.ErrNotExist)
		if err == nil {
			free = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
			f.Close()
		}
		if free {
			os.RemoveAll(dir)
		}
	}
}
