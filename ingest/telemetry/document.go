package telemetry

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/reject"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/telemetry"
)

// document is a spooled upload as a document that can be read several times.
type document struct {
	u      *ingest.Upload
	o      *options
	layout telemetry.Layout
	track  *telemetry.Track // of a TensorFlow tracker's file without events
}

// begin goes to the start.
func (d *document) begin() io.Reader { return d.u.Open() }

// survey reads the document to its end: only then it is known that the bytes are whole and that they are events at all. It returns the hash
// of what the document says, without its compression.
func (d *document) survey() (ingest.Digest, *ingest.Refusal) {
	sum := sha256.New()
	asSent := !d.u.Gzip() && d.u.Total() == d.u.Size() // the spool has its hash already
	heard := func() io.Reader {
		sum.Reset()
		d.o.names = mention{}
		if asSent {
			return io.TeeReader(d.begin(), &d.o.names)
		}
		return io.TeeReader(d.begin(), io.MultiWriter(sum, &d.o.names))
	}
	in := heard()
	var err error
	switch d.o.format {
	case formatCSV:
		_, err = telemetry.NewTable(in, d.o.Options)
	default:
		d.layout, err = telemetry.Survey(in, d.o.Options)
	}
	var unreadable *telemetry.DocumentError
	if d.o.format == formatTF && errors.As(err, &unreadable) && unreadable.Code == telemetry.NoEvents {
		d.track, err = telemetry.NewTrack(d.begin(), d.o.Options)
		in = heard()
	}
	if err == nil || errors.As(err, &unreadable) {
		// A damaged body is a better reason than what the damage made of the document.
		if _, broken := io.Copy(io.Discard, in); broken != nil {
			err = broken
		}
	}
	switch {
	case err == nil && asSent:
		return d.u.Sum(), nil
	case err == nil:
		return ingest.SumOf(sum), nil
	case errors.As(err, &unreadable):
		detail := clipText(unreadable.Message, maxMessageBytes)
		if d.o.format == formatJSON && recordALine(d.begin()) {
			detail += "; it looks like a record a line: send it with ?format=ndjson, or with Content-Type: application/x-ndjson"
		}
		return ingest.Digest{}, &ingest.Refusal{Status: http.StatusBadRequest, Code: string(unreadable.Code), Detail: detail}
	}
	var torn *ingest.TornError
	if !errors.As(err, &torn) {
		return ingest.Digest{}, ingest.Unavailable("spool_failed", "the gateway cannot read its spool folder", err)
	}
	if torn.Reason == reject.TornGzip {
		return ingest.Digest{}, &ingest.Refusal{Status: http.StatusBadRequest, Code: torn.Reason,
			Detail: torn.Detail + "; nothing was stored"}
	}
	return ingest.Digest{}, tooLarge(torn.Reason, torn.Detail)
}

// recordALine reports whether the first two lines that are not blank both begin a JSON object, which is never so in a single JSON document.
func recordALine(r io.Reader) bool {
	in, objects, atStart := bufio.NewReader(r), 0, true
	for {
		c, err := in.ReadByte()
		switch {
		case err != nil:
			return false
		case c == '\n':
			atStart = true
		case !atStart || c == ' ' || c == '\t' || c == '\r':
		case c != '{':
			return false
		default:
			if objects++; objects == 2 {
				return true
			}
			atStart = false
		}
	}
}

// open gives the records of the surveyed document.
func (d *document) open() (telemetry.Reader, error) {
	if d.track != nil {
		return d.track, nil
	}
	if d.o.format == formatCSV {
		return telemetry.NewTable(d.begin(), d.bounded())
	}
	return d.layout.Decoder(&forward{r: d.begin()}, d.bounded()), nil
}

// alerts gives the alerts beside the events of the surveyed document, once the events have been read.
func (d *document) alerts() *telemetry.Alerts {
	return d.layout.Alerts(&forward{r: d.begin()}, d.bounded())
}

func (d *document) bounded() telemetry.Options {
	o := d.o.Options
	o.MaxRecordBytes = int(min(d.u.Limits.MaxLine, stream.PartBytes-telemetry.FrameBytes))
	return o
}

// forward is an io.ReaderAt over what can only be read onwards.
type forward struct {
	r  io.Reader
	at int64
}

// ReadAt implements io.ReaderAt for offsets that never fall. Like io.Reader, it may give fewer bytes than there is room for.
func (f *forward) ReadAt(p []byte, off int64) (int, error) {
	if off < f.at {
		return 0, errors.New("BUG: ingest: a document is read backwards")
	}
	if skipped, err := io.CopyN(io.Discard, f.r, off-f.at); err != nil {
		f.at += skipped
		return 0, err
	}
	n, err := f.r.Read(p)
	f.at = off + int64(n)
	return n, err
}

// sessionKey is what a document of schema version 3 or later holds somewhere.
var sessionKey = []byte("session_id")

// mention is a writer that looks for sessionKey in what is written.
type mention struct {
	found bool
	tail  []byte
}

// Write implements io.Writer. It does not fail.
func (m *mention) Write(p []byte) (int, error) {
	if !m.found {
		keep := len(sessionKey) - 1
		m.tail = append(m.tail, p[:min(len(p), keep)]...)
		m.found = bytes.Contains(m.tail, sessionKey) || bytes.Contains(p, sessionKey)
		if len(p) > keep {
			m.tail = append(m.tail, p[len(p)-keep:]...)
		}
		m.tail = append(m.tail[:0], m.tail[max(0, len(m.tail)-keep):]...)
	}
	return len(p), nil
}
