package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/parca"
	"github.com/warpline/warpline/proto/parca/parcatest"
	"github.com/warpline/warpline/proto/stream"
)

var deletions = flag.Int("deletions", 1, "how many rounds TestParcaDeletion makes")

// stackedBatch is a batch of a process whose samples and kernels are launched by two stacks: one that all processes have, and its own.
// function names what is in no other batch.
func stackedBatch(node, function, build string, n int) []parca.WireRow {
	rows := parcaBatch(node, n)
	rows = rows[:len(rows)-1] // not the CPU's
	for i := range rows {
		r := &rows[i]
		launch := parca.WireFrame{FrameType: "cpython", Line: 41, SystemName: "shared_step", Filename: "/app/train.py", HasLines: true}
		if i%2 == 0 {
			launch.SystemName = "own_step_of_" + node
		}
		if r.SampleType == "gpu_pcsample" {
			r.Stacktrace[0].MappingBuildID = build
			if i%10 == 0 {
				r.Stacktrace[0].SystemName = function
			}
		} else if i%5 == 0 {
			r.Stacktrace[0].SystemName = function
		}
		r.Stacktrace = append(r.Stacktrace, launch)
	}
	return rows
}

// Sessions of processes and of cubins are deleted while one of the processes goes on sending and gateway, worker, sink and NATS are killed.
// Nothing is left of them; what the process sends after the deletion is there; cubins are wanted again, and their lines come back. Stacks
// and names that other sessions need stay, and the other tenant does not notice.
// The long form: go test ./cmd/warpline/e2e -run ParcaDeletion -deletions 30 -timeout 30m
func TestParcaDeletion(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, "--partitions", "4")
	d := &parcaDeletion{t: t, c: c, r: rand.New(rand.NewPCG(*seed, 5)), toy: parcaFile(t, "toy.sm_75.cubin"), red: newParcaTotals(),
		blue: newParcaTotals()}
	d.agent, d.other = c.agent(c.grpcAddr, c.makeKey("red")), c.agent(c.grpcAddr, c.makeKey("blue"))
	for n := range *deletions {
		d.round(t.Context(), n)
		if t.Failed() {
			return
		}
	}
	c.auditClean(t)
}

type parcaDeletion struct {
	t            *testing.T
	c            *cluster
	r            *rand.Rand
	toy          []byte
	agent, other *parcatest.Client
	red, blue    *parcaTotals // what is to be there
	n            int          // of batches
	uniqueEvents uint64       // of red
}

// send sends a batch to red, twice at times, and returns its rows.
func (d *parcaDeletion) send(ctx context.Context, node, function, build string) []parca.WireRow {
	d.t.Helper()
	d.n++
	rows := stackedBatch(node, function, build, d.n)
	batch := parcatest.Arrow(rows)
	for range 1 + d.r.IntN(2) {
		if err := d.agent.WriteArrow(ctx, batch); err != nil {
			d.t.Error(err)
		}
	}
	d.uniqueEvents += uint64(len(rows))
	return rows
}

func (d *parcaDeletion) offer(ctx context.Context, file []byte) {
	d.t.Helper()
	offer(ctx, d.t, d.agent, fileID(file), file)
	d.uniqueEvents++
}

// session is the id of a process's session.
func (d *parcaDeletion) session(node string) string {
	d.t.Helper()
	id := ""
	eventually(d.t, 3*time.Minute, "the session of "+node, func() (bool, string) {
		got, err := d.c.tryRows("SELECT toString(session_id), toUInt64(1) FROM sessions WHERE tenant = 'red' AND host = ?", node)
		for id = range got {
			return true, ""
		}
		return false, fmt.Sprint(err)
	})
	return id
}

// statuses are the symbol statuses of a build id's samples.
func (d *parcaDeletion) statuses(build string) string {
	got, err := d.c.tryRows("SELECT toString(symbol_status), toUInt64(count()) FROM pc_lines WHERE tenant = 'red' AND build_id = '" + build +
		"' GROUP BY symbol_status")
	return fmt.Sprint(got, err)
}

// delete runs the command until every request is stored: NATS is killed below it. It returns what it said, with FAILED when it gave up.
func (d *parcaDeletion) delete(sessions []string) string {
	run := func(sessions ...string) (string, error) {
		args := append(append([]string{"session", "delete", "red"}, sessions...), "--yes", "--wait", "150s")
		out, err := exec.Command(binary, append(args, d.c.reach()...)...).CombinedOutput()
		return string(out), err
	}
	said, err := run(sessions...)
	for again := 0; err != nil && strings.Contains(said, "run the same again") && again < 5; again++ {
		err = nil
		time.Sleep(300 * time.Millisecond)
		for _, s := range sessions { // some may be gone
			out, failed := run(s)
			if said += out; failed != nil && !strings.Contains(out, "nothing is known") {
				err = failed
			}
		}
	}
	if err != nil && !strings.Contains(said, "the request is stored") {
		said += "FAILED " + err.Error()
	}
	return said
}

