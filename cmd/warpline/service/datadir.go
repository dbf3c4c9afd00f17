package service

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// DataDir is the folder of one `warpline up`, held by at most one process at a time.
//
//	warpline.json  where the running process listens (mode 0600; removed at an orderly end)
//	lock           held for as long as the process lives
//	key            the key of tenant "default", made at the first start (mode 0600)
//	nats/          JetStream's files
//	nats-token     what clients of the embedded NATS present
//	clickhouse/    the engine's folder, where the engine may look; its passwords are not there
//	writer-password, reader-password
//	               of the embedded ClickHouse's users warpline and reader
//	spool/         bodies that are being received
//
// Hold makes it, Release ends it. Its methods are not for several goroutines at once.
type DataDir struct {
	// Path is absolute.
	Path string
	lock *os.File
}

// secret returns what the named file holds, or makes it: 128 random bits that only this user may read. An empty file is as good as none:
// builds that did not sync it left it so after a power cut.
func (d *DataDir) secret(name string) (string, error) {
	old, err := os.ReadFile(d.File(name))
	if text := strings.TrimSpace(string(old)); err == nil && text != "" {
		return text, nil
	}
	text := rand.Text()
	return text, d.WriteSecret(name, []byte(text+"\n"))
}

// Running is what warpline.json says of the process that holds the folder. Addresses are host:port, and "" where nothing listens.
type Running struct {
	PID            int       `json:"pid"`
	Started        time.Time `json:"started"`
	Version        string    `json:"version"`
	Gateway        string    `json:"gateway"`
	GatewayGRPC    string    `json:"gateway_grpc,omitempty"`
	GatewayTLS     bool      `json:"gateway_tls,omitempty"`
	NATS           string    `json:"nats"`                // a URL, with the token
	NATSSync       string    `json:"nats_sync,omitempty"` // how often the embedded NATS syncs: a duration, or always
	ClickHouse     string    `json:"clickhouse"`
	ClickHouseHTTP string    `json:"clickhouse_http"`
	ClickHouseUser string    `json:"clickhouse_user,omitempty"` // who may read there: the embedded engine's reader, else default
}

var errHeld = errors.New("another warpline is using it")

// Hold creates the folder where it is missing and takes its lock. The caller calls Release.
func Hold(path string) (*DataDir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("data folder %s: %w", path, err)
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w: name a folder that you may write with --data", err)
	}
	f, err := os.OpenFile(filepath.Join(abs, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w: name a folder that you may write with --data", err)
	}
	if err := lock(f); err != nil {
		f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("data folder %s: lock: %w", path, err)
		}
		who := ""
		if r, err := ReadRunning(abs); err == nil {
			who = fmt.Sprintf(" (process %d, gateway %s)", r.PID, r.Gateway)
		}
		return nil, fmt.Errorf("data folder %s: %w%s: stop it, or name another folder with --data", path, errHeld, who)
	}
	// Whoever wrote it is gone, killed: commands must not go where it says.
	if err := os.Remove(filepath.Join(abs, "warpline.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.Close()
		return nil, fmt.Errorf("data folder: %w", err)
	}
	return &DataDir{Path: abs, lock: f}, nil
}

// lock takes the lock of a data folder. It tries a few times, since Held takes it for a moment too.
func lock(f *os.File) (err error) {
	for range 10 {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
	return err
}

// Held reports whether a process holds the folder; false where there is no folder.
func Held(path string) bool {
	f, err := os.Open(filepath.Join(path, "lock"))
	if err != nil {
		return false
	}
	defer f.Close() // lets go
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// errBetween is what commands say of a folder that is held and whose warpline.json is not there (yet, or any more).
func errBetween(path string) error {
	return fmt.Errorf("the warpline on %s is starting or stopping: try again in a few seconds", path)
}

// File is the path of a file or folder in it.
func (d *DataDir) File(name string) string { return filepath.Join(d.Path, name) }

// Release removes warpline.json and lets the folder go. It is called once.
func (d *DataDir) Release() {
	os.Remove(d.File("warpline.json"))
	d.lock.Close()
}

// publish writes warpline.json whole, so that `warpline key` and others find this process.
func (d *DataDir) publish(r Running) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write warpline.json: %w", err)
	}
	return d.WriteSecret("warpline.json", append(b, '\n'))
}

// ReadRunning reads warpline.json of the data folder path. The error is fs.ErrNotExist where nothing has started or all has ended in order.
// A process that was killed leaves the file: ask Held too.
func ReadRunning(path string) (r Running, err error) {
	b, err := os.ReadFile(filepath.Join(path, "warpline.json"))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%s: %w", filepath.Join(path, "warpline.json"), err)
	}
	return r, nil
}

// WriteSecret writes a file in the folder that only this user reads, whole or not at all, whatever ends the process or the machine: after
// it returned, the file survives a power cut.
func (d *DataDir) WriteSecret(name string, body []byte) error {
	path := d.File(name)
	if err := replaceSynced(path, body); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// replaceSynced makes the bytes durable before the name, and the name before it returns: a name that comes first is an empty file after a
// cut.
func replaceSynced(path string, body []byte) error {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// freeBytes is what an ordinary user may still write to the volume of path.
func freeBytes(path string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", path, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

// treeBytes adds up the files below root; what vanishes meanwhile counts nothing.
func treeBytes(root string) (total int64) {
	_ = filepath.WalkDir(root, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil
		}
		if info, err := e.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total
}
