package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/parca"
	"github.com/warpline/warpline/proto/parca/parcatest"
)

var outage = flag.Duration("outage", 3*time.Second, "how long TestParcaAgentsComeBack is without a gateway")

// parcaBatch is the n-th batch of a process: samples of two kernels at 20 places for three reasons, kernels, and the CPU profile that the
// agent sends in every batch.
func parcaBatch(node string, n int) []parca.WireRow {
	const base = 1795168800000000000
	at := int64(base + n*5_000_000_000)
	reasons := []string{"smsp__pcsamp_warps_issue_stalled_wait", "smsp__pcsamp_warps_issue_stalled_long_scoreboard",
		"smsp__pcsamp_sample_count"}
	var rows []parca.WireRow
	for i := range 60 {
		r := pcRow(at+int64(i), node, "cubin-00000000a11ce121", "f997d878b89aff181c99b1498d76e7be", fmt.Sprint("_Z4loadi", i%2),
			uint64(16*(i%20)), reasons[i%3], int64(1+i%7))
		rows = append(rows, r)
	}
	for i := range 5 {
		r := pcRow(at+int64(i), node, "", "", fmt.Sprint("_Z4loadi", i%2), 0, "", int64(1000+i))
		r.Labels = map[string]string{"node": node, "comm": "train", "cuda_device": "0", "cuda_stream": "7"}
		r.SampleType, r.SampleUnit, r.PeriodType, r.Period = "gpu_kernel_time", "nanoseconds", "gpu_kernel_time", 1
		r.Stacktrace[0].FrameType, r.Stacktrace[0].Filename = "cuda", "UNKNOWN"
		rows = append(rows, r)
	}
	cpu := pcRow(at, node, "", "", "main", 0, "", 1)
	cpu.Labels = map[string]string{"node": node, "comm": "train", "cpu": "3"}
	cpu.SampleType, cpu.PeriodType, cpu.Period = "samples", "cpu", 52631578
	cpu.Stacktrace[0].FrameType = "native"
	return append(rows, cpu)
}

// parcaTotals are the sums of batches, as the queries of checkParca answer them.
type parcaTotals struct {
	mu                    sync.Mutex
	pc, kernels           map[string][]uint64
	events, cpu, bytes    uint64
	cubins                map[string]bool // acknowledged
	unknown               atomic.Int64    // uploads of which nobody knows
	batches, cubinOffered atomic.Int64
}

func newParcaTotals() *parcaTotals {
	return &parcaTotals{pc: map[string][]uint64{}, kernels: map[string][]uint64{}, cubins: map[string]bool{}}
}

func (p *parcaTotals) add(rows []parca.WireRow, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes += uint64(bytes)
	for i := range rows {
		r, f := &rows[i], &rows[i].Stacktrace[0]
		p.events++
		switch r.SampleType {
		case "gpu_pcsample":
			reason := r.Labels["cuda_stall_reason"]
			kind := "stall"
			if strings.HasSuffix(reason, "sample_count") {
				kind = "sample_count"
			}
			k := fmt.Sprintf("%s|%s|%s|%d|%s|%s|%s|%d", f.MappingFile, f.MappingBuildID, f.SystemName, f.Address, reason, kind,
				r.Labels["cuda_sass_instruction"], r.Period)
			if p.pc[k] == nil {
				p.pc[k] = make([]uint64, 2)
			}
			p.pc[k][0] += uint64(r.Value)
			p.pc[k][1] += uint64(r.Value * r.Period)
		case "gpu_kernel_time":
			k := f.SystemName + "|" + r.Labels["cuda_device"] + "|" + r.Labels["cuda_stream"]
			if p.kernels[k] == nil {
				p.kernels[k] = make([]uint64, 1)
			}
			p.kernels[k][0] += uint64(r.Value)
		default:
			p.cpu++
		}
	}
}

// parcaLoad is agents that send batches and offer cubins until stop, some batches twice.
type parcaLoad struct {
	*parcaTotals
	tenant  string
	stopped atomic.Bool
	wg      sync.WaitGroup
}

