package e2e_test

import (
	endian "encoding/binary"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/parca/parcatest"
)

// parcaFiles: what `warpline send` makes of an agent's files.
func (c *cluster) parcaFiles(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, b []byte) string { return writeFile(t, filepath.Join(dir, name), string(b)) }
	pc, kernels := parcaSums(t)
	rows1, rows2 := parcaRows(t, "batch1.wire_rows.ndjson"), parcaRows(t, "batch2.wire_rows.ndjson")
	events := int64(len(rows1) + len(rows2))
	taken := func(what string, s sent, stored, duplicates int64) {
		t.Helper()
		if s.code != 0 || s.Verdict != "done" || s.Stored == nil || *s.Stored != stored || *s.Duplicates != duplicates || s.Rejected != 0 {
			t.Errorf("%s: %v, want %d stored, %d duplicates\n%s", what, s, stored, duplicates, s.stderr)
		}
	}
	refused := func(what string, s sent, status int, words ...string) {
		t.Helper()
		if s.code != 1 || len(s.Refused) != 1 || s.Refused[0].Status != status {
			t.Errorf("%s: %v, want a refusal with %d\n%s", what, s, status, s.stderr)
		}
		for _, w := range words {
			if !strings.Contains(s.stderr, w) {
				t.Errorf("%s does not say %q:\n%s", what, w, s.stderr)
			}
		}
	}

	t.Run("padata", func(t *testing.T) {
		key := c.makeKey("offline")
		plain, packed := put("1-1.padata", parcaFile(t, "offline_v2.padata")), put("1-1.padata.zst", parcaFile(t, "offline_v2.padata.zst"))
		taken("a file", c.send(t, key, plain), events, 0)
		taken("the same, packed", c.send(t, key, packed), 0, events)
		taken("a folder with both", c.send(t, c.makeKey("folder"), dir), events, events)
		for _, tenant := range []string{"offline", "folder"} {
			c.checkParca(t, tenant, pc, kernels)
		}
	})
	t.Run("a file that grows", func(t *testing.T) {
		key := c.makeKey("growing")
		whole := parcatest.Padata(rows1, rows2)
		first := 8 + 4 + int(endian.BigEndian.Uint32(whole[8:]))
		half := append([]byte{}, whole[:first+100]...)
		endian.BigEndian.PutUint16(half[6:], 1) // the agent counts a batch when it is written
		s := c.send(t, key, put("2-2.padata", half))
		if s.code != 0 || s.Stored == nil || *s.Stored != int64(len(rows1)) || s.Rejected != 0 {
			t.Errorf("half of a file: %v\n%s", s, s.stderr)
		}
		s = c.send(t, key, put("2-2.padata", whole[:first+100])) // the head says two, there is one
		if s.Stored == nil || *s.Stored != 0 || *s.Duplicates != int64(len(rows1)) || !strings.Contains(s.stderr, "send the file again") {
			t.Errorf("a torn file: %v\n%s", s, s.stderr)
		}
		taken("the whole file", c.send(t, key, put("2-2.padata", whole)), int64(len(rows2)), int64(len(rows1)))
		taken("the whole file again", c.send(t, key, filepath.Join(dir, "2-2.padata")), 0, events)
		c.checkParca(t, "growing", pc, kernels)
		zst := parcaFile(t, "offline_v2.padata.zst")
		s = c.send(t, c.makeKey("torn-zst"), put("3-3.padata.zst", zst[:len(zst)-20]))
		if s.Stored == nil || s.Events > events || !strings.Contains(s.stderr, "torn_file") {
			t.Errorf("a torn packed file: %v\n%s", s, s.stderr)
		}
	})
	t.Run("one stream", func(t *testing.T) {
		key := c.makeKey("stream")
		taken("batch1", c.send(t, key, put("stream1.padata", parcaFile(t, "batch1.v2.lz4.arrows"))), int64(len(rows1)), 0)
		taken("batch2", c.send(t, key, put("stream2.padata", parcaFile(t, "batch2.v2.lz4.arrows"))), int64(len(rows2)), 0)
		c.checkParca(t, "stream", pc, kernels)
		refused("a stream of v1 samples", c.send(t, key, put("v1.padata", parcaFile(t, "batch1.v1.samples.arrows"))), 400, ".padata file")
		refused("a torn stream", c.send(t, key, put("cut.padata", parcaFile(t, "batch1.v2.lz4.arrows")[:2000])), 400, "nothing was stored")
		refused("no batch", c.send(t, key, put("text.padata", []byte("no batch at all"))), 400, "Arrow IPC stream")
		refused("a file of the wrong name", c.send(t, key, put("cubin.padata", parcaFile(t, "toy.sm_75.cubin"))), 400,
			"neither a .padata file nor an Arrow IPC stream")
	})
	t.Run("cubins", func(t *testing.T) {
		key := c.makeKey("cubins")
		toy, stripped := parcaFile(t, "toy.sm_75.cubin"), parcaFile(t, "toy.sm_75.cubin.stripped")
		id := fileID(toy)
		known := func(size int) {
			t.Helper()
			eventually(t, 3*time.Minute, "the cubin", func() (bool, string) {
				got, err := c.tryRows("SELECT toString(build_id), toUInt64(size_bytes), toUInt64(status = 'ok'), count() FROM cubins " +
					"WHERE tenant = 'cubins' GROUP BY build_id, size_bytes, status")
				return err == nil && fmt.Sprint(got) == fmt.Sprintf("map[%s:[%d 1 1]]", id, size), fmt.Sprintf("%v %v", got, err)
			})
		}
		refused("stripped, without its build id", c.send(t, key, put("kernel.cubin", stripped)), 400, "<build id>.cubin")
		taken("stripped", c.send(t, key, put(id+".cubin", stripped)), 1, 0)
		known(len(stripped))
		taken("whole, of any name", c.send(t, key, put("kernel.cubin", toy)), 1, 0)
		known(len(toy))
		taken("whole again", c.send(t, key, put(id+".cubin", toy)), 0, 1)
		taken("stripped after it", c.send(t, key, put(id+".cubin", stripped)), 0, 1)
		known(len(toy))
		refused("no cubin", c.send(t, key, put("text.cubin", []byte("no cubin"))), 400, "is not a cubin")
		if s := c.send(t, "gpfl_wrong", filepath.Join(dir, "kernel.cubin")); s.code != 4 {
			t.Errorf("a wrong key: %v\n%s", s, s.stderr)
		}
	})
}
