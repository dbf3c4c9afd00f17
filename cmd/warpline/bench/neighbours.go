package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/sync/errgroup"
)

// neighbour is a tenant that does all it can of one thing until its context ends.
type neighbour struct {
	name   string
	limits []string // flags of `tenant create`
	// before makes what the load needs, before the quiet tenant is measured; it may be nil.
	before func(ctx context.Context, n *noise) error
	load   func(ctx context.Context, n *noise) error
	// after waits until what the load has done is in SQL, and fails if it is not as it should be; it may be nil.
	after func(ctx context.Context, n *noise) error
}

// noise is what a neighbour sends with.
type noise struct {
	svc    *Service // with the neighbour's key
	sender *sender
	data   *Data // windows of kernels, nil where the neighbour needs none
	seed   uint64
	name   string
	raw    atomic.Int64
	next   atomic.Int64 // number of the next upload

	options   NoisyOptions
	sessions  atomic.Int64 // of its own that were answered with success
	beside    int          // deletions that were carried out while the quiet tenant sent
	said      string       // what it did, for people
	read      string       // a key to ask with, of neighbour sql, and one of the quiet tenant beside it
	quietRead string
}

// overLimit is the rate that neighbour over-limit has, and overBy how many times as much it sends.
const (
	overLimit = 20_000 // events a second
	overBy    = 10
)

// backlogKernels are some 1 GiB of lines.
const backlogKernels = 24_000_000

// neighbours in the order in which they are measured.
var neighbours = []neighbour{
	{name: "over-limit", limits: []string{"--limit-events-per-second", fmt.Sprint(overLimit)}, load: overTheLimit},
	{name: "backlog", load: backlog},
	{name: "tiny-uploads", load: func(ctx context.Context, n *noise) error { return n.flood(ctx, oneLine, false) }},
	{name: "sessions", before: sessionsBefore, load: func(ctx context.Context, n *noise) error { return n.flood(ctx, oneLine, true) },
		after: sessionsAfter},
	{name: "deletions", before: deletionsBefore, load: deletions, after: deletionsAfter},
	{name: "bad-long-lines", load: func(ctx context.Context, n *noise) error { return n.flood(ctx, badLongLines, false) }},
	{name: "rejects", load: func(ctx context.Context, n *noise) error { return n.flood(ctx, badLines, false) }},
	{name: "questions", load: questions},
	{name: "sql", before: sqlBefore, load: sql},
}

// noise makes a tenant for a neighbour and what it sends; nil for none.
func (o NoisyOptions) noise(ctx context.Context, svc *Service, n *neighbour, dir string) (*noise, error) {
	if n.load == nil {
		return nil, nil
	}
	if err := svc.warpline(ctx, append([]string{"tenant", "create", n.name}, n.limits...)...); err != nil {
		return nil, err
	}
	own := *svc
	var err error
	if own.Key, err = svc.newKey(ctx, n.name); err != nil {
		return nil, err
	}
	s := &noise{svc: &own, sender: &sender{url: own.URL, key: own.Key}, seed: o.Seed, name: n.name, options: o}
	s.sender.connect()
	if n.name == "sql" {
		if s.quietRead, err = svc.newKey(ctx, "quiet", "--scope", "read"); err != nil {
			return nil, err
		}
		if s.read, err = svc.newKey(ctx, n.name, "--scope", "read"); err != nil {
			return nil, err
		}
	}
	cfg := Config{Workload: Columnar, Sessions: 8, Seed: o.Seed, Run: "noise/" + n.name}
	switch n.name {
	case "over-limit":
		cfg.Kernels, cfg.WindowRows = overLimit*overBy*int(o.For/time.Second), overLimit/10
	case "backlog":
		cfg.Kernels = backlogKernels
	case "sql":
		cfg.Kernels = sqlKernels
	default:
		return s, nil
	}
	s.data, err = Generate(ctx, cfg, dir, nil)
	return s, err
}

// floodWays is how many uploads a flood has under way at once.
const floodWays = 32

