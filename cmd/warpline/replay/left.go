package replay

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// What a client was writing when it died stays in .tmp of the session's folder: for each channel a log that did not become a window, its
// last line perhaps torn. Nothing else sends it. While the client lives it holds the session's lock, and the same lines come in a window
// later.

// leftovers finds the logs in the folder .tmp of a session's folder, in the order of Channels, and the names of other files there.
func leftovers(fsys fs.FS, dir string) (left []Window, others []string, err error) {
	entries, err := fs.ReadDir(fsys, path.Join(dir, ".tmp"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for _, channel := range Channels {
		i := slices.IndexFunc(entries, func(e fs.DirEntry) bool { return e.Type().IsRegular() && e.Name() == channel+".log" })
		if i < 0 {
			continue
		}
		info, err := entries[i].Info()
		if err != nil {
			return nil, nil, err
		}
		if info.Size() > 0 {
			left = append(left, Window{FS: fsys, Path: path.Join(dir, ".tmp", channel+".log"), Size: info.Size()})
		}
	}
	for _, e := range entries {
		channel, ok := strings.CutSuffix(e.Name(), ".log")
		if !ok || !slices.Contains(Channels, channel) {
			others = append(others, path.Join(dir, ".tmp", e.Name()))
		}
	}
	return left, others, nil
}

// addLeftovers puts what clients that died left after their windows. If the client still writes, it only notes the names, and that the
// session is not complete.
func addLeftovers(fsys fs.FS, root string, found map[string]*Session, dirs []string) error {
	for _, dir := range dirs {
		left, others, err := leftovers(fsys, dir)
		if err != nil {
			return err
		}
		if len(left)+len(others) == 0 {
			continue
		}
		s := found[dir]
		if s == nil {
			id := path.Base(dir)
			if dir == "." {
				id = root
			}
			s = &Session{ID: id, Channels: map[string][]Window{}, Complete: true}
			found[dir] = s
		}
		s.Unsent = others
		if held, err := isLocked(fsys, path.Join(dir, ".gpufl-session.lock")); err != nil {
			return err
		} else if held {
			s.Complete, s.Running = false, true
			for _, w := range left {
				s.Unsent = append(s.Unsent, w.Path)
			}
			continue
		}
		for _, w := range left {
			channel := strings.TrimSuffix(path.Base(w.Path), ".log")
			s.Channels[channel] = append(s.Channels[channel], w)
		}
	}
	return nil
}

// isLocked reports whether a process holds a record lock of the file. It does not take a lock itself.
func isLocked(fsys fs.FS, name string) (bool, error) {
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	file, ok := f.(*os.File)
	if !ok { // not a file on disk: nobody writes it
		return false, nil
	}
	lock := syscall.Flock_t{Type: syscall.F_RDLCK, Whence: io.SeekStart}
	if err := syscall.FcntlFlock(file.Fd(), syscall.F_GETLK, &lock); err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	return lock.Type != syscall.F_UNLCK, nil
}
