package engine_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warpline/warpline/sink/engine"
)

// pack makes a tarball as npm would publish it, with one library in it.
func pack(t *testing.T, member string, library []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for name, body := range map[string][]byte{"package/package.json": []byte("{}"), member: library} {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(body)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(body); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func integrity(b []byte) string {
	sum := sha512.Sum512(b)
	return "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

// fakeNPM puts an npm on the PATH that delivers the tarball and notes each call, and empties the
// user's cache. It returns the folder of the cached library and the file that notes the calls.
func fakeNPM(t *testing.T, tarball []byte) (cache, calls string) {
	t.Helper()
	home := t.TempDir()
	bin := filepath.Join(home, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	calls = filepath.Join(home, "calls")
	script := `#!/bin/sh
echo "$2" >> "` + calls + `"
while [ $# -gt 0 ]; do case "$1" in --pack-destination) dest=$2 ;; esac; shift; done
sleep 0.2
cp "` + filepath.Join(home, "tarball") + `" "$dest/it.tgz" || { echo "npm: no such package" >&2; exit 1; }
`
	if err := os.WriteFile(filepath.Join(bin, "npm"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if tarball != nil {
		if err := os.WriteFile(filepath.Join(home, "tarball"), tarball, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
	t.Setenv("HOME", home)
	t.Setenv(engine.LibraryEnv, "")
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "warpline", "libchdb", engine.Version), calls
}

func TestLocateFetchesOnceForAll(t *testing.T) {
	library := bytes.Repeat([]byte("library "), 500_000)
	tarball := pack(t, "package/libchdb.so", library)
	t.Cleanup(engine.SetRelease("@x/y@1", integrity(tarball), int64(len(tarball)), int64(len(library))))
	cache, calls := fakeNPM(t, tarball)
	if err := os.MkdirAll(filepath.Join(cache, "fetch-killed"), 0o755); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			path, err := engine.Locate(t.Context(), nil)
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, library) {
				t.Errorf("%s: %d bytes, %v", path, len(got), err)
			}
		})
	}
	group.Wait()
	asked, err := os.ReadFile(calls)
	if err != nil || string(asked) != "@x/y@1\n" {
		t.Errorf("npm was asked for %q (%v), want one call", asked, err)
	}
	if left, _ := filepath.Glob(filepath.Join(cache, "fetch-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	// A copy that was cut short is fetched again.
	if err := os.Truncate(filepath.Join(cache, "libchdb.so"), 100); err != nil {
		t.Fatal(err)
	}
	var words bytes.Buffer
	if _, err := engine.Locate(t.Context(), &words); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(words.String(), "fetching the ClickHouse library") || !strings.Contains(words.String(), "unpacking") {
		t.Errorf("progress says %q", words.String())
	}
}

func TestLocateRefuses(t *testing.T) {
	library := []byte("the library")
	good := pack(t, "package/libchdb.so", library)
	other := pack(t, "package/libchdb.so", []byte("the l1brary"))
	elsewhere := pack(t, "package/evil.so", library)
	long := pack(t, "package/libchdb.so", append(library, library...))
	for name, c := range map[string]struct {
		deliver   []byte
		integrity string
		says      string
	}{
		"other bytes":    {other, integrity(good), "does not match the pinned digest"},
		"no library":     {elsewhere, integrity(elsewhere), "no package/libchdb.so"},
		"longer library": {long, integrity(long), "want 11"},
		"no tarball":     {[]byte("x"), integrity([]byte("x")), "tarball"},
		"npm fails":      {nil, integrity(good), "npm: no such package"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(engine.SetRelease("@x/y@1", c.integrity, 100, int64(len(library))))
			cache, _ := fakeNPM(t, c.deliver)
			_, err := engine.Locate(t.Context(), nil)
			if !errors.Is(err, engine.ErrLibrary) {
				t.Fatalf("got %v", err)
			}
			for _, says := range []string{c.says, "install npm", engine.LibraryEnv, "--clickhouse"} {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("the error does not say %q: %v", says, err)
				}
			}
			if _, err := os.Stat(filepath.Join(cache, "libchdb.so")); err == nil {
				t.Error("a refused library is in the cache")
			}
		})
	}
}

func TestLocateByEnvironment(t *testing.T) {
	fakeNPM(t, nil)
	missing := filepath.Join(t.TempDir(), "gone.so")
	for _, path := range []string{missing, t.TempDir()} {
		t.Setenv(engine.LibraryEnv, path)
		_, err := engine.Locate(t.Context(), nil)
		if !errors.Is(err, engine.ErrLibrary) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "--clickhouse") {
			t.Errorf("%s: %v", path, err)
		}
	}
	// A file that is no library is refused by the child, and its words reach the caller.
	if err := os.WriteFile(missing, []byte("not a library"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv(engine.LibraryEnv, missing)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := engine.Start(ctx, engine.Config{Dir: t.TempDir()})
	if err == nil {
		t.Fatal("a text file is taken for the library")
	}
	for _, says := range []string{"open the ClickHouse library", missing, "point " + engine.LibraryEnv, "unset it",
		"warpline up --clickhouse"} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("the error does not say %q: %v", says, err)
		}
	}
	if !errors.Is(err, engine.ErrLibrary) || strings.Contains(err.Error(), "engine: ") || strings.Contains(err.Error(), "engine child") {
		t.Errorf("the error is %v", err)
	}
}
