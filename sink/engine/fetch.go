package engine

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// errDigest says that the bytes which arrived are not the bytes that were pinned.
var errDigest = errors.New("the fetched tarball does not match the pinned digest")

// fetch has npm download rel into a folder of its own within dir, checks it, and moves the library
// into dir. The caller holds the lock of dir. Nothing is visible under the library's name before
// it is whole and on disk.
func fetch(ctx context.Context, dir string, rel release, progress io.Writer) error {
	stale, _ := filepath.Glob(filepath.Join(dir, "fetch-*"))
	for _, old := range stale {
		os.RemoveAll(old) // left by a fetch that was killed; we have the lock, so it is not in use
	}
	tmp, err := os.MkdirTemp(dir, "fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)

	tarball, err := npmPack(ctx, tmp, rel, progress)
	if err != nil {
		return err
	}
	if err := verify(tarball, rel.integrity); err != nil {
		return err
	}
	return unpack(ctx, tarball, filepath.Join(dir, libraryName), tmp, rel, progress)
}

// npmPack runs `npm pack`, which downloads exactly the published tarball and runs none of its
// scripts. npm shows no progress here, so the bar follows the bytes that appear in its cache,
// which for this one call lies in tmp and goes away with it.
func npmPack(ctx context.Context, tmp string, rel release, progress io.Writer) (string, error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", errors.New("npm is not installed")
	}
	out := filepath.Join(tmp, "out")
	if err := os.Mkdir(out, 0o755); err != nil {
		return "", err
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, npm, "pack", rel.spec, "--pack-destination", out,
		"--cache", filepath.Join(tmp, "npm-cache"), "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error")
	cmd.Dir = tmp
	cmd.Stdout, cmd.Stderr = &limitedBuffer{buf: &said, left: 16 << 10}, &limitedBuffer{buf: &said, left: 16 << 10}
	cmd.WaitDelay = 5 * time.Second

	bar := newMeter(progress, "fetching the ClickHouse library", rel.packed)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Millisecond):
				bar.set(min(treeSize(tmp), rel.packed))
			}
		}
	}()
	err = cmd.Run()
	close(stop)
	<-done
	if err != nil {
		bar.abandon()
		if ctx.Err() != nil {
			return "", fmt.Errorf("npm pack %s: %w", rel.spec, context.Cause(ctx))
		}
		return "", fmt.Errorf("npm pack %s: %w: %s", rel.spec, err, lastLines(said.String(), 5))
	}
	bar.finish()
	found, err := filepath.Glob(filepath.Join(out, "*.tgz"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("npm pack %s left %d tarballs instead of one", rel.spec, len(found))
	}
	return found[0], nil
}

// verify compares the file with an npm integrity string (sha512, base64).
func verify(path, integrity string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha512.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := "sha512-" + base64.StdEncoding.EncodeToString(h.Sum(nil)); got != integrity {
		return fmt.Errorf("%w: want %s, got %s", errDigest, integrity, got)
	}
	return nil
}

// unpack writes the library of the tarball to path by way of tmp: write, sync, rename.
func unpack(ctx context.Context, tarball, path, tmp string, rel release, progress io.Writer) error {
	f, err := os.Open(tarball)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("tarball: %w", err)
	}
	for members := tar.NewReader(z); ; {
		head, err := members.Next()
		if err == io.EOF {
			return fmt.Errorf("tarball has no %s", rel.member)
		}
		if err != nil {
			return fmt.Errorf("tarball: %w", err)
		}
		if head.Name != rel.member || head.Typeflag != tar.TypeReg {
			continue
		}
		if head.Size != rel.unpacked {
			return fmt.Errorf("%s in the tarball has %d bytes, want %d", rel.member, head.Size, rel.unpacked)
		}
		return install(ctx, members, path, filepath.Join(tmp, libraryName), rel.unpacked, progress)
	}
}

func install(ctx context.Context, from io.Reader, path, part string, size int64, progress io.Writer) error {
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	defer f.Close()
	bar := newMeter(progress, "unpacking it", size)
	buf := make([]byte, 1<<20)
	var n int64
	for n < size {
		if ctx.Err() != nil {
			bar.abandon()
			return context.Cause(ctx)
		}
		k, err := io.ReadFull(from, buf[:min(int64(len(buf)), size-n)])
		if err == nil {
			_, err = f.Write(buf[:k])
		}
		if err != nil {
			bar.abandon()
			return fmt.Errorf("unpack %s: %w", libraryName, err)
		}
		n += int64(k)
		bar.set(n)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		bar.abandon()
		return fmt.Errorf("unpack %s: %w", libraryName, err)
	}
	if err := os.Rename(part, path); err != nil {
		return err
	}
	bar.finish()
	return syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// treeSize adds up the files below root; files that vanish meanwhile are not counted.
func treeSize(root string) (total int64) {
	_ = filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total
}

// limitedBuffer keeps the first bytes of what a command says and swallows the rest.
type limitedBuffer struct {
	buf  *bytes.Buffer
	left int
}

func (l *limitedBuffer) Write(p []byte) (int, error) {
	k := min(len(p), l.left)
	l.buf.Write(p[:k])
	l.left -= k
	return len(p), nil
}

// lastLines returns the last n lines of s that say something, joined to fit into one log line.
func lastLines(s string, n int) string {
	var lines []string
	for line := range strings.Lines(s) {
		line = strings.TrimSpace(line)
		if line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-n):], " | ")
}
