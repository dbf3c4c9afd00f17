// Package replay sends what GPU Flight clients left on disk the way the GPU Flight agent sends it: windows with their sidecars' headers,
// the four channels of a session at the same time, each channel in order, every window again until it is taken.
//
// Start with Open, which reads a path, and Sender.Send.
package replay

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Channels of a session folder, in the order in which they are listed.
var Channels = []string{"device", "scope", "system", "sass"}

// Window is one file to be posted.
type Window struct {
	FS   fs.FS
	Path string // within FS
	Size int64
	// Sidecar is nil for files that have none: they are sent without window headers.
	Sidecar *Sidecar
	Gzip    bool
}

// Sidecar is what the client says about a window.
type Sidecar struct {
	WindowID string `json:"window_id"`
	Session  string `json:"session_id"`
	Channel  string `json:"channel"`
	Sequence uint64 `json:"window_sequence"`
	File     string `json:"payload_file"`
	Bytes    int64  `json:"payload_bytes"`
	CRC32    uint32 `json:"payload_crc32"`
}

// Session is what is sent for one session: its windows by channel, in order.
type Session struct {
	ID       string
	Channels map[string][]Window
	// Complete says that session-complete follows: true for folders, false for lone files, which may be a part of a session.
	Complete bool
	// Running says that a client still writes the session. Unsent are files in its folder .tmp that are not sent: what the client still
	// writes, whose lines come in a window later, and files that are not logs.
	Running bool
	Unsent  []string
}

// Bytes adds up the files.
func (s *Session) Bytes() (n int64) {
	for _, c := range s.Channels {
		for _, w := range c {
			n += w.Size
		}
	}
	return n
}

// Open finds what there is to send at a path: a session folder, a folder of session folders at any depth, or one .log, .ndjson
// or .gz file, whose session id is read from its first line.
func Open(name string) ([]Session, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("%w: name a file or folder that is there; \"warpline send --help\" says what is read", err)
	}
	if info.IsDir() {
		sessions, err := Folders(os.DirFS(name), filepath.Base(absolute(name)))
		if err == nil && len(sessions) == 0 {
			err = fmt.Errorf("%s: no windows in it, nor exports of memory telemetry: a session folder of GPU Flight holds files such as "+
				"device.1.log.gz", name)
		}
		return sessions, err
	}
	if !slices.Contains([]string{".log", ".ndjson", ".gz", ".jsonl"}, filepath.Ext(name)) {
		return nil, fmt.Errorf("%s: neither a folder, nor a .log, .ndjson or .gz file, nor an export of memory telemetry (.json, .csv)", name)
	}
	w := Window{FS: os.DirFS(filepath.Dir(name)), Path: filepath.Base(name), Size: info.Size(), Gzip: filepath.Ext(name) == ".gz"}
	id, err := firstSession(w)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return []Session{{ID: id, Channels: map[string][]Window{"": {w}}}}, nil
}

func absolute(name string) string {
	if a, err := filepath.Abs(name); err == nil {
		return a
	}
	return name
}

// Folders finds session folders in fsys. The id of a session is its folder's name; root is the name of fsys itself.
func Folders(fsys fs.FS, root string) ([]Session, error) {
	found := map[string]*Session{}
	var begun []string // folders with a .tmp
	err := fs.WalkDir(fsys, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			if e != nil && e.Name() == ".tmp" {
				begun = append(begun, path.Dir(name))
				return fs.SkipDir
			}
			return err
		}
		channel, gz, ok := windowName(e.Name())
		if !ok {
			return nil
		}
		dir := path.Dir(name)
		id := path.Base(dir)
		if dir == "." {
			id = root
		}
		w := Window{FS: fsys, Path: name, Gzip: gz}
		info, err := e.Info()
		if err != nil {
			return err
		}
		w.Size = info.Size()
		w.Sidecar, err = readSidecar(fsys, dir, channel.name, channel.index)
		if err != nil {
			return err
		}
		s := found[dir]
		if s == nil {
			s = &Session{ID: id, Channels: map[string][]Window{}, Complete: true}
			found[dir] = s
		}
		s.Channels[channel.name] = append(s.Channels[channel.name], w)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read session folders: %w", err)
	}
	for _, s := range found {
		for _, c := range s.Channels {
			slices.SortFunc(c, func(a, b Window) int { return cmp.Compare(index(a.Path), index(b.Path)) })
		}
	}
	if err := addLeftovers(fsys, root, found, begun); err != nil {
		return nil, fmt.Errorf("read session folders: %w", err)
	}
	sessions := make([]Session, 0, len(found))
	for _, s := range found {
		sessions = append(sessions, *s)
	}
	slices.SortFunc(sessions, func(a, b Session) int { return cmp.Compare(a.ID, b.ID) })
	return sessions, nil
}

type channelFile struct {
	name  string
	index uint64
}

// windowName reads device.3.log.gz and device.3.log.
func windowName(file string) (c channelFile, gz, ok bool) {
	base, gz := strings.CutSuffix(file, ".gz")
	base, ok = strings.CutSuffix(base, ".log")
	name, number, found := strings.Cut(base, ".")
	n, err := strconv.ParseUint(number, 10, 64)
	return channelFile{name, n}, gz, ok && found && err == nil && slices.Contains(Channels, name)
}

func index(p string) uint64 {
	c, _, _ := windowName(path.Base(p))
	return c.index
}

func readSidecar(fsys fs.FS, dir, channel string, n uint64) (*Sidecar, error) {
	name := path.Join(dir, fmt.Sprintf(".gpufl-window.%s.%d.json", channel, n))
	b, err := fs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var s Sidecar
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("sidecar %s: %w", name, err)
	}
	return &s, nil
}