func (d *parcaDeletion) round(ctx context.Context, n int) {
	t, c := d.t, d.c
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	quiet, busy, stays := fmt.Sprint("quiet-", n), fmt.Sprint("busy-", n), fmt.Sprint("stays-", n)
	small := fmt.Appendf(d.toy[:len(d.toy):len(d.toy)], "small %d", n)
	large := append(append(d.toy[:len(d.toy):len(d.toy)], make([]byte, 3<<19)...), fmt.Sprintf("large %d", n)...)
	kept := fmt.Appendf(d.toy[:len(d.toy):len(d.toy)], "kept %d", n)
	for _, file := range [][]byte{small, large, kept} {
		d.offer(ctx, file)
	}
	gone := map[string]bool{} // functions of what is deleted
	for i := range 3 {
		for _, node := range []string{quiet, busy, stays} {
			f := fmt.Sprintf("_Z%s_%d", node, i)
			rows := d.send(ctx, node, f, fileID(small))
			if node == stays {
				d.red.add(rows, 0)
			} else {
				gone[f] = true
			}
		}
	}
	rows := stackedBatch(quiet, "_Zblue", fileID(small), d.n)
	d.blue.add(rows, 0)
	if err := d.other.WriteArrow(ctx, parcatest.Arrow(rows)); err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		offer(ctx, t, d.other, fileID(small), small)
	}
	eventually(t, 3*time.Minute, "all is stored", func() (bool, string) {
		have := c.one("SELECT uniqExact(function) FROM pc_samples WHERE tenant = 'red' AND function LIKE '\\_Z%-"+fmt.Sprint(n)+"\\_%'")*100 +
			c.one("SELECT count() FROM cubins WHERE tenant = 'red' AND functions > 0 AND build_id IN ('"+fileID(small)+"', '"+fileID(large)+
				"', '"+fileID(kept)+"')")
		return have == 903, fmt.Sprint(have)
	})
	c.settled(t)
	before := d.statuses(fileID(small))
	if !strings.Contains(before, "no_function") && !strings.Contains(before, "ok") {
		t.Errorf("statuses before the deletion: %s", before)
	}

	doomed := []string{d.session(quiet), d.session(busy), stream.CubinSession + fileID(small), stream.CubinSession + fileID(large)}
	done := make(chan string, 1)
	go func() { done <- d.delete(doomed) }()
	var wg sync.WaitGroup
	stop := make(chan struct{})
	during := map[string][]parca.WireRow{} // batches that are before the deletion or after it
	wg.Go(func() {
		for i := 3; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			f := fmt.Sprintf("_Z%s_%d", busy, i)
			during[f] = d.send(ctx, busy, f, fileID(small))
		}
	})
	victims := []string{"worker0", "sink", "gateway", "nats", "sink", "worker0"}
	d.r.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })
	time.Sleep(time.Duration(200+d.r.IntN(300)) * time.Millisecond)
	for _, victim := range victims {
		time.Sleep(time.Duration(d.r.IntN(300)) * time.Millisecond)
		c.kill(victim)
		c.start(victim)
	}
	for name := range c.roles {
		c.waitReady(name, 3*time.Minute)
	}
	said := <-done
	close(stop)
	wg.Wait()
	if strings.Contains(said, "FAILED") {
		t.Fatalf("session delete:\n%s", said)
	}
	for _, s := range doomed {
		if s == doomed[1] {
			continue // it goes on
		}
		eventually(t, 3*time.Minute, "nothing is left of "+s, func() (bool, string) {
			left := c.stored("red", s)
			return len(left) == 0, fmt.Sprint(left, said)
		})
	}
	for _, file := range [][]byte{small, large} {
		eventually(t, 3*time.Minute, "a deleted cubin is wanted", func() (bool, string) {
			o, err := d.agent.Ask(ctx, fileID(file), parcatest.HashBuildID)
			return err == nil && o.Wanted, fmt.Sprint(o, err)
		})
	}
	// What the process sends from now on is there, and what it sent meanwhile as a whole or not at all.
	for i := range 3 {
		f := fmt.Sprintf("_Z%s_after%d", busy, i)
		d.red.add(d.send(ctx, busy, f, fileID(small)), 0)
	}
	d.settleBusy(busy, during, gone)
	d.check(stays, busy, quiet, gone)
	eventually(t, 3*time.Minute, "a cubin that stays is not wanted", func() (bool, string) {
		o, err := d.agent.Ask(ctx, fileID(kept), parcatest.HashBuildID)
		return err == nil && !o.Wanted, fmt.Sprint(o, err)
	})
	for _, build := range []string{fileID(small), fileID(large)} {
		for _, view := range []string{"cubin_lines", "cubins"} {
			if left := c.one("SELECT count() FROM " + view + " WHERE tenant = 'red' AND build_id = '" + build + "'" + map[string]string{
				"cubins": " AND functions > 0"}[view]); left > 0 {
				t.Errorf("%s has %d rows of the deleted cubin", view, left)
			}
		}
	}
	if after := d.statuses(fileID(small)); strings.Contains(after, "no_function") || strings.Contains(after, "ok:") {
		t.Errorf("statuses after the deletion: %s", after)
	}
	// Offered again, they come back.
	for _, file := range [][]byte{small, large} {
		d.offer(ctx, file)
		eventually(t, 3*time.Minute, "lines of a cubin that is offered again", func() (bool, string) {
			lines := c.one("SELECT count() FROM cubin_lines WHERE tenant = 'red' AND build_id = '" + fileID(file) + "'")
			want := c.one("SELECT count() FROM cubin_lines WHERE tenant = 'red' AND build_id = '" + fileID(kept) + "'")
			return lines == want && want > 0, fmt.Sprint(lines, " of ", want)
		})
	}
	eventually(t, 3*time.Minute, "the samples' lines", func() (bool, string) {
		after := d.statuses(fileID(small))
		return strings.Contains(after, "no_function") == strings.Contains(before, "no_function") &&
			strings.Contains(after, "ok:") == strings.Contains(before, "ok:"), after + ", want as before " + before
	})
	eventually(t, 3*time.Minute, "usage", func() (bool, string) {
		have := c.one("SELECT sum(events) - sum(duplicates) FROM usage WHERE tenant = 'red' AND source = 'parca'")
		return have == d.uniqueEvents, fmt.Sprint(have, " of ", d.uniqueEvents)
	})
}

