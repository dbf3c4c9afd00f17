package trace

import (
	"io"
	"slices"
)

// rereader reads pieces of a file again. Pieces in the order of time come from a few places of the file, and go on at each: where one does,
// more is read at once. Its zero value is ready, for one file.
type rereader struct {
	windows [4]window
	next    int // the window that is given up next
	long    []byte
}

// window is text that was read ahead.
type window struct {
	text []byte
	at   int64 // of text in the file
	end  int64 // of the piece that was asked last
}

const (
	aheadBytes = 64 << 10
	nearBytes  = 4 << 10 // between one piece and the next of a place
)

// read returns the text at a place. It is good until the next call.
func (r *rereader) read(file io.ReaderAt, at int64, size int) ([]byte, error) {
	if size > aheadBytes {
		r.long = slices.Grow(r.long[:0], size)[:size]
		_, err := file.ReadAt(r.long, at)
		return r.long, err
	}
	for i := range r.windows {
		w := &r.windows[i]
		if at >= w.at && at+int64(size) <= w.at+int64(len(w.text)) {
			w.end = at + int64(size)
			return w.text[at-w.at:][:size], nil
		}
	}
	w, n := (*window)(nil), size
	for i := range r.windows {
		if c := &r.windows[i]; c.end > 0 && at >= c.end && at < c.end+nearBytes {
			w, n = c, aheadBytes
			break
		}
	}
	if w == nil {
		w = &r.windows[r.next]
		r.next = (r.next + 1) % len(r.windows)
	}
	w.text = slices.Grow(w.text[:0], n)[:n]
	got, err := file.ReadAt(w.text, at)
	if got >= size {
		err = nil
	}
	w.text, w.at, w.end = w.text[:got], at, at+int64(size)
	return w.text[:min(size, got)], err
}
