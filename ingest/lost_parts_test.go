package ingest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/aggregate"
	gpuflightfold "github.com/warpline/warpline/aggregate/gpuflight"
	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// house is a gateway and a worker that can be stopped, on a real NATS server.
type house struct {
	*rig
	source aggregate.Source
	keys   map[string][]string
}

func newHouse(t testing.TB, partitions int) *house {
	h := &house{rig: start(t, broker.Layout{Partitions: partitions}, nil), source: gpuflightfold.Source(), keys: map[string][]string{}}
	for _, name := range []string{"a", "b"} {
		h.keys[name] = h.keyOf(name, tenant.Limits{})
	}
	return h
}

// work runs a worker until stop.
func (h *house) work() (stop func()) {
	h.t.Helper()
	w := aggregate.New(h.streams, aggregate.Config{Sources: []aggregate.Source{h.source}, ChunkAge: 20 * time.Millisecond,
		Registerer: prometheus.NewRegistry()})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	h.t.Cleanup(stop)
	return stop
}

// kernels are n lines of a session with so many kernels each; from tells them from others.
func kernels(session string, from, n, each int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, `{"version":1,"type":"kernel_event_batch","session_id":%q,"batch_id":%d,"base_time_ns":1795175929972803352,"columns":`+
			`["dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"],"rows":[`, session, from+i+1)
		for j := range each {
			if j > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "[%d,1,7,%d,%d,0,32,0]", j, 100+j%7, (from+i)*each+j+1)
		}
		b.WriteString("]}\n")
	}
	return b.Bytes()
}

// sent is a window that a test sends, perhaps again.
type sent struct {
	tenant, session, id string
	body                []byte
	kernels             int
}

func windowOf(t testing.TB, name, session string, n, lines, each int) sent {
	return sent{tenant: name, session: session, id: fmt.Sprint("w", n), body: compress(t, kernels(session, 1000*n, lines, each)),
		kernels: lines * each}
}

// send sends a window and returns where its parts are in INGEST.
func (h *house) send(w sent) (parts []uint64) {
	h.t.Helper()
	before := h.last()
	a := h.post(w.session, w.body, append(window(w.id, "device", 0, w.body), h.keys[w.tenant]...)...)
	if a.status != http.StatusOK || a.Accepted != uint64(w.kernels) || !a.Whole {
		h.t.Fatalf("window %s: %d %s", w.id, a.status, a.raw)
	}
	for seq := before + 1; seq <= h.last(); seq++ {
		if msg, err := h.streams.Ingest.GetMsg(h.t.Context(), seq); err == nil {
			if e, _, err := stream.ParseEnvelope(msg.Data); err == nil && e.Kind == stream.KindGPUFlight {
				parts = append(parts, seq)
			}
		}
	}
	return parts
}

func (h *house) last() uint64 {
	h.t.Helper()
	info, err := h.streams.Ingest.Info(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	return info.State.LastSeq
}

// parts is how many parts INGEST has of a window's session.
func (h *house) parts(w sent) (n int) {
	h.t.Helper()
	of := stream.Deletion{Tenant: w.tenant, Session: w.session}
	info, err := h.streams.Ingest.Info(h.t.Context(), jetstream.WithSubjectFilter(of.Subjects("ingest.*", "")))
	if err != nil {
		h.t.Fatal(err)
	}
	for _, of := range info.State.Subjects {
		n += int(of)
	}
	return n
}

// lose deletes parts of INGEST by hand.
func (h *house) lose(parts ...uint64) {
	h.t.Helper()
	for _, seq := range parts {
		if err := h.streams.Ingest.DeleteMsg(h.t.Context(), seq); err != nil {
			h.t.Fatal(err)
		}
	}
}

// rows is how many rows of a table workers have published.
func (h *house) rows(table string) (n int) {
	h.t.Helper()
	for p := range h.streams.Partitions {
		for seq := uint64(1); ; {
			msg, err := h.streams.Rows.GetMsg(h.t.Context(), seq, jetstream.WithGetMsgSubject(stream.RowsSubject(p)))
			if err != nil {
				break
			}
			c, _, _, err := stream.ParseChunk(msg.Data)
			if err != nil {
				h.t.Fatal(err)
			}
			for _, r := range c.Tables {
				if r.Table == table {
					n += r.Rows
				}
			}
			seq = msg.Sequence + 1
		}
	}
	return n
}

// holds waits until something is so.
func (h *house) holds(what string, ok func() (bool, string)) {
	h.t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		is, have := ok()
		if is {
			return
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("%s: %s", what, have)
		}
	}
}

// counts waits until so many kernels are rows.
func (h *house) counts(n int) {
	h.t.Helper()
	h.holds("kernels", func() (bool, string) {
		have := h.rows("kernels_data")
		return have == n, fmt.Sprintf("%d, want %d", have, n)
	})
}

