package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/parca"
	"github.com/warpline/warpline/proto/parca/parcatest"
)

// cutParca is what Parca agents sent to a service whose power is cut: batches, each known by a function of its own, and cubins.
type cutParca struct {
	t       *testing.T
	addr    string
	toy     []byte
	mu      sync.Mutex
	batches []*cutBatch
	cubins  []*cutCubin
}

// cutBatch is a batch of three places and a kernel.
type cutBatch struct {
	function         string
	body             []byte
	samples, kernels uint64    // that it adds, in samples and ns
	accepted         time.Time // zero: no answer came
}

const cutBatchRows = 4

// cutCubin is a cubin that was offered.
type cutCubin struct {
	id       string
	file     []byte
	accepted time.Time // zero: no answer came
}

// batch makes the next batch.
func (p *cutParca) batch() *cutBatch {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.batches)
	b := &cutBatch{function: fmt.Sprint("_Z3cut", n)}
	at, node := 1795168800000000000+int64(n)*5e9, fmt.Sprint("cut-", n%6)
	var rows []parca.WireRow
	for i := range cutBatchRows - 1 {
		r := pcRow(at, node, "cubin-00000000a11ce121", "f997d878b89aff181c99b1498d76e7be", b.function, uint64(16*i),
			"smsp__pcsamp_warps_issue_stalled_wait", int64(1+n%7+i))
		b.samples += uint64(r.Value)
		rows = append(rows, r)
	}
	k := parcaBatch(node, n)[60]
	k.TimestampUnixNS, k.Stacktrace[0].SystemName = at, b.function
	b.kernels, b.body = uint64(k.Value), parcatest.Arrow(append(rows, k))
	p.batches = append(p.batches, b)
	return b
}

// cubin makes the next cubin; each fifth does not fit a part.
func (p *cutParca) cubin() *cutCubin {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.cubins)
	file := fmt.Appendf(slices.Clone(p.toy), "cut %d", n) // bytes behind an ELF change nothing
	if n%5 == 4 {
		file = append(make([]byte, 0, 5<<18), file...)[:5<<18]
		copy(file[len(file)-20:], fmt.Sprintf("cut %d", n))
	}
	c := &cutCubin{id: fileID(file), file: file}
	p.cubins = append(p.cubins, c)
	return c
}

func (p *cutParca) dial() *parcatest.Client {
	p.t.Helper()
	a, err := parcatest.Dial(p.addr, devKey)
	if err != nil {
		p.t.Fatal(err)
	}
	a.Retry = parcatest.Fast
	return a
}

// answered notes when an answer came.
func (p *cutParca) answered(at *time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at.IsZero() {
		*at = time.Now()
	}
}

