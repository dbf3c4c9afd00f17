package aggregate_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/stream"
)

// halves publishes n parts of ten kernels of which five wait for their details, which details publishes.
func (p *plant) halves(n int) (details func()) {
	from, session := p.sent, func(i int) string { return fmt.Sprintf("s%d", i%5) }
	for i := from; i < from+n; i++ {
		var b bytes.Buffer
		k, ns := tenKernels(&b, session(i), i)
		publish(p.t, p.s, stream.Envelope{Session: session(i), Identity: fmt.Sprintf("w%d", i)}, b.Bytes())
		p.kernels, p.total = p.kernels+k, p.total+ns
	}
	p.sent += n
	return func() {
		for i := from; i < from+n; i++ {
			publishDetails(p.t, p.s, session(i), i)
		}
	}
}

// ROWS is lost while kernels wait for their details, or have just stopped to, and snapshots too, the last ones or all. The worker that
// makes the state anew has only the messages' clock, and the clock of the worker before it was another, or its folds were late, which is
// the same: rows are exact, and, since the worker was stopped in order, rollups too.
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
		for _, kept := range []bool{false, true} { // an old snapshot; if not, another worker takes over before the loss
			t.Run(fmt.Sprintf("%s, snapshot %v", c.name, kept), func(t *testing.T) {
				t.Parallel()
				p := newPlant(t)
				now := &clock{ahead: c.ahead}
				worker := func() (stop func()) {
					cfg := fast
					cfg.RawWait, cfg.DetailWait, cfg.SnapshotChunks = c.wait, 10*time.Minute, 2
					return start(t, p.s, cfg.WithClock(now.at))
				}
				stopSink := p.sink()
				stopWorker := worker()
				p.send(10)
				p.settled("before")
				details := p.halves(10)
				p.send(5)
				p.shown(p.kernels-50, p.kernels)
				snapshots := p.snapshots() // of a time at which they still wait, if the machine is not too busy
				p.send(5)
				waiting := uint64(50)
				if c.released {
					waiting = 0
				}
				p.shown(p.kernels-waiting, p.kernels-waiting)
				if !kept {
					snapshots = nil
					stopWorker()
					stopWorker = worker()
				}
				stopWorker()
				p.marked()
				stopSink()
				p.putSnapshots(snapshots)
				p.remake(stream.RowsStream, 0)
				worker()
				p.sink()
				p.send(5)
				p.shown(p.kernels-waiting, p.kernels-waiting)
				details()
				p.settled("after the loss")
			})
		}
	}
}

// snapshot is an object of the store of snapshots.
type snapshot struct {
	meta jetstream.ObjectMeta
	body []byte
}

// snapshots copies those that there are.
func (p *plant) snapshots() (all []snapshot) {
	p.t.Helper()
	list, err := p.s.State.List(p.t.Context())
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		p.t.Fatal(err)
	}
	for _, info := range list {
		body, err := p.s.State.GetBytes(p.t.Context(), info.Name)
		if errors.Is(err, jetstream.ErrObjectNotFound) {
			continue // a newer one has taken its place
		}
		if err != nil {
			p.t.Fatal(err)
		}
		all = append(all, snapshot{jetstream.ObjectMeta{Name: info.Name, Metadata: info.Metadata}, body})
	}
	return all
}

// putSnapshots leaves only these.
func (p *plant) putSnapshots(all []snapshot) {
	p.t.Helper()
	remakeObjects(p.t, p.s, stream.StateObjects)
	for _, s := range all {
		if _, err := p.s.State.Put(p.t.Context(), s.meta, bytes.NewReader(s.body)); err != nil {
			p.t.Fatal(err)
		}
	}
}

// marked waits until the sink's marks say that all chunks are inserted.
func (p *plant) marked() {
	p.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		behind := 0
		for n := range p.s.Partitions {
			entry, err := p.s.Marks.Get(p.t.Context(), stream.MarkKey(stream.Lane(n, p.s.Lanes)))
			if err != nil {
				p.t.Fatal(err)
			}
			var mark struct{ Partitions map[int]stream.Inserted }
			if err := json.Unmarshal(entry.Value(), &mark); err != nil {
				p.t.Fatal(err)
			}
			msg, err := p.s.Rows.GetLastMsgForSubject(p.t.Context(), stream.RowsSubject(n))
			if err != nil {
				p.t.Fatal(err)
			}
			if c, _, _, err := stream.ParseChunk(msg.Data); err != nil || c.Number != mark.Partitions[n].Chunk {
				behind++
			}
		}
		if behind == 0 {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%d partitions have chunks that are not inserted", behind)
		}
	}
}

// shown waits until at least so many kernels are in the table, and fails when there are more than most.
func (p *plant) shown(least, most uint64) {
	p.t.Helper()
	var got uint64
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if got = p.books().kernels; got >= least {
			break
		}
	}
	time.Sleep(300 * time.Millisecond)
	if got = p.books().kernels; got < least || got > most {
		p.t.Fatalf("%d kernels are in the table, and should be %d", got, most)
	}
}