// folds waits until each partition's last message in INGEST is folded: a gateway tells of each partition apart.
func (h *house) folds() {
	h.t.Helper()
	s := h.streams
	for p := range s.Partitions {
		last, err := s.Ingest.GetLastMsgForSubject(h.t.Context(), stream.IngestFilter(p))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue // folded, and deleted
		}
		if err != nil {
			h.t.Fatal(err)
		}
		h.holds(fmt.Sprintf("partition %d is folded", p), func() (bool, string) {
			c := h.chunk(p)
			return c.Position >= last.Sequence, fmt.Sprint(c.Position, " of ", last.Sequence)
		})
	}
}

// chunk is a partition's last one.
func (h *house) chunk(p int) stream.Chunk {
	h.t.Helper()
	msg, err := h.streams.Rows.GetLastMsgForSubject(h.t.Context(), stream.RowsSubject(p))
	if err != nil {
		h.t.Fatal(err)
	}
	c, _, _, err := stream.ParseChunk(msg.Data)
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

// purge takes the messages of a subject out of INGEST.
func (h *house) purge(subject string, till ...jetstream.StreamPurgeOpt) {
	h.t.Helper()
	if err := h.streams.Ingest.Purge(h.t.Context(), append(till, jetstream.WithPurgeSubject(subject))...); err != nil {
		h.t.Fatal(err)
	}
}

// lacks waits until the audit names these windows, and no others.
func (h *house) lacks(want ...sent) {
	h.t.Helper()
	h.holds("windows that lack parts", func() (bool, string) {
		have, err := ingest.AuditParts(h.t.Context(), h.streams)
		if err != nil {
			h.t.Fatal(err)
		}
		named := 0
		for _, w := range want {
			for _, l := range have {
				if l.Tenant == w.tenant && l.Session == w.session && l.Window == w.id && l.Events > 0 &&
					strings.Contains(l.String(), fmt.Sprintf("window %q of session %q of tenant %s", w.id, w.session, w.tenant)) {
					named++
				}
			}
		}
		return named == len(want) && len(have) == len(want), fmt.Sprintf("%v, want %d", have, len(want))
	})
}

// found is what the roles found for the audit.
func (h *house) found() []broker.Finding {
	h.t.Helper()
	found, err := broker.Findings(h.t.Context(), h.streams.Marks)
	if err != nil {
		h.t.Fatal(err)
	}
	return found
}

// again sends a window until it is taken anew: gateways learn a moment later what workers found.
func (h *house) again(w sent) {
	h.t.Helper()
	before := h.metric("windows_total", "outcome", "lost_and_resent")
	h.holds("taken again: "+w.id, func() (bool, string) {
		h.send(w)
		return h.metric("windows_total", "outcome", "lost_and_resent") == before+1, "it is a repeat"
	})
}

// repeat sends a window that is recognised.
func (h *house) repeat(w sent) {
	h.t.Helper()
	before := h.metric("windows_total", "outcome", "repeat")
	h.send(w)
	if h.metric("windows_total", "outcome", "repeat") != before+1 {
		h.t.Errorf("window %s is taken again", w.id)
	}
}

// Parts that are deleted from INGEST by hand before they are folded are noticed, and their windows named; sent again, just these parts are
// folded, once. Windows beside them stay repeats.
func TestLostPartsAreTakenAgain(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		t.Run(fmt.Sprintf("sealed=%t", sealed), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, 2)
			var all []sent
			total := 0
			for i := range 12 {
				w := windowOf(t, []string{"a", "b"}[i%2], fmt.Sprint("s", i%3), i, 1+i%3, 10)
				all, total = append(all, w), total+w.kernels
			}
			large := windowOf(t, "a", "s1", 20, 100, 1024) // of several parts
			var places [][]uint64
			for _, w := range all {
				places = append(places, h.send(w))
			}
			parts := h.send(large)
			if len(parts) < 3 {
				t.Fatalf("%d parts", len(parts))
			}
			h.lose(places[4]...)
			h.lose(places[9]...)
			h.lose(parts[1]) // neither the first nor the last
			if sealed {
				for name := range h.keys {
					h.gateway.SealUploads(t.Context(), name)
				}
			}
			h.gateway.FlushDoor(t.Context())
			stop := h.work()
			h.lacks(all[4], all[9], large)
			h.holds("kernels of what is there", func() (bool, string) {
				have := h.rows("kernels_data")
				gone := total + large.kernels - have
				return gone > all[4].kernels+all[9].kernels && gone < large.kernels, fmt.Sprintf("%d of %d", have, total+large.kernels)
			})
			if found := h.found(); len(found) == 0 || found[0].Kind != broker.FindingUnfolded {
				t.Errorf("found %v", found)
			}
			for i, w := range all {
				if i != 4 && i != 9 {
					h.repeat(w)
				}
			}
			before := h.parts(large)
			h.again(large)
			if now := h.parts(large); now != before+1 {
				t.Errorf("%d parts for one", now-before)
			}
			h.again(all[4])
			stop() // a worker dies before it folds the last
			h.again(all[9])
			h.work()
			h.counts(total + large.kernels)
			h.lacks()
			for _, w := range append(all, large) {
				h.repeat(w)
			}
			h.gateway.FlushDoor(t.Context())
			h.send(windowOf(t, "b", "s0", 30, 1, 5)) // and when all of that is folded
			h.counts(total + large.kernels + 5)
			h.lacks()
		})
	}
}

