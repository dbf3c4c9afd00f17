package ikp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
)

// folder writes files below one folder and nowhere else, whatever their paths and whatever links are there. They get their names when all
// are whole.
type folder struct {
	ctx   context.Context
	root  *os.Root
	files []string // written as partial(name)
	shown []string
	dirs  map[string]bool
}

func newFolder(ctx context.Context, dir string) (*folder, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	return &folder{ctx: ctx, root: root, dirs: map[string]bool{}}, err
}

func partial(name string) string { return path.Join(path.Dir(name), "."+path.Base(name)+".partial") }

func (f *folder) create(name string) (*os.File, error) {
	if err := f.ctx.Err(); err != nil {
		return nil, err
	}
	name = path.Clean(name) // "a/../b" needs no a
	if dir := path.Dir(name); !f.dirs[dir] {
		if err := f.root.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		f.dirs[dir] = true
	}
	file, err := f.root.Create(partial(name))
	if err == nil {
		f.files = append(f.files, name)
	}
	return file, err
}

func (f *folder) write(name string, write func(io.Writer) error) error {
	file, err := f.create(name)
	if err != nil {
		return err
	}
	f.shown = append(f.shown, name)
	return errors.Join(write(file), file.Close())
}

// end gives the files their names. If err says that they are not whole, it removes them and returns err.
func (f *folder) end(err error) error {
	defer f.root.Close()
	for _, name := range f.files {
		if err == nil {
			err = f.root.Rename(partial(name), name)
		}
		if err != nil {
			f.root.Remove(partial(name))
		}
	}
	return err
}

// writeBelow makes the folder out and writes below it; says says how the user named it. It returns the paths of what it wrote, to be shown.
func writeBelow(ctx context.Context, out, says string, write func(*folder) error) ([]string, error) {
	files, err := newFolder(ctx, out)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: give a folder that can be written to", says, err)
	}
	if err := files.end(write(files)); err != nil {
		return nil, fmt.Errorf("write below %s: %w: see whether there is space, and the right to write", out, err)
	}
	for i, name := range files.shown {
		files.shown[i] = filepath.Join(out, name)
	}
	return files.shown, nil
}