// settleBusy waits until what a process sent after the deletion is there, which is then carried out, and notes which batches of the
// meantime are there: their sums are checked with all others'.
func (d *parcaDeletion) settleBusy(node string, during map[string][]parca.WireRow, gone map[string]bool) {
	d.t.Helper()
	eventually(d.t, 3*time.Minute, "what is sent after the deletion", func() (bool, string) {
		n := d.c.one("SELECT uniqExact(function) FROM pc_samples WHERE tenant = 'red' AND function LIKE '%" + node + "\\_after%'")
		return n == 3, fmt.Sprint(n)
	})
	d.c.settled(d.t)
	have := d.c.rows("SELECT DISTINCT toString(function), toUInt64(1) FROM pc_samples WHERE tenant = 'red'")
	kept := 0
	for f, rows := range during {
		if have[f] == nil {
			gone[f] = true
			continue
		}
		d.red.add(rows, 0)
		kept++
	}
	d.t.Logf("of %d batches sent meanwhile %d were after the deletion", len(during), kept)
}

// check compares sums, stacks and names with what is to be there.
func (d *parcaDeletion) check(stays, busy, quiet string, gone map[string]bool) {
	t, c := d.t, d.c
	t.Helper()
	c.checkParca(t, "red", d.red.pc, d.red.kernels)
	c.checkParca(t, "blue", d.blue.pc, d.blue.kernels)
	functions := c.rows("SELECT DISTINCT toString(function), toUInt64(1) FROM kernel_stacks WHERE tenant = 'red'")
	maps.Copy(functions, c.rows("SELECT DISTINCT toString(kernel), toUInt64(1) FROM kernel_stats WHERE tenant = 'red'"))
	maps.Copy(functions, c.rows("SELECT DISTINCT toString(function), toUInt64(1) FROM kernel_stalls WHERE tenant = 'red'"))
	for f := range gone {
		if functions[f] != nil {
			t.Errorf("there is still something of %s", f)
		}
	}
	stack := func(tenant, text string) uint64 {
		return c.one("SELECT count() FROM stack_frames_data WHERE tenant = '" + tenant + "' AND frames LIKE '%" + text + "%'")
	}
	// Stacks come and go in statements of their own.
	eventually(t, 3*time.Minute, "the stacks are those that sessions need", func() (bool, string) {
		if stack("red", quiet) != 0 {
			return false, "a stack of the deleted session alone is left"
		}
		for tenant, text := range map[string]string{"red": stays, "blue": quiet} {
			if stack(tenant, text) == 0 || stack(tenant, "shared") == 0 {
				return false, tenant + " has lost stacks that its sessions need"
			}
		}
		if c.one("SELECT count() FROM pc_stacks WHERE tenant = 'red' AND session_id LIKE '%"+busy+"%' AND has(frames, "+
			"'/app/train.py:41 own_step_of_"+busy+"')") == 0 {
			return false, "what " + busy + " sent after the deletion has lost its stack"
		}
		// Every stack that a row names is there, in the process's that goes on too.
		n := c.one("SELECT count() FROM pc_stacks WHERE tenant = 'red' AND empty(frames) AND stack_id NOT LIKE '0000000000000000%'")
		return n == 0, fmt.Sprintf("%d rows of pc_stacks have no frames", n)
	})
}
