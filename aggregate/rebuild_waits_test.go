package aggregate_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/stream"
)

// halves publishes n parts of ten kernels of which five wait for their details. The parts of details gives comes later.
func (p *plant) halves(n int) (details func()) {
	p.t.Helper()
	from := p.sent
	for i := from; i < from+n; i++ {
		session := fmt.Sprintf("s%d", i%5)
		var b bytes.Buffer
		fmt.Fprintf(&b, `{"version":1,"type":"kernel_event_batch","session_id":"%s","batch_id":%d,"base_time_ns":1795175929972803352,`+
			`"columns":["dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"],"rows":[`, session, i+1)
		for k := range 10 {
			if k > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "[%d,%d,7,%d,%d,0,32,%d]", k*10, 1+k%2, 1000+k, i*10+k+1, k%2)
			p.kernels, p.total = p.kernels+1, p.total+uint64(1000+k)
		}
		b.WriteString("]}\n")
		publish(p.t, p.s, stream.Envelope{Session: session, Identity: fmt.Sprintf("w%d", i)}, b.Bytes())
	}
	p.sent += n
	return func() {
		for i := from; i < from+n; i++ {
			session := fmt.Sprintf("s%d", i%5)
			var b bytes.Buffer
			for k := range 10 {
				if k%2 == 1 {
					b.WriteString(detailLine(session, i*10+k+1, "train"))
				}
			}
			publish(p.t, p.s, stream.Envelope{Session: session, Identity: fmt.Sprintf("w%d", i), Part: 1}, b.Bytes())
		}
	}
}

// ROWS and the snapshots are lost while kernels wait for their details, or have just stopped to. The worker that makes the state anew
// has only the messages' clock, and the clock of the worker before it was another, or its folds were late, which is the same: rows are
// exact.
func TestRowsLostWhileKernelsWait(t *testing.T) {
	for _, c := range []struct {
		name     string
		ahead    time.Duration // of the worker's clock, before NATS's
		wait     time.Duration // of kernels for their details
		released bool          // whether they are written without them before the loss
	}{
		{"ahead or late, they wait", time.Hour, time.Minute, false},
		{"behind, they wait", -time.Hour, time.Minute, false},
		{"ahead or late, they do not", time.Hour, time.Second, true},
		{"behind, they do not", -time.Hour, time.Second, true},
	} {
		for _, again := range []bool{false, true} { // whether another worker took over before the loss
			t.Run(fmt.Sprintf("%s, taken over %v", c.name, again), func(t *testing.T) {
				t.Parallel()
				p := newPlant(t)
				p.slack = 100 // rollups that were held back
				now := &clock{ahead: c.ahead}
				worker := func() (stop func()) {
					cfg := fast
					cfg.RawWait, cfg.DetailWait = c.wait, 10*time.Minute
					return start(t, p.s, cfg.WithClock(now.at))
				}
				stopSink := p.sink()
				stopWorker := worker()
				p.send(10)
				p.settled("before")
				details := p.halves(10)
				visible := p.kernels
				if !c.released {
					visible -= 50
				}
				p.shown(visible)
				if again {
					stopWorker()
					stopWorker = worker()
				}
				stopWorker()
				stopSink()
				remakeObjects(t, p.s, stream.StateObjects)
				p.remake(stream.RowsStream, 0)
				worker()
				p.sink()
				p.send(5)
				p.shown(visible + 50)
				details()
				p.settled("after the loss")
			})
		}
	}
}

// shown waits until so many kernels are in the table, and fails when there are more.
func (p *plant) shown(kernels uint64) {
	p.t.Helper()
	var got uint64
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if got = p.books().kernels; got >= kernels {
			break
		}
	}
	time.Sleep(300 * time.Millisecond)
	if got = p.books().kernels; got != kernels {
		p.t.Fatalf("%d kernels are in the table, and should be %d", got, kernels)
	}
}
