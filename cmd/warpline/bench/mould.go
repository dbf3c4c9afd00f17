package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// mould makes many sessions out of a few: generating each would take more CPU than the service that is measured. They differ in their ids.
// Safe for concurrent use.
type mould struct {
	run    string
	of     []Session
	bodies [][len(Channels)][]byte // before compression, by session
	gz     sync.Pool               // of *gzip.Writer
}

// moulded is how many sessions are generated.
const moulded = 8

func newMould(ctx context.Context, cfg Config, dir string, progress func(string, int64, int64)) (*mould, error) {
	cfg.Sessions = moulded
	cfg.Kernels *= moulded
	cfg.WindowBytes, cfg.WindowRows = 1<<40, 0 // one window a channel
	d, err := Options{Config: cfg, Dir: dir, Progress: progress}.generate(ctx, cfg, "generate")
	if err != nil {
		return nil, err
	}
	defer removeWindows(d)
	m := &mould{run: cfg.Run, of: d.Sessions, bodies: make([][len(Channels)][]byte, moulded)}
	m.gz.New = func() any {
		z, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
		return z
	}
	for i := range d.Sessions {
		for c, windows := range d.Sessions[i].Windows {
			m.bodies[i][c], err = plain(windows[0].Path)
			if err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}

// plain reads a gzip file.
func plain(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("window: %w", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("window: %w", err)
	}
	return io.ReadAll(z)
}

// counts is what session n has.
func (m *mould) counts(n int64) Counts { return m.of[n%moulded].Counts }

// session makes session n, with its windows in memory.
func (m *mould) session(n int64) (*Session, error) {
	from := &m.of[n%moulded]
	s := &Session{ID: uuid("soak", m.run, strconv.FormatInt(n, 10)), Counts: from.Counts}
	for c, body := range m.bodies[n%moulded] {
		w := from.Windows[c][0]
		var b bytes.Buffer
		z := m.gz.Get().(*gzip.Writer)
		crc := counter{w: &b}
		z.Reset(&crc)
		_, err := z.Write(bytes.ReplaceAll(body, []byte(from.ID), []byte(s.ID)))
		if err == nil {
			err = z.Close()
		}
		m.gz.Put(z)
		if err != nil {
			return nil, fmt.Errorf("compress a window: %w", err)
		}
		w.Session, w.ID, w.Path = s.ID, uuid(s.ID, w.Channel, 1), "in memory"
		w.CRC32, w.GzBytes, w.body = crc.crc, crc.n, b.Bytes()
		s.Windows[c] = []Window{w}
	}
	return s, nil
}
