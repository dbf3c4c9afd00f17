package enginetest

import (
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const sharedPrefix = "warpline-engine-"

// sweep removes the folders of shared engines that no process holds. A folder that is younger than
// a minute may belong to an engine which has not taken its lock yet.
func sweep() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), sharedPrefix+"*"))
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		f, err := os.Open(filepath.Join(dir, "data", "status"))
		if err != nil {
			continue
		}
		free := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
		f.Close()
		if free {
			os.RemoveAll(dir)
		}
	}
}