func startParcaLoad(ctx context.Context, t *testing.T, c *cluster, tenant string) *parcaLoad {
	l := &parcaLoad{parcaTotals: newParcaTotals(), tenant: tenant}
	key := c.makeKey(tenant)
	toy := parcaFile(t, "toy.sm_75.cubin")
	for s := range 3 {
		a := c.agent(c.grpcAddr, key)
		node := fmt.Sprint("node-", s)
		l.wg.Go(func() {
			r := rand.New(rand.NewPCG(*seed, uint64(1000+s)))
			for n := 0; !l.stopped.Load() || n < 5; n++ {
				rows := parcaBatch(node, n)
				batch := parcatest.Arrow(rows)
				l.add(rows, len(batch))
				for range 1 + r.IntN(2) {
					if err := a.WriteArrow(ctx, batch); err != nil {
						t.Error(err)
						return
					}
				}
				l.batches.Add(1)
				if n%10 == s {
					l.offer(ctx, t, a, append(toy[:len(toy):len(toy)], fmt.Sprintf("%s %d", node, n)...)) // bytes behind an ELF change nothing
				}
				time.Sleep(time.Duration(r.Int64N(int64(*loadPause))))
			}
		})
	}
	return l
}

// offer has one dialogue as the agent has it: an upload that breaks is not tried again.
func (l *parcaLoad) offer(ctx context.Context, t *testing.T, a *parcatest.Client, file []byte) {
	l.cubinOffered.Add(1)
	o, err := a.Offer(ctx, fileID(file), file)
	switch {
	case err == nil && o.Stored:
		l.mu.Lock()
		l.cubins[fileID(file)] = true
		l.mu.Unlock()
	case err == nil:
		t.Errorf("a new cubin is not wanted: %+v", o)
	default:
		l.unknown.Add(1)
	}
}

// stop waits for what was begun.
func (l *parcaLoad) stop() {
	l.stopped.Store(true)
	l.wg.Wait()
}

// check wants every batch once, every acknowledged cubin with its lines, and books that balance.
func (l *parcaLoad) check(t *testing.T, c *cluster) {
	t.Helper()
	c.checkParca(t, l.tenant, l.pc, l.kernels)
	var known map[string][]uint64
	eventually(t, 3*time.Minute, "cubins of "+l.tenant, func() (bool, string) {
		var err error
		known, err = c.tryRows("SELECT toString(build_id), toUInt64(any(lines)), toUInt64(sum(size_bytes)) FROM cubins "+
			"WHERE tenant = ? AND functions > 0 GROUP BY build_id", l.tenant)
		for id := range l.cubins {
			if n := known[id]; len(n) == 0 || n[0] == 0 {
				return false, fmt.Sprintf("%s was acknowledged and is not there, of %d (%v)", id, len(l.cubins), err)
			}
		}
		return err == nil && len(known) <= len(l.cubins)+int(l.unknown.Load()), fmt.Sprint(len(known), err)
	})
	bytes := l.bytes
	for _, n := range known {
		bytes += n[1]
	}
	c.books(t, l.tenant, l.events+uint64(len(known)), l.cpu, bytes)
	t.Logf("%d batches, %d cubins offered, %d acknowledged, %d cut off", l.batches.Load(), l.cubinOffered.Load(), len(l.cubins),
		l.unknown.Load())
}

// checkRejects wants each row of the CPU in a reject: a row of rejects is for a minute, and comes when it is over.
func (l *parcaLoad) checkRejects(t *testing.T, c *cluster) {
	t.Helper()
	eventually(t, 3*time.Minute, "rejects of "+l.tenant, func() (bool, string) {
		got, err := c.tryRows("SELECT '', toUInt64(sum(events)), count(), toUInt64(sum(length(payload))) FROM rejects WHERE tenant = ? AND "+
			"reason = 'not_gpu' AND type = 'samples'", l.tenant)
		n := got[""]
		return err == nil && len(n) == 3 && n[0] == l.cpu && n[2] == 0, fmt.Sprintf(
			"events, rows and bytes are %v, want %d events, no bytes (%v)", n, l.cpu, err)
	})
}

