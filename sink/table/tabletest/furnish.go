package tabletest

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/warpline/warpline/sink/engine/enginetest"
	"github.com/warpline/warpline/sink/table"
)

// piece is a file, folder or link of an engine's data.
type piece struct {
	path string // below the engine's folder
	mode fs.FileMode
	body []byte // of a link where it leads
}

var furniture struct {
	once   sync.Once
	pieces []piece
}

// Furnish fills the folder of an engine that was not started yet: the engine finds the schema of today there, as after a restart, and no
// rows. Who starts many engines saves the seconds that ClickHouse takes to make the views in each. The first that asks has it made. A test
// of a first start, of a full disk or of a power cut (nothing of this is synced) leaves its folder empty.
func Furnish(t testing.TB, dir string) {
	t.Helper()
	furniture.once.Do(func() { furniture.pieces = furnished(t) })
	if furniture.pieces == nil {
		t.Fatal("there is no schema to start with; the first test that asked for it says why")
	}
	for _, p := range furniture.pieces {
		path, err := filepath.Join(dir, p.path), error(nil)
		switch p.mode.Type() {
		case fs.ModeDir:
			err = os.MkdirAll(path, p.mode.Perm())
		case fs.ModeSymlink:
			err = os.Symlink(string(p.body), path)
		default:
			err = os.WriteFile(path, p.body, p.mode.Perm())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// furnished is what an engine leaves whose only work was to make the schema. Folders come before what is in them.
func furnished(t testing.TB) (all []piece) {
	t.Helper()
	e := enginetest.Start(t)
	conn := connect(t, e)
	err := Schema().Ensure(t.Context(), conn, table.Options{})
	conn.Close()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	if err := e.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(filepath.Join(e.Dir(), "data"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		p := piece{}
		info, err := d.Info()
		if err != nil {
			return err
		}
		p.mode = info.Mode()
		if p.path, err = filepath.Rel(e.Dir(), path); err != nil {
			return err
		}
		switch p.mode.Type() {
		case fs.ModeDir:
		case fs.ModeSymlink:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			p.body = []byte(to)
		default:
			if p.body, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		all = append(all, p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
