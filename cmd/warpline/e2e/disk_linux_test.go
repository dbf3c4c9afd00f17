package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// disk is an ext4 volume of its own on a loop device, whose power can be cut.
type disk struct {
	t     testing.TB
	image string
	at    string // where it is mounted
}

// newDisk makes and mounts a volume. It needs root and a loop device; without them the test is skipped.
func newDisk(t testing.TB, bytes int64) *disk {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a power cut needs root, to mount a volume of its own: run as root, or leave it out")
	}
	for _, tool := range []string{"mkfs.ext4", "mount", "umount"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("a power cut needs %s: %v", tool, err)
		}
	}
	dir := t.TempDir()
	d := &disk{t: t, image: filepath.Join(dir, "disk.img"), at: filepath.Join(dir, "disk")}
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(d.image, bytes); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(d.at, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", d.image).CombinedOutput(); err != nil {
		t.Skipf("a power cut needs an ext4 volume: %v: %s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", d.image, d.at).CombinedOutput(); err != nil {
		t.Skipf("a power cut needs a loop device: %v: %s", err, out)
	}
	t.Cleanup(func() { d.unmount() })
	return d
}

// goingDown is ext4's ioctl to shut a mounted volume down (EXT4_IOC_SHUTDOWN), and withoutLog says not even to write the journal's tail.
const goingDown, withoutLog = 0x8004587d, 2

// cut ends every write to the volume at this instant, as a power cut does: what the file system has handed to the device is there, and
// nothing that it still holds (pages, the journal's running transaction) ever gets there. From here on everything on it is an I/O error.
func (d *disk) cut() {
	d.t.Helper()
	f, err := os.Open(d.at)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	if err := unix.IoctlSetPointerInt(int(f.Fd()), goingDown, withoutLog); err != nil {
		d.t.Skipf("a power cut needs a kernel that can shut ext4 down: %v", err)
	}
}

// unmount waits for the last process that uses the volume.
func (d *disk) unmount() {
	for range 900 {
		err := unix.Unmount(d.at, 0)
		if err == nil || err == unix.EINVAL { // not mounted
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	out, _ := exec.Command("fuser", "-vm", d.at).CombinedOutput()
	d.t.Errorf("cannot unmount %s:\n%s", d.at, out)
	unix.Unmount(d.at, unix.MNT_DETACH)
}

// replay mounts the volume again: the journal is replayed, and what it says is what a machine finds after a cut.
func (d *disk) replay() {
	d.t.Helper()
	d.unmount()
	eventually(d.t, 3*time.Minute, "mount after the cut", func() (bool, string) { // another mount may take the loop device that was free
		out, err := exec.Command("mount", "-o", "loop", d.image, d.at).CombinedOutput()
		return err == nil, fmt.Sprintf("%v: %s", err, out)
	})
}

// The instrument itself: what was synced is there after a cut, what was not is not.
func TestDiskIsCut(t *testing.T) {
	d := newDisk(t, 256<<20)
	write := func(name string, sync bool) *os.File {
		f, err := os.Create(filepath.Join(d.at, name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(make([]byte, 100_000)); err != nil {
			t.Fatal(err)
		}
		if sync {
			if err := f.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		return f
	}
	kept, lost := write("synced", true), write("written", false)
	d.cut()
	if _, err := kept.Write([]byte("late")); err == nil {
		t.Error("a write after the cut went through")
	}
	kept.Close()
	lost.Close()
	d.replay()
	if info, err := os.Stat(filepath.Join(d.at, "synced")); err != nil || info.Size() != 100_000 {
		t.Errorf("synced: %v, %v", info, err)
	}
	if info, err := os.Stat(filepath.Join(d.at, "written")); err == nil && info.Size() > 0 {
		t.Errorf("written and not synced: %d bytes are there after a cut at once", info.Size())
	}
}