// run sends from four agents until stop is called; one offers cubins, as they do: once.
func (p *cutParca) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range 3 {
		a := p.dial()
		wg.Go(func() {
			defer a.Close()
			for ctx.Err() == nil {
				b := p.batch()
				if a.WriteArrow(ctx, b.body) == nil {
					p.answered(&b.accepted)
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	a := p.dial()
	wg.Go(func() {
		defer a.Close()
		for ctx.Err() == nil {
			c := p.cubin()
			if o, err := a.Offer(ctx, c.id, c.file); err == nil && o.Stored {
				p.answered(&c.accepted)
			}
			time.Sleep(30 * time.Millisecond)
		}
	})
	return func() { cancel(); wg.Wait() }
}

// again sends batches that are lost or were not answered, and offers such cubins, as agents that begin anew do. A cubin that is not wanted
// has to have its lines.
func (p *cutParca) again(b *cutService) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	a := p.dial()
	defer a.Close()
	for range 3 {
		p.batch()
	}
	for _, x := range p.batches {
		if !x.accepted.IsZero() {
			continue
		}
		if err := a.WriteArrow(ctx, x.body); err != nil {
			p.t.Fatalf("%s is not accepted after the start: %v", x.function, err)
		}
		p.answered(&x.accepted)
	}
	for _, c := range p.cubins {
		if !c.accepted.IsZero() {
			continue
		}
		eventually(p.t, 3*time.Minute, "cubin "+c.id+" is there or wanted", func() (bool, string) {
			o, err := a.Offer(ctx, c.id, c.file)
			if err != nil || o.Stored {
				return err == nil, fmt.Sprint(err)
			}
			rows, err := b.tsv("SELECT any(lines) FROM warpline.cubins WHERE tenant = 'dev' AND build_id = '" + c.id + "' AND functions > 0")
			return err == nil && len(rows) == 1 && rows[0][0] != "0", fmt.Sprintf("not wanted (%s), and its lines are %v %v", o.Reason, rows, err)
		})
		p.answered(&c.accepted)
	}
}

// compare waits until SQL has all that was accepted, or nothing more came for so long, and returns when the oldest was accepted that is
// missing and how many are; from then on they count as not accepted. What is there twice is an error.
func (p *cutParca) compare(b *cutService, when string, patience time.Duration) (oldest time.Time, lost int) {
	p.t.Helper()
	numbers := func(sql string) (map[string]uint64, error) {
		rows, err := b.tsv(sql)
		out := map[string]uint64{}
		for _, r := range rows {
			out[r[0]], _ = strconv.ParseUint(r[1], 10, 64)
		}
		return out, err
	}
	var missing []*time.Time
	var wrong string
	for before, since := -1, time.Now(); time.Since(since) < patience; time.Sleep(200 * time.Millisecond) {
		missing, wrong = nil, ""
		var have [3]map[string]uint64
		for i, sql := range []string{
			"SELECT toString(function), sum(samples) FROM warpline.pc_samples WHERE tenant = 'dev' GROUP BY function",
			"SELECT toString(kernel), sum(duration_ns) FROM warpline.kernels WHERE tenant = 'dev' GROUP BY kernel",
			"SELECT toString(build_id), any(lines) FROM warpline.cubins WHERE tenant = 'dev' AND functions > 0 GROUP BY build_id",
		} {
			var err error
			if have[i], err = numbers(sql); err != nil {
				wrong = err.Error()
			}
		}
		if wrong != "" {
			continue
		}
		for _, x := range p.batches {
			s, k := have[0][x.function], have[1][x.function]
			if s != x.samples || k != x.kernels {
				if s != 0 || k != 0 {
					wrong += fmt.Sprintf("%s has %d samples and %d ns, want %d and %d\n", x.function, s, k, x.samples, x.kernels)
				} else if !x.accepted.IsZero() {
					missing = append(missing, &x.accepted)
				}
			}
		}
		for _, c := range p.cubins {
			if have[2][c.id] == 0 && !c.accepted.IsZero() {
				missing = append(missing, &c.accepted)
			}
		}
		if n := len(have[0]) + len(have[1]) + len(have[2]); n != before {
			before, since = n, time.Now()
		}
		if wrong == "" && len(missing) == 0 {
			break
		}
	}
	if wrong != "" {
		p.t.Errorf("%s: %.3000s", when, wrong)
	}
	for _, at := range missing {
		if oldest.IsZero() || at.Before(oldest) {
			oldest = *at
		}
		*at = time.Time{}
	}
	return oldest, len(missing)
}

// books wants usage to count every batch and every cubin once. All are accepted.
func (p *cutParca) books(b *cutService) {
	p.t.Helper()
	events, bytes := uint64(cutBatchRows*len(p.batches)+len(p.cubins)), uint64(0)
	for _, x := range p.batches {
		bytes += uint64(len(x.body))
	}
	for _, c := range p.cubins {
		bytes += uint64(len(c.file))
	}
	eventually(p.t, 3*time.Minute, "usage", func() (bool, string) {
		rows, err := b.tsv("SELECT sum(events) - sum(duplicates), sum(rejected), sum(bytes) FROM warpline.usage WHERE tenant = 'dev' AND " +
			"source = 'parca'")
		have := ""
		if len(rows) == 1 {
			have = strings.Join(rows[0], " ")
		}
		return have == fmt.Sprintf("%d 0 %d", events, bytes), fmt.Sprintf("events, rejected, bytes are %s (%v), want %d 0 %d", have, err, events,
			bytes)
	})
}
