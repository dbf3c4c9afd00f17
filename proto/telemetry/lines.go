package telemetry

import (
	"bytes"
	"io"
)

// line gives the next line that is not blank, as Python sees it. Each is a document of its own: one that is broken costs itself only.
func (d *Decoder) line() (*Record, error) {
	w := &d.w
	torn := false
	for looked := 0; ; {
		b := w.rest()
		n := bytes.IndexByte(b[looked:], '\n')
		switch {
		case n >= 0:
			n += looked
			w.pos += n + 1
		case w.err != nil:
			return nil, w.err
		case w.eof && len(b) == 0:
			return nil, io.EOF
		case w.eof:
			n = len(b)
			w.pos += n
			torn = d.o.TornTail
		case len(b) > d.most:
			return d.longLine()
		default:
			looked = len(b)
			w.more()
			continue
		}
		looked = 0
		if blank(b[:n]) {
			continue
		}
		if n > d.most {
			w.keepHead(b[:n])
			w.headAt = w.offset() - int64(n)
			return d.refused(nil, &Refusal{Code: RecordTooLarge, Message: d.tooLarge()}), nil
		}
		text := b[:n]
		if r := d.v.read(text); r != nil {
			if torn && (r.Code == BadJSON || r.Code == BadUTF8) {
				return nil, io.EOF
			}
			if r.Code == EventNotObject {
				r = d.notObject()
			}
			return d.refused(text, r), nil
		}
		return d.take(d.v.record.text), nil
	}
}

// longLine passes a line that does not fit in memory.
func (d *Decoder) longLine() (*Record, error) {
	w := &d.w
	w.keepHead(w.rest())
	w.headAt = w.offset()
	for {
		n := bytes.IndexByte(w.rest(), '\n')
		if n >= 0 {
			w.pos += n + 1
			w.headAt++ // the line end is not part of it
			break
		}
		w.pos = w.end
		if !w.more() {
			break
		}
	}
	if w.err != nil {
		return nil, w.err
	}
	return d.refused(nil, &Refusal{Code: RecordTooLarge, Message: d.tooLarge()}), nil
}