// overTheLimit sends overBy times what the tenant may, and does not care for answers: what is refused is not sent again.
func overTheLimit(ctx context.Context, n *noise) error {
	var windows []*Window
	for i := range n.data.Sessions {
		for w := range n.data.Sessions[i].Windows[device] {
			windows = append(windows, &n.data.Sessions[i].Windows[device][w])
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(floodWays)
	start, sent := time.Now(), int64(0)
	for _, w := range windows {
		due := start.Add(time.Duration(float64(sent) / (overLimit * overBy) * float64(time.Second)))
		if err := pause(ctx, time.Until(due)); err != nil {
			break
		}
		sent += w.Events
		g.Go(func() error { _, err := n.once(ctx, w); return err })
	}
	return g.Wait()
}

// backlog sends all it has as fast as it is taken.
func backlog(ctx context.Context, n *noise) error {
	n.raw.Add(n.data.Counts.RawBytes)
	return n.sender.send(ctx, n.data)
}

// once posts a window and counts the answer, which it waits for also when ctx has ended. Only what the neighbour does wrong by itself is an
// error.
func (n *noise) once(ctx context.Context, w *Window) (status int, err error) {
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	status, _, err = n.sender.post(late, w)
	if status < 0 {
		return status, err
	}
	n.raw.Add(w.RawBytes)
	n.answered(status)
	return status, nil
}

func (n *noise) answered(status int) {
	n.sender.mu.Lock()
	defer n.sender.mu.Unlock()
	if n.sender.answers == nil {
		n.sender.answers = map[int]int{}
	}
	n.sender.answers[status]++
}

// flood posts windows with one body until the context ends, each of them new, in one session or each in a session of its own.
func (n *noise) flood(ctx context.Context, body func(session string) []byte, sessions bool) error {
	return n.floodOf(ctx, body, sessions, 0)
}

// floodOf is flood of the neighbour's first so many windows, 0: without a bound.
func (n *noise) floodOf(ctx context.Context, body func(session string) []byte, sessions bool, most int64) error {
	one := uuid("noise", n.seed, n.name)
	g, ctx := errgroup.WithContext(ctx)
	for range floodWays {
		g.Go(func() error {
			var buf bytes.Buffer
			gz := gzip.NewWriter(&buf)
			raw := body(one)
			for ctx.Err() == nil {
				i := n.next.Add(1)
				if most > 0 && i > most {
					return nil
				}
				session := one
				if sessions {
					session = uuid("noise", n.seed, n.name, i)
					raw = body(session)
				}
				if buf.Len() == 0 || sessions {
					buf.Reset()
					gz.Reset(&buf)
					gz.Write(raw)
					if err := gz.Close(); err != nil {
						return err
					}
				}
				b := buf.Bytes()
				w := &Window{Session: session, Channel: Channels[device], Sequence: int(i), ID: uuid("noise window", n.seed, n.name, i),
					CRC32: crc32.ChecksumIEEE(b), RawBytes: int64(len(raw)), GzBytes: int64(len(b)), body: b}
				status, err := n.once(ctx, w)
				if err != nil {
					return err
				}
				if sessions && status == http.StatusOK {
					n.sessions.Add(1)
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// oneLine is the first line of a session.
func oneLine(id string) []byte {
	s := &session{id: id, cfg: Config{Start: defaultStart}}
	return s.jobStart()
}

// badLongLines are lines that are no JSON, each of 60 KiB: bytes that the service keeps for who looks at rejects.
func badLongLines(string) []byte {
	line := strings.Repeat("this is not JSON, and there is much of it; ", 60<<10/43) + "\n"
	return bytes.Repeat([]byte(line), 64)
}

// badLines are short lines of a type that nobody knows.
func badLines(string) []byte {
	return bytes.Repeat([]byte(`{"type":"kernel_event_batch","rows":"not rows","columns":7}`+"\n"), 4096)
}

// heavy is the heaviest question that a tenant has an answer to: all kernels, by name, sorted.
const heavy = "SELECT kernel, stream_id, quantileExact(0.99)(duration_ns) AS p99, uniqExact(corr_id) FROM kernels " +
	"GROUP BY kernel, stream_id ORDER BY p99 DESC FORMAT Null"

// questions asks without an end, four at once.
func questions(ctx context.Context, n *noise) error {
	g, ctx := errgroup.WithContext(ctx)
	for range 4 {
		g.Go(func() error {
			for ctx.Err() == nil {
				resp, err := n.svc.Read.post(ctx, heavy)
				if err != nil {
					return nil
				}
				resp.Body.Close()
				if resp.StatusCode == http.StatusBadRequest || resp.StatusCode == http.StatusNotFound {
					return errors.New("the heavy question is wrong: " + resp.Status)
				}
				n.answered(resp.StatusCode)
			}
			return nil
		})
	}
	return g.Wait()
}
