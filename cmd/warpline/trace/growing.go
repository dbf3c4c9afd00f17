package trace

import (
	"context"
	"io"
	"os"
	"sync"
)

// growing is a file that is read while it is written. Close it.
type growing struct {
	file *os.File
	stop context.CancelFunc

	mu      sync.Mutex
	more    sync.Cond
	written int64
	ended   bool
	err     error // of writing, after ended
	at      int64 // up to which it was read
}

// grow begins to write a file, which it owns.
func grow(ctx context.Context, file *os.File, write func(context.Context, io.Writer) error) *growing {
	ctx, stop := context.WithCancel(ctx)
	g := &growing{file: file, stop: stop}
	g.more.L = &g.mu
	go func() {
		err := write(ctx, growingWriter{g})
		g.mu.Lock()
		defer g.mu.Unlock()
		g.ended, g.err = true, err
		g.more.Broadcast()
	}()
	return g
}

type growingWriter struct{ g *growing }

// Write appends to the file.
func (w growingWriter) Write(b []byte) (int, error) {
	n, err := w.g.file.Write(b)
	w.g.mu.Lock()
	w.g.written += int64(n)
	w.g.more.Broadcast()
	w.g.mu.Unlock()
	return n, err
}

// Read reads what is written, and waits for it. Behind the end it returns the error of writing, or io.EOF.
func (g *growing) Read(b []byte) (int, error) {
	g.mu.Lock()
	for g.at == g.written && !g.ended {
		g.more.Wait()
	}
	left, err := g.written-g.at, g.err
	g.mu.Unlock()
	if left == 0 {
		if err == nil {
			err = io.EOF
		}
		return 0, err
	}
	n, err := g.file.ReadAt(b[:min(int64(len(b)), left)], g.at)
	g.at += int64(n)
	return n, err
}

// Close ends writing, waits for its end, and returns its error.
func (g *growing) Close() error {
	g.stop()
	g.mu.Lock()
	defer g.mu.Unlock()
	for !g.ended {
		g.more.Wait()
	}
	g.file.Close()
	return g.err
}