// 200 agents find their gateway gone, retry as agents do, and come back at once: every batch is counted once. An agent sends one batch
// after the other; what it samples meanwhile makes the next one larger. An agent gives a batch up after five minutes; of long outages this
// is the fate of some, because gRPC itself waits for up to two minutes before it dials again. Those are not counted, all others once.
// The long form: go test ./cmd/warpline/e2e -run ParcaAgentsComeBack -outage 3m -timeout 15m
func TestParcaAgentsComeBack(t *testing.T) {
	c := newCluster(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), *outage+4*time.Minute)
	defer cancel()
	key := c.makeKey("fleet")
	totals := newParcaTotals()
	c.kill("gateway")
	gone := time.Now()
	var wg sync.WaitGroup
	var tries, givenUp atomic.Int64
	for i := range 200 {
		a, err := parcatest.Dial(c.grpcAddr, key)
		if err != nil {
			t.Fatal(err)
		}
		a.Retry = parcatest.AsAgent
		wg.Go(func() {
			defer a.Close()
			node := fmt.Sprint("node-", i)
			var later []parca.WireRow // what it gathers while its first batch waits is its next batch
			for n := range int(*outage/(5*time.Second)) + 1 {
				later = append(later, parcaBatch(node, i+n+1)...)
			}
			for _, rows := range [][]parca.WireRow{parcaBatch(node, i), later} {
				batch := parcatest.Arrow(rows)
				err := a.WriteArrow(ctx, batch)
				switch {
				case err == nil:
					totals.add(rows, len(batch))
				case *outage >= time.Minute && strings.Contains(err.Error(), "connection refused"): // it never came to a gateway
					givenUp.Add(1)
				default:
					t.Errorf("agent %d after %d tries and %v: %v", i, a.Tries.Load(), time.Since(gone).Round(time.Second), err)
				}
			}
			tries.Add(a.Tries.Load())
		})
	}
	time.Sleep(*outage)
	c.start("gateway")
	back := time.Now()
	wg.Wait()
	t.Logf("all have an answer %v after the gateway is back, after %.1f tries each; %d of 400 batches were given up",
		time.Since(back).Round(time.Millisecond), float64(tries.Load())/200, givenUp.Load())
	c.checkParca(t, "fleet", totals.pc, totals.kernels)
	c.books(t, "fleet", totals.events, totals.cpu, totals.bytes)
	c.auditClean(t)
}

