package trace

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

func newFile(t *testing.T) *os.File {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// What is written is read while more comes, up to the end or the error of who writes; Close stops who writes.
func TestGrowingFile(t *testing.T) {
	broken := errors.New("the server went away")
	for _, end := range []error{nil, broken} {
		read := make(chan struct{})
		g := grow(t.Context(), newFile(t), func(_ context.Context, w io.Writer) error {
			io.WriteString(w, "first")
			<-read // it is read before the next is written
			io.WriteString(w, " second")
			return end
		})
		b := make([]byte, 5)
		if _, err := io.ReadFull(g, b); err != nil || string(b) != "first" {
			t.Fatalf("%q %v", b, err)
		}
		close(read)
		rest, err := io.ReadAll(g)
		if string(rest) != " second" || !errors.Is(err, end) || !errors.Is(g.Close(), end) {
			t.Errorf("%q, %v and %v, want %v", rest, err, g.Close(), end)
		}
	}
	g := grow(t.Context(), newFile(t), func(ctx context.Context, _ io.Writer) error { <-ctx.Done(); return ctx.Err() })
	closed := make(chan error)
	go func() { closed <- g.Close() }()
	select {
	case err := <-closed:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(60 * time.Second):
		t.Fatal("who writes is not stopped")
	}
}

// Any pieces in any order are read as they stand.
func TestReread(t *testing.T) {
	text := make([]byte, 1<<20)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range text {
		text[i] = byte(r.Uint32())
	}
	file := bytes.NewReader(text)
	var again rereader
	places := [3]int{0, 300_000, 700_000}
	for i := range 20_000 {
		size := 1 + r.IntN(300)
		if i%500 == 0 {
			size = aheadBytes + r.IntN(aheadBytes)
		}
		at := &places[r.IntN(3)]
		if *at += r.IntN(20); r.IntN(50) == 0 || *at+size > len(text) {
			*at = r.IntN(len(text) - size)
		}
		got, err := again.read(file, int64(*at), size)
		if err != nil && err != io.EOF || !bytes.Equal(got, text[*at:*at+size]) {
			t.Fatalf("%d bytes at %d: %v", size, *at, err)
		}
		*at += size
	}
	if got, err := again.read(file, int64(len(text)-5), 10); err != io.EOF || len(got) != 5 {
		t.Errorf("behind the end: %d bytes, %v", len(got), err)
	}
}
