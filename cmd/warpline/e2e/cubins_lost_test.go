package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/parca/parcatest"
	"github.com/warpline/warpline/proto/stream"
)

// convoy is what agents sent to a `warpline up` under attack.
type convoy struct {
	*parcaTotals
	s     *site
	agent *parcatest.Client
	toy   []byte
	n     int
	known map[string][]byte // cubins that were taken
}

func newConvoy(s *site) *convoy {
	s.t.Helper()
	return &convoy{parcaTotals: newParcaTotals(), s: s, agent: s.cluster.agent(s.grpcAddr, devKey), toy: parcaFile(s.t, "toy.sm_75.cubin"),
		known: map[string][]byte{}}
}

// cubin is the next one, or one over 1 MiB.
func (f *convoy) cubin(large bool) []byte {
	f.n++
	file := bytes.Clone(f.toy)
	if large {
		file = append(file, make([]byte, 3<<19)...)
	}
	return fmt.Appendf(file, "cubin %d", f.n) // bytes behind an ELF change nothing
}

// send sends some batches of three processes and some cubins, one over 1 MiB among them.
func (f *convoy) send(ctx context.Context) {
	f.s.t.Helper()
	for i := range 6 {
		f.n++
		rows := parcaBatch(fmt.Sprint("node-", i%3), f.n)
		rows = rows[:len(rows)-1] // not the CPU's, which would be rejects
		batch := parcatest.Arrow(rows)
		f.add(rows, len(batch))
		if err := f.agent.WriteArrow(ctx, batch); err != nil {
			f.s.t.Fatal(err)
		}
		if i < 3 {
			file := f.cubin(i == 2)
			offer(ctx, f.s.t, f.agent, fileID(file), file)
			f.took(file)
		}
	}
}

// took notes a cubin that was taken.
func (f *convoy) took(file []byte) {
	f.known[fileID(file)] = file
	f.events++
	f.bytes += uint64(len(file))
}

// check wants every batch once, every cubin with its lines, and books that balance.
func (f *convoy) check(what string) {
	f.s.t.Helper()
	f.s.checkParca(f.s.t, "dev", f.pc, f.kernels)
	for id := range f.known {
		f.lines(id, what)
	}
	f.s.books(f.s.t, "dev", f.events, 0, f.bytes)
}

// lines waits until a cubin has its lines.
func (f *convoy) lines(id, what string) {
	f.s.t.Helper()
	eventually(f.s.t, 3*time.Minute, what+": lines of "+id, func() (bool, string) {
		n := f.s.one("SELECT count() FROM cubin_lines WHERE tenant = 'dev' AND build_id = '" + id + "'")
		return n > 0, fmt.Sprint(n)
	})
}

// wanted waits until a cubin is wanted again.
func (f *convoy) wanted(ctx context.Context, id string, within time.Duration) {
	f.s.t.Helper()
	eventually(f.s.t, within, id+" is wanted again", func() (bool, string) {
		o, err := f.agent.Ask(ctx, id, parcatest.HashBuildID)
		return err == nil && o.Wanted, fmt.Sprintf("%+v %v", o, err)
	})
}

// offerAll offers every cubin again, as new processes make agents do; one that is not wanted is not sent.
func (f *convoy) offerAll(ctx context.Context) (sent int) {
	f.s.t.Helper()
	for id, file := range f.known {
		o, err := f.agent.Offer(ctx, id, file)
		if err != nil || o.Wanted != o.Stored || o.Reason == parcatest.InProgress {
			f.s.t.Errorf("%s is offered again: %+v, %v", id, o, err)
		}
		if o.Stored {
			sent++
		}
	}
	return sent
}

// records waits until the record of cubins has each of them, so that they are not wanted.
func (f *convoy) records() {
	f.s.t.Helper()
	f.s.nats(func(ctx context.Context, js jetstream.JetStream) {
		eventually(f.s.t, 3*time.Minute, "the record has every cubin", func() (bool, string) {
			kv, err := js.KeyValue(ctx, stream.CubinsBucket)
			if err != nil {
				return false, err.Error()
			}
			for id := range f.known {
				if _, err := kv.Get(ctx, stream.CubinKey("dev", id)); err != nil {
					return false, fmt.Sprintf("record of %s: %v", id, err)
				}
			}
			return true, ""
		})
	})
}

// The record of cubins is deleted while agents send, and removed from the disk before a start: the service says so and goes on, agents are
// asked for their cubins again, what they send again is a duplicate, every line stays, and the record is whole again.
func TestRecordOfCubinsLost(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	f := newConvoy(s)
	f.send(ctx)
	f.check("before")
	before := slices.Collect(maps.Keys(f.known))
	const bucket = "KV_" + stream.CubinsBucket
	s.nats(func(ctx context.Context, js jetstream.JetStream) {
		if err := js.DeleteStream(ctx, bucket); err != nil {
			t.Fatal(err)
		}
	})
	f.send(ctx) // while it is away, or just made anew
	eventually(t, 3*time.Minute, "the log says so", func() (bool, string) {
		return strings.Contains(s.log(), "bucket "+stream.CubinsBucket+" was gone and is made anew"), ""
	})
	f.wanted(ctx, before[0], 3*time.Minute) // what came after the loss may be in the new record
	if n := f.offerAll(ctx); n < len(before) {
		t.Errorf("%d cubins were sent again, want those %d at least that came before the record was lost", n, len(before))
	}
	f.records()
	f.check("after the record was deleted")

	s.kill("up")
	if err := os.RemoveAll(s.folder(bucket)); err != nil {
		t.Fatal(err)
	}
	s.begin()
	f.send(ctx)
	f.offerAll(ctx)
	f.records()
	f.check("after the record was removed from the disk")
	if n := f.offerAll(ctx); n > 0 {
		t.Errorf("%d cubins are wanted although the record has them", n)
	}
	eventually(t, 3*time.Minute, "the audit is content", func() (bool, string) {
		code, said := s.audit()
		return code == 0, said
	})
}