// A gateway dies while batches are on their way; the agents' resends meet it again, or another one. Nothing is lost or counted twice.
func TestParcaResendMeetsAnotherGateway(t *testing.T) {
	c := newCluster(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	second := freeAddr(t)
	c.addGateway("gateway2", freeAddr(t), second)
	c.start("gateway2")
	c.waitReady("gateway2", 3*time.Minute)
	key := c.makeKey("moved")
	totals := newParcaTotals()
	a, b := c.agent(c.grpcAddr, key), c.agent(second, key)
	a.Retry.Attempts = 1
	killed := make(chan struct{})
	for n := range 20 {
		rows := parcaBatch("node", n)
		batch := parcatest.Arrow(rows)
		totals.add(rows, len(batch))
		if n%5 == 2 {
			time.AfterFunc(time.Duration(n)*time.Millisecond, func() { c.kill("gateway"); killed <- struct{}{} })
		}
		if err := a.WriteArrow(ctx, batch); err != nil || n%3 == 0 {
			if err := b.WriteArrow(ctx, batch); err != nil {
				t.Fatal(err)
			}
		}
		if n%5 == 4 {
			<-killed
			c.start("gateway")
			c.waitReady("gateway", 3*time.Minute)
		}
	}
	c.checkParca(t, "moved", totals.pc, totals.kernels)
	c.books(t, "moved", totals.events, totals.cpu, totals.bytes)
	c.auditClean(t)
}

// Two tenants with the same processes and build ids see each their own; what one deletes the other keeps, and a deleted cubin is wanted
// again.
func TestParcaTenantsAndDeletion(t *testing.T) {
	c := newCluster(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	red, blue := c.agent(c.grpcAddr, c.makeKey("red")), c.agent(c.grpcAddr, c.makeKey("blue"))
	toy := parcaFile(t, "pc_sample_toy.sm_121.cubin")
	id := fileID(toy)
	for _, name := range []string{"batch1", "batch2"} {
		for _, a := range []*parcatest.Client{red, blue} {
			if err := a.WriteArrow(ctx, parcaFile(t, name+".v2.lz4.arrows")); err != nil {
				t.Fatal(err)
			}
		}
	}
	neighbour := parcaBatch("neighbour", 0)
	if err := red.WriteArrow(ctx, parcatest.Arrow(neighbour)); err != nil {
		t.Fatal(err)
	}
	offer(ctx, t, red, id, toy)
	if o, err := blue.Ask(ctx, id, parcatest.HashBuildID); err != nil || !o.Wanted {
		t.Errorf("blue is told what red has: %+v, %v", o, err)
	}
	offer(ctx, t, blue, id, parcaFile(t, "toy.sm_75.cubin.stripped")) // other bytes under the same id: nobody can know better
	statuses := func(tenant, want string) {
		t.Helper()
		eventually(t, 3*time.Minute, "lines of "+tenant, func() (bool, string) {
			got, err := c.tryRows("SELECT toString(symbol_status), toUInt64(uniqExact(function, pc_offset)) FROM pc_lines WHERE tenant = ? "+
				"AND build_id = '"+id+"' AND function NOT LIKE '_Z4load%' GROUP BY symbol_status", tenant)
			return err == nil && fmt.Sprint(got) == want, fmt.Sprintf("%v (%v), want %s", got, err, want)
		})
	}
	statuses("red", "map[ok:[11]]")
	statuses("blue", "map[no_function:[11]]")
	if o, err := red.Ask(ctx, id, parcatest.HashBuildID); err != nil || o.Wanted || o.Reason == parcatest.InProgress {
		t.Errorf("a stored cubin: %+v, %v", o, err)
	}
	del := func(sessions ...string) {
		t.Helper()
		args := append(append([]string{"session", "delete", "red"}, sessions...), append([]string{"--yes", "--wait", "150s"}, c.reach()...)...)
		if out, err := exec.Command(binary, args...).CombinedOutput(); err != nil {
			t.Fatalf("delete %v: %v\n%s", sessions, err, out)
		}
	}
	del("cubin:" + id)
	wanted := func(what string) {
		t.Helper()
		eventually(t, 3*time.Minute, what+" the cubin is wanted again", func() (bool, string) {
			o, err := red.Ask(ctx, id, parcatest.HashBuildID)
			return err == nil && o.Wanted, fmt.Sprintf("%+v, %v", o, err)
		})
	}
	wanted("once it is deleted")
	if left := c.stored("red", "cubin:"+id); len(left) > 0 {
		t.Errorf("of the deleted cubin there is %v", left)
	}
	offer(ctx, t, red, id, toy)
	statuses("red", "map[ok:[11]]")
	var sessions map[string][]uint64
	eventually(t, 3*time.Minute, "the session of gpu-node-a", func() (bool, string) { // samples may be there before it
		got, err := c.tryRows("SELECT session_id, toUInt64(samples) FROM sessions WHERE tenant = 'red' AND source = 'parca' AND " +
			"host = 'gpu-node-a' AND session_id LIKE 'parca:%'")
		sessions = got
		return err == nil && len(got) == 1, fmt.Sprint(got, err)
	})
	for s := range sessions {
		del(s)
		if left := c.stored("red", s); len(left) > 0 {
			t.Errorf("of the deleted session there is %v", left)
		}
	}
	totals := newParcaTotals()
	totals.add(neighbour, 0)
	c.checkParca(t, "red", totals.pc, totals.kernels)
	pc, kernels := parcaSums(t)
	c.checkParca(t, "blue", pc, kernels)
	out, err := exec.Command(binary, append([]string{"tenant", "purge", "red", "--yes"}, c.reach()...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("tenant purge: %v\n%s", err, out)
	}
	if left := c.stored("red", ""); len(left) > 0 {
		t.Errorf("after the purge: %v", left)
	}
	wanted("after the purge")
	c.checkParca(t, "blue", pc, kernels)
	c.auditClean(t)
}