// A worker that ends between the place of a lost part and what tells of it leaves a successor that knows what was passed.
func TestLostPartIsFoundBySuccessor(t *testing.T) {
	t.Parallel()
	h := newHouse(t, 1)
	first, second, third := windowOf(t, "a", "s", 1, 1, 10), windowOf(t, "a", "s", 2, 1, 10), windowOf(t, "b", "s", 3, 1, 10)
	h.send(first)
	h.lose(h.send(second)...)
	h.send(third)
	stop := h.work()
	h.counts(20)
	stop()
	stop = h.work() // and a successor's successor
	stop()
	h.gateway.FlushDoor(t.Context())
	h.work()
	h.lacks(second)
	if err := ingest.AcceptParts(t.Context(), h.streams); err != nil { // the audit is silent, and it is taken all the same
		t.Fatal(err)
	}
	h.lacks()
	h.again(second)
	h.counts(30)
	h.lacks()
	h.repeat(first)
	h.repeat(third)
}

// A purge by hand takes what gateways told of their uploads too: they tell it again.
func TestPurgedPartsAreTakenAgain(t *testing.T) {
	t.Parallel()
	h := newHouse(t, 2)
	var all []sent
	for i := range 6 {
		all = append(all, windowOf(t, []string{"a", "b"}[i%2], fmt.Sprint("s", i%3), i, 1, 10))
	}
	for _, w := range all[:3] {
		h.send(w)
	}
	h.gateway.FlushDoor(t.Context())
	stop := h.work()
	h.counts(30)
	stop()
	for _, w := range all[3:] {
		h.send(w)
	}
	h.gateway.FlushDoor(t.Context())
	if err := h.streams.Ingest.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 { // it misses what it told, and tells it again
		h.gateway.FlushDoor(t.Context())
	}
	h.work()
	h.lacks(all[3:]...)
	for _, w := range all[:3] {
		h.repeat(w)
	}
	for _, w := range all[3:] {
		h.again(w)
	}
	h.counts(60)
	h.lacks()
}

// A part is deleted while a worker runs that has not come to it.
func TestLostPartWhileAWorkerRuns(t *testing.T) {
	t.Parallel()
	h := newHouse(t, 1)
	gate := make(chan struct{})
	open := h.source.Open
	h.source.Open = func(f *aggregate.Fold) aggregate.Folding { return &gated{open(f), gate} }
	stop := h.work()
	random := rand.NewChaCha8([32]byte{})
	for i := range 16 { // more than a worker reads ahead
		filler := make([]byte, 450<<10)
		random.Read(filler)
		line := fmt.Appendf(nil, `{"type":"job_start","session_id":"gate","app":"%x","ts_ns":%d}`, filler, i)
		if a := h.post("gate", line, h.keys["b"]...); a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.raw)
		}
	}
	first, second := windowOf(t, "a", "s", 1, 1, 10), windowOf(t, "a", "s", 2, 1, 10)
	h.lose(h.send(first)...)
	h.send(second)
	h.gateway.FlushDoor(t.Context())
	close(gate)
	h.lacks(first)
	h.again(first)
	h.repeat(second)
	h.counts(20)
	h.lacks()
	stop()
}

// gated folds parts of the session gate once a channel is closed.
type gated struct {
	aggregate.Folding
	gate chan struct{}
}

func (g *gated) Fold(s aggregate.State, p *aggregate.Part, body []byte) {
	if p.Env.Session == "gate" {
		<-g.gate
	}
	g.Folding.Fold(s, p, body)
}

