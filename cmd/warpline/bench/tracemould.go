package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// TraceCounts is what traces hold.
type TraceCounts struct {
	Events  int64 `json:"events"` // elements of the list
	Slices  int64 `json:"slices"` // and instants
	Calls   int64 `json:"calls"`  // slices alone
	Flows   int64 `json:"flow_ends"`
	Kernels int64 `json:"kernels"`
}

func (c *TraceCounts) add(o *TraceCounts, times int64) {
	c.Events, c.Slices, c.Calls = c.Events+times*o.Events, c.Slices+times*o.Slices, c.Calls+times*o.Calls
	c.Flows, c.Kernels = c.Flows+times*o.Flows, c.Kernels+times*o.Kernels
}

// traceMould is real traces one after the other, whose times and ids can be set anew. The text between them stays as it was written.
type traceMould struct {
	head, body   []piece // metadata, which comes once, and all else
	once, each   TraceCounts
	span, stride int64 // us that a round lasts, ids that it has
}

// piece is text and the number behind it.
type piece struct {
	text string
	// value is us since the round began of a time, whose decimals are in the text of the next piece, or a number among the round's ids.
	value int64
	is    byte // 't' a time, 'i' an id, 0 none
}

// moving finds the numbers that another round has anew.
var moving = regexp.MustCompile(`"(ts|id|correlation|External id|external id|wait_on_cuda_event_record_corr_id)":\s*"?(-?\d+)`)

// firstMicro is where times begin: as long as those of a host that has been up for some days, as Kineto writes them.
const firstMicro = 1_000_000_000_000

// newTraceMould reads every trace of a folder.
func newTraceMould(files fs.FS, folder string) (*traceMould, error) {
	names, err := fs.Glob(files, folder+"/*.json.gz")
	if err != nil || len(names) == 0 {
		return nil, errors.Join(errors.New("no traces in "+folder), err)
	}
	m := &traceMould{}
	for _, name := range names {
		f, err := files.Open(name)
		if err != nil {
			return nil, err
		}
		var trace struct{ TraceEvents []json.RawMessage }
		z, err := gzip.NewReader(f)
		if err == nil {
			err = json.NewDecoder(z).Decode(&trace)
		}
		f.Close()
		if err == nil {
			err = m.take(trace.TraceEvents)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return m, nil
}

// take puts the events of a trace behind what is there.
func (m *traceMould) take(events []json.RawMessage) error {
	first, last, most := int64(math.MaxInt64), int64(math.MinInt64), int64(0)
	type element struct {
		Ph, Cat string
		TS, Dur float64
	}
	read := make([]element, len(events))
	for i, raw := range events {
		if err := json.Unmarshal(raw, &read[i]); err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
		if at := int64(read[i].TS); at > 0 {
			first, last = min(first, at), max(last, at+int64(read[i].Dur))
		}
	}
	for i, raw := range events {
		to, counts := &m.body, &m.each
		if read[i].Ph == "M" {
			to, counts = &m.head, &m.once
		}
		counts.count(read[i].Ph, read[i].Cat)
		text, at := string(raw), 0
		for _, found := range moving.FindAllStringSubmatchIndex(text, -1) {
			n, err := strconv.ParseInt(text[found[4]:found[5]], 10, 64)
			if err != nil {
				return fmt.Errorf("event %d: %w", i, err)
			}
			is := byte('i')
			if text[found[2]:found[3]] == "ts" {
				n, is = max(n-first, 0)+m.span, 't'
			} else if n <= 0 { // none
				continue
			} else {
				most = max(most, n)
				n += m.stride
			}
			*to = append(*to, piece{text[at:found[4]], n, is})
			at = found[5]
		}
		*to = append(*to, piece{text: text[at:] + ",\n  "})
	}
	m.span += max(last-first, 0) + 1000
	m.stride += most + 1
	return nil
}

func (c *TraceCounts) count(phase, category string) {
	c.Events++
	switch phase {
	case "X":
		c.Slices++
		c.Calls++
		if category == "kernel" {
			c.Kernels++
		}
	case "i":
		c.Slices++
	case "s", "t", "f":
		c.Flows++
	}
}

// append writes one round, or what comes once.
func (m *traceMould) append(b []byte, pieces []piece, round int64) []byte {
	for i := range pieces {
		p := &pieces[i]
		b = append(b, p.text...)
		switch p.is {
		case 't':
			b = strconv.AppendInt(b, firstMicro+round*m.span+p.value, 10)
		case 'i':
			b = strconv.AppendInt(b, round*m.stride+p.value, 10)
		}
	}
	return b
}

// write writes the trace of one rank into a file.
func (m *traceMould) write(ctx context.Context, f *traceFile, rank, ranks int, rounds int64, tick func()) (err error) {
	file, err := os.Create(f.path)
	if err != nil {
		return fmt.Errorf("a trace's file: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	out := bufio.NewWriterSize(file, 1<<20)
	packed := counter{w: out}
	z := gzip.NewWriter(&packed)
	raw := counter{w: z}
	base := defaultStart.UnixNano() - firstMicro*1000
	fmt.Fprintf(&raw, "{\n  \"schemaVersion\": 1,\n  \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": %d, \"world_size\": %d},\n"+
		"  \"baseTimeNanoseconds\": %d,\n  \"displayTimeUnit\": \"ms\",\n  \"traceEvents\": [\n  ", rank, ranks, base)
	b := m.append(nil, m.head, 0)
	for n := range rounds {
		if err := ctx.Err(); err != nil {
			return err
		}
		if b = m.append(b, m.body, n); n == rounds-1 {
			b = []byte(strings.TrimSuffix(string(b), ",\n  "))
		}
		if _, err := raw.Write(b); err != nil {
			return err
		}
		b = b[:0]
		tick()
	}
	if _, err := io.WriteString(&raw, "\n  ],\n  \"traceName\": \"bench\"\n}\n"); err != nil {
		return err
	}
	if err := errors.Join(z.Close(), out.Flush()); err != nil {
		return err
	}
	f.raw, f.packed = raw.n, packed.n
	return nil
}