// INGEST loses a cubin that was accepted, as a power cut can make it, while its record stays: the record is found wrong, and agents are
// asked for the cubin again, so that its lines come. A cubin that waits for its worker keeps its record all the while.
func TestCubinIsLostAndItsRecordIsNot(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, "--partitions", "4")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	a := c.agent(c.grpcAddr, c.makeKey("acme"))
	toy := parcaFile(t, "toy.sm_75.cubin")
	lost, waits := append(bytes.Clone(toy), "lost"...), append(bytes.Clone(toy), "waits"...)
	c.kill("worker0")
	for _, file := range [][]byte{lost, waits} {
		offer(ctx, t, a, fileID(file), file)
	}
	nc, js, err := broker.Connect(ctx, broker.ConnectConfig{URL: "nats://" + c.natsAddr})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	ingest, err := js.Stream(ctx, stream.IngestStream)
	if err != nil {
		t.Fatal(err)
	}
	session := stream.CubinSession + fileID(lost)
	subject := stream.IngestSubject(stream.Partition("acme", session, 4), "acme", stream.SessionToken(session))
	if err := ingest.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
		t.Fatal(err)
	}
	wanted := func(file []byte) bool {
		t.Helper()
		o, err := a.Ask(ctx, fileID(file), parcatest.HashBuildID)
		if err != nil {
			t.Fatal(err)
		}
		return o.Wanted
	}
	eventually(t, 3*time.Minute, "the lost cubin is wanted again", func() (bool, string) { return wanted(lost), "" })
	if wanted(waits) {
		t.Error("a cubin that no worker has folded yet is wanted again")
	}
	offer(ctx, t, a, fileID(lost), lost)
	c.start("worker0")
	for _, file := range [][]byte{lost, waits} {
		eventually(t, 3*time.Minute, "its lines", func() (bool, string) {
			n := c.one("SELECT count() FROM cubin_lines WHERE tenant = 'acme' AND build_id = '" + fileID(file) + "'")
			return n > 0, fmt.Sprint(n)
		})
		if wanted(file) {
			t.Error("a cubin with lines is wanted again")
		}
	}
	eventually(t, 3*time.Minute, "the sink says so", func() (bool, string) {
		log := c.whole("sink")
		return strings.Contains(log, "cubins were recorded as stored and have no rows"), log
	})
	c.books(t, "acme", 2, 0, uint64(len(lost)+len(waits)))
	// The worker found the loss too, by what the gateway had told; that stays until somebody has read it.
	eventually(t, 3*time.Minute, "the audit names what was lost", func() (bool, string) {
		said, code := c.audit()
		return code == 5 && strings.Contains(said, "parts-lost in INGEST"), said
	})
	c.audit("--accept")
	c.auditClean(t)
}

// Two gateways take the same large cubin at once, and one of them is killed half-way; or the only one is, and the cubin is offered again.
// It is there once, with its lines, and nobody is asked for it again.
func TestGatewayDiesAmidALargeCubin(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, "--partitions", "4")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	second := freeAddr(t)
	c.addGateway("gateway2", freeAddr(t), second)
	c.start("gateway2")
	c.waitReady("gateway2", 3*time.Minute)
	key := c.makeKey("acme")
	a, b := c.agent(c.grpcAddr, key), c.agent(second, key)
	toy := parcaFile(t, "toy.sm_75.cubin")
	r := rand.New(rand.NewPCG(*seed, 6))
	var bytesSent uint64
	const rounds = 6
	cut := 0
	for n := range rounds {
		file := fmt.Appendf(append(bytes.Clone(toy), make([]byte, 12<<20)...), "large %d", n)
		id := fileID(file)
		bytesSent += uint64(len(file))
		both := n < 5
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := a.Offer(ctx, id, file); err != nil {
				cut++
			}
		})
		if both {
			wg.Go(func() {
				if o, err := b.Offer(ctx, id, file); err != nil || !o.Stored && o.Wanted {
					t.Errorf("round %d: the gateway that lives: %+v, %v", n, o, err)
				}
			})
		}
		if n > 1 {
			time.Sleep(time.Duration(20+r.IntN(400)) * time.Millisecond)
			c.kill("gateway")
			c.start("gateway")
			c.waitReady("gateway", 3*time.Minute)
		}
		wg.Wait()
		if o, err := b.Offer(ctx, id, file); err != nil || o.Wanted && (both || !o.Stored) {
			t.Errorf("round %d: offered to the other gateway: %+v, %v", n, o, err)
		}
		eventually(t, 3*time.Minute, "the first gateway knows it", func() (bool, string) {
			o, err := a.Ask(ctx, id, parcatest.HashBuildID)
			return err == nil && !o.Wanted, fmt.Sprintf("%+v %v", o, err)
		})
	}
	eventually(t, 3*time.Minute, "all have their lines", func() (bool, string) {
		n := c.one("SELECT uniqExact(build_id) FROM cubin_lines WHERE tenant = 'acme'")
		return n == rounds, fmt.Sprint(n)
	})
	c.books(t, "acme", rounds, 0, bytesSent)
	nc, js, err := broker.Connect(ctx, broker.ConnectConfig{URL: "nats://" + c.natsAddr})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	parts, err := js.Stream(ctx, "OBJ_"+stream.PartsObjects)
	if err != nil {
		t.Fatal(err)
	}
	info, err := parts.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d uploads were cut off; the store of large parts has %d bytes left", cut, rounds, info.State.Bytes)
	c.auditClean(t)
}