// Nothing is told as lost that is there: resends, resumed uploads, repeats, sessions of two tenants, a gateway and workers that come and
// go, INGEST that gives up what was folded.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	s := brokertest.Start(t, broker.Layout{Partitions: 2})
	h := &house{rig: startOn(t, s, nil), source: gpuflightfold.Source(), keys: map[string][]string{}}
	for _, name := range []string{"a", "b"} {
		h.keys[name] = h.keyOf(name, tenant.Limits{})
	}
	total := 0
	for round := range 4 {
		stop := h.work()
		for i := range 10 {
			w := windowOf(t, []string{"a", "b"}[i%2], fmt.Sprint("s", i%4), 100*round+i, 1, 10)
			h.send(w)
			if i%3 == 0 {
				h.send(w)
			}
			total += w.kernels
			if i == 5 {
				h.gateway.FlushDoor(t.Context())
			}
			if i == 7 {
				stop()
				stop = h.work()
			}
		}
		h.counts(total)
		stop()
		h.gateway.FlushDoor(t.Context())
		if round == 1 { // as workers do when there is no room; and what a gateway told of a partition is lost before a worker came to it
			for p := range s.Partitions {
				h.purge(stream.IngestFilter(p), jetstream.WithPurgeSequence(h.chunk(p).Position+1))
			}
			h.purge(stream.DoorSubject(0, "*"))
		}
		if round == 2 {
			h.gateway.Close()
			h.rig = startOn(t, s, nil)
		}
	}
	h.gateway.FlushDoor(t.Context())
	h.work()
	last := windowOf(t, "a", "s0", 900, 1, 7)
	h.send(last)
	h.gateway.FlushDoor(t.Context())
	h.counts(total + 7)
	h.folds()
	h.lacks()
	if found := h.found(); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}

// INGEST is made anew, beyond the sequences of before, when all is folded: what gateways tell of before is not told as lost.
func TestNothingOfBeforeIsLost(t *testing.T) {
	for _, running := range []bool{false, true} {
		t.Run(fmt.Sprintf("running=%t", running), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, 1)
			stop := h.work()
			for i := range 6 {
				h.send(windowOf(t, "a", "s", i, 1, 10))
				if i == 3 {
					h.gateway.FlushDoor(t.Context())
				}
			}
			h.counts(60)
			if !running {
				stop()
			}
			nextSecond()
			info, err := h.streams.Ingest.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			cfg := info.Config
			if err := h.streams.JS.DeleteStream(t.Context(), cfg.Name); err != nil {
				t.Fatal(err)
			}
			cfg.FirstSeq = info.State.LastSeq + 1
			if _, err := h.streams.JS.CreateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			for range 3 { // it misses what it told, and tells it again
				h.gateway.FlushDoor(t.Context())
			}
			if !running {
				h.work()
			}
			h.send(windowOf(t, "a", "s", 10, 1, 10))
			h.counts(70)
			h.lacks()
			for _, f := range h.found() {
				if f.Kind == broker.FindingUnfolded {
					t.Errorf("found %v", f)
				}
			}
		})
	}
}

// What gateways tell of a tenant behind its purge, of what came before it, gives the tenant no row of usage: it would be there again.
func TestPurgedTenantIsNotCounted(t *testing.T) {
	t.Parallel()
	h := newHouse(t, 1)
	h.send(windowOf(t, "a", "s", 1, 1, 10))
	h.send(windowOf(t, "b", "s", 2, 1, 10))
	tombstone, err := stream.AppendEnvelope(nil, &stream.Envelope{Tenant: "a", Kind: stream.KindDelete, Identity: "delete-1", Last: true,
		ReceivedAt: time.Now().UnixNano(), Delete: &stream.Deletion{ID: "1", Tenant: "a"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.streams.JS.Publish(t.Context(), stream.IngestSubject(0, "a", stream.PurgeToken), tombstone); err != nil {
		t.Fatal(err)
	}
	h.gateway.FlushDoor(t.Context())
	h.work()
	h.send(windowOf(t, "b", "s", 3, 1, 10))
	h.counts(30)
	h.gateway.FlushDoor(t.Context())
	h.holds("usage behind the purge", func() (bool, string) {
		purged, rows, position := false, 0, uint64(0)
		for seq := uint64(1); ; seq++ {
			msg, err := h.streams.Rows.GetMsg(t.Context(), seq)
			if err != nil {
				break
			}
			c, _, packed, err := stream.ParseChunk(msg.Data)
			if err != nil {
				t.Fatal(err)
			}
			at := 0
			for _, r := range c.Tables {
				if r.Table == "usage_data" && purged {
					plain, err := r.Unpack(nil, packed[at:at+r.PackedLen])
					if err != nil {
						t.Fatal(err)
					}
					rows += r.Rows
					if bytes.Contains(plain[r.SchemaLen:], []byte{'a', 'b'}) { // tenants are a dictionary of texts, one behind the other
						t.Error("the purged tenant has a row")
					}
				}
				at += r.PackedLen
			}
			purged, position = purged || len(c.Deletes) > 0, c.Position
		}
		return purged && rows >= 2 && position >= h.last(), fmt.Sprint(purged, rows, position)
	})
}
