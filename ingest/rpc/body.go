package rpc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// TooLarge is a message that is longer than its method takes.
type TooLarge struct{ Most int64 }

// Error says what the bound is.
func (e *TooLarge) Error() string {
	return fmt.Sprintf("the message is longer than %d bytes", e.Most)
}

// TooSlow is a message that did not come, or too slowly.
type TooSlow struct{ Cause error }

// Error renders the cause.
func (e *TooSlow) Error() string { return "the message came too slowly: " + e.Cause.Error() }

// Unwrap returns the cause.
func (e *TooSlow) Unwrap() error { return e.Cause }

// body is the body of a call: messages, each with five bytes before it, whether it is compressed and its length. gRPC reads a body as fast
// as it comes and holds what it has read, so this one waits before each message until the method asks for it, and takes its length from
// the budget before it is read.
type body struct {
	from   io.ReadCloser
	rc     *http.ResponseController
	bounds Bounds
	total  atomic.Int64 // bytes that came
	// inflates says that the method's side unpacks messages: gRPC is told that they are not compressed.
	inflates bool

	wanted chan struct{} // one for each message that is asked for
	closed chan struct{}
	once   sync.Once

	// of the reader's goroutine
	left  int64 // of the message that is being read
	began time.Time
	came  int64 // of it
	flag  bool

	mu     sync.Mutex
	taken  int64 // and not claimed yet
	err    error // why no more is read, other than the end of the body
	whole  chan bool
	ended  chan struct{} // the body has ended or failed
	finish sync.Once
}

func newBody(from io.ReadCloser, rc *http.ResponseController, b Bounds) *body {
	return &body{from: from, rc: rc, bounds: b, wanted: make(chan struct{}, 1), closed: make(chan struct{}),
		whole: make(chan bool, 1), ended: make(chan struct{})}
}

// next asks for a message and waits until all of it is here. At the end of the body gRPC says so.
func (b *body) next(ctx context.Context) (compressed bool, err error) {
	select {
	case b.wanted <- struct{}{}:
	case <-b.ended:
	}
	select {
	case compressed = <-b.whole:
		return compressed, nil
	case <-b.ended:
		b.mu.Lock()
		defer b.mu.Unlock()
		return false, b.err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// claim hands over what was taken from the budget.
func (b *body) claim() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.taken
	b.taken = 0
	return n
}

// fail ends the body.
func (b *body) fail(err error) error {
	b.finish.Do(func() {
		b.mu.Lock()
		if err != io.EOF {
			b.err = err
		}
		b.mu.Unlock()
		close(b.ended)
	})
	return err
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.left == 0 {
		select {
		case <-b.wanted:
		case <-b.closed:
			return 0, b.fail(http.ErrBodyReadAfterClose)
		}
		b.began, b.came = time.Now(), 0
		return b.begin(p)
	}
	n, err := b.read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if b.left == 0 {
		b.rc.SetReadDeadline(time.Time{}) // one left behind would end the call while the method works
		b.whole <- b.flag
		return n, nil // an error comes again
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		err = b.fail(err)
	}
	return n, err
}

// begin reads what is before a message. p has room for it.
func (b *body) begin(p []byte) (int, error) {
	var head [5]byte
	for n := 0; n < len(head); {
		got, err := b.read(head[n:])
		n += got
		if err == io.EOF && n > 0 && n < len(head) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil && n < len(head) {
			return 0, b.fail(err)
		}
	}
	size := int64(binary.BigEndian.Uint32(head[1:]))
	if size > b.bounds.Most {
		return 0, b.fail(&TooLarge{Most: b.bounds.Most})
	}
	if err := b.bounds.Take(size); err != nil {
		return 0, b.fail(err)
	}
	b.mu.Lock()
	b.taken += size
	b.mu.Unlock()
	b.left, b.flag = size, b.inflates && head[0] != 0
	if b.inflates {
		head[0] = 0
	}
	if size == 0 {
		b.rc.SetReadDeadline(time.Time{})
		b.whole <- b.flag
	}
	return copy(p, head[:]), nil
}

// read reads what comes, unless it comes too slowly.
func (b *body) read(p []byte) (int, error) {
	now := time.Now()
	deadline := now.Add(b.bounds.Still)
	late := b.began.Add(max(b.bounds.Grace, time.Duration(float64(b.came)/float64(max(b.bounds.LeastSpeed, 1))*float64(time.Second))))
	if b.left > 0 && late.Before(deadline) {
		deadline = late
	}
	b.rc.SetReadDeadline(deadline)
	n, err := b.from.Read(p)
	b.came += int64(n)
	b.total.Add(int64(n))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = &TooSlow{Cause: err}
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.from.Close()
}
