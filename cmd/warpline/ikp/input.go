package ikp

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Misuse is an error about what was named on the command line, before anything was read or written.
type Misuse struct{ Err error }

// Error is that of Err.
func (m Misuse) Error() string { return m.Err.Error() }

// Unwrap returns Err.
func (m Misuse) Unwrap() error { return m.Err }

func unusable(err error) error { return Misuse{err} }

// file is a file that is read, unpacked if it is packed, until ctx ends.
type file struct {
	io.Reader
	ctx   context.Context
	close func() error
}

func (f *file) Read(b []byte) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	return f.Reader.Read(b)
}

func (f *file) Close() error { return f.close() }

// openInput opens a file, - for stdin. It is unpacked if its name ends in .gz, or if it begins as gzip does and is not a regular file of
// the size that a buffer has to have: a buffer may begin with any bytes.
func openInput(ctx context.Context, name string, stdin io.Reader, size int64) (*file, error) {
	in, closing, exact := stdin, func() error { return nil }, false
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, unusable(err)
		}
		info, err := f.Stat()
		if err != nil || info.IsDir() {
			f.Close()
			return nil, unusable(errors.Join(err, fmt.Errorf("%s is a folder: name a file", name)))
		}
		in, closing, exact = f, f.Close, info.Mode().IsRegular() && info.Size() == size
	}
	buffered := bufio.NewReaderSize(in, 1<<16)
	magic, _ := buffered.Peek(3)
	if packed := bytes.Equal(magic, []byte{0x1f, 0x8b, 8}) && !exact; !packed && !strings.HasSuffix(name, ".gz") {
		return &file{buffered, ctx, closing}, nil
	}
	z, err := gzip.NewReader(buffered)
	if err != nil {
		closing()
		return nil, unusable(fmt.Errorf("unpack %s: %w: give a whole gzip file, or one without .gz in its name", name, err))
	}
	return &file{z, ctx, closing}, nil
}
