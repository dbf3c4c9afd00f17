package bench

import (
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/gzip"
)

// Channels are the client's, in the order of its names.
var Channels = [4]string{"device", "sass", "scope", "system"}

// Places of the channels in Channels.
const (
	device = iota
	sass
	scope
	system
)

// Window is one finished window of one channel: a gzip file, and what its headers say.
type Window struct {
	Session  string
	Channel  string
	Sequence int    // from 1
	ID       string // UUID
	CRC32    uint32 // of the file
	Path     string
	RawBytes int64
	GzBytes  int64
	Kernels  int64 // kernel rows in it
	Events   int64

	body []byte // the file, of a window that is not in one
}

// gzipLevel is the client's.
const gzipLevel = 6

// channel writes the windows of one channel of one session. Not safe for concurrent use.
type channel struct {
	dir, session, name string
	limitBytes         int64
	limitRows          int64

	done []Window
	now  Window // the open one; Sequence is 0 when there is none
	file *os.File
	gz   *gzip.Writer
	crc  counter
}

// counter passes bytes on and keeps their CRC and their number.
type counter struct {
	w   io.Writer
	crc uint32
	n   int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.crc = crc32.Update(c.crc, crc32.IEEETable, p[:n])
	c.n += int64(n)
	return n, err
}

// line writes one line, which ends with a newline, and ends the window before it when that is full, as the client does.
func (c *channel) line(b []byte, events, kernels int64) error {
	if c.file != nil && (c.now.RawBytes >= c.limitBytes || c.limitRows > 0 && c.now.Kernels >= c.limitRows && kernels > 0) {
		if err := c.end(); err != nil {
			return err
		}
	}
	if c.file == nil {
		if err := c.begin(); err != nil {
			return err
		}
	}
	if _, err := c.gz.Write(b); err != nil {
		return fmt.Errorf("write window: %w", err)
	}
	c.now.RawBytes += int64(len(b))
	c.now.Events += events
	c.now.Kernels += kernels
	return nil
}

func (c *channel) begin() error {
	seq := len(c.done) + 1
	c.now = Window{Session: c.session, Channel: c.name, Sequence: seq, ID: uuid(c.session, c.name, seq),
		Path: filepath.Join(c.dir, fmt.Sprintf("%s.%s.%d.log.gz", c.session, c.name, seq))}
	f, err := os.Create(c.now.Path)
	if err != nil {
		return fmt.Errorf("window file: %w: check that the folder for temporary files has space", err)
	}
	c.file, c.crc = f, counter{w: f}
	if c.gz == nil {
		c.gz, err = gzip.NewWriterLevel(&c.crc, gzipLevel)
		if err != nil {
			return fmt.Errorf("gzip: %w", err)
		}
		return nil
	}
	c.gz.Reset(&c.crc)
	return nil
}

// end finishes the open window; without one it does nothing.
func (c *channel) end() error {
	if c.file == nil {
		return nil
	}
	err := c.gz.Close()
	if e := c.file.Close(); err == nil {
		err = e
	}
	c.file = nil
	if err != nil {
		return fmt.Errorf("window file: %w: check that the folder for temporary files has space", err)
	}
	c.now.CRC32, c.now.GzBytes = c.crc.crc, c.crc.n
	c.done = append(c.done, c.now)
	return nil
}

// uuid returns a version 4 UUID made from its arguments, so that equal runs have equal ids.
func uuid(parts ...any) string {
	b := sha256.Sum256(fmt.Appendf(nil, "%#v", parts))
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}
