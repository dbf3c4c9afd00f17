package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/parca"
	"github.com/warpline/warpline/proto/parca/parcatest"
)

// withNode returns rows as another process' rows.
func withNode(rows []parca.WireRow, node string) []parca.WireRow {
	out := make([]parca.WireRow, len(rows))
	for i, r := range rows {
		labels := map[string]string{}
		for k, v := range r.Labels {
			labels[k] = v
		}
		labels["node"] = node
		r.Labels = labels
		out[i] = r
	}
	return out
}

// parcaLaunchStacks: the samples of a key without launch stacks are those of any key, and have none; the tenant's other key keeps its own.
func (c *cluster) parcaLaunchStacks(ctx context.Context, t *testing.T) {
	out, err := exec.Command(binary, "key", "create", "stacks", "--no-launch-stacks", "--nats", "nats://"+c.natsAddr).Output()
	if err != nil {
		t.Fatalf("key create: %v", err)
	}
	without, with := strings.TrimSpace(string(out)), c.makeKey("stacks")
	one, two := parcaRows(t, "batch1.wire_rows.ndjson"), parcaRows(t, "batch2.wire_rows.ndjson")
	for node, key := range map[string]string{"bare": without, "full": with} {
		if err := c.agent(c.grpcAddr, key).WriteArrow(ctx, parcatest.Arrow(withNode(one, node))); err != nil {
			t.Fatal(err)
		}
		if code, answer := c.postFile(key, "/api/v1/parca", parcatest.Padata(withNode(two, node))); code != http.StatusOK {
			t.Fatalf("%d %s", code, answer)
		}
	}
	pc, kernels := parcaSums(t)
	for _, m := range []map[string][]uint64{pc, kernels} { // two processes
		for _, n := range m {
			for i := range n {
				n[i] *= 2
			}
		}
	}
	c.checkParca(t, "stacks", pc, kernels)
	const sums = "SELECT splitByChar(':', toString(session_id))[2] AS node, toUInt64(sum(samples)), toUInt64(countIf(length(%s) > 0)), " +
		"toUInt64(uniqExact(%s)) FROM %s WHERE tenant = 'stacks' GROUP BY node"
	samples := c.rows(fmt.Sprintf(sums, "function", "function", "pc_samples"))
	if fmt.Sprint(samples["bare"]) != fmt.Sprint(samples["full"]) || len(samples["bare"]) == 0 || samples["bare"][0] == 0 {
		t.Fatalf("samples are %v", samples)
	}
	eventually(t, 3*time.Minute, "launch stacks", func() (bool, string) {
		got, err := c.tryRows(fmt.Sprintf(sums, "frames", "stack_id", "pc_stacks"))
		full := got["full"]
		return err == nil && len(got["bare"]) == 0 && len(full) == 3 && full[0] == samples["full"][0] && full[1] > 0 && full[2] > 1,
			fmt.Sprintf("%v (%v), want those of full alone, of %v samples", got, err, samples["full"])
	})
	for _, table := range []string{"session_stacks_data", "kernel_stacks_data", "pc_stack_lines"} {
		eventually(t, 3*time.Minute, table+" of the key without launch stacks and of the other", func() (bool, string) {
			got, err := c.tryRows("SELECT '', countIf(session_id LIKE 'parca:bare:%'), countIf(session_id LIKE 'parca:full:%') FROM " + table +
				" WHERE tenant = 'stacks'")
			n := got[""]
			return err == nil && len(n) == 2 && n[0] == 0 && n[1] > 0, fmt.Sprint(n, err)
		})
	}
}

// parcaContents: files of one build id that are not the same. An agent's build id is a hash of head, tail and length, so this happens.
func (c *cluster) parcaContents(ctx context.Context, t *testing.T) {
	toy := parcaFile(t, "pc_sample_toy.sm_121.cubin")
	other := bytes.Clone(toy) // exchanges the lines of two functions: the symbols of the line table's first two relocations
	const relocation, symbol = 18352, 8
	copy(other[relocation+symbol:], toy[relocation+24+symbol:][:8])
	copy(other[relocation+24+symbol:], toy[relocation+symbol:][:8])
	id := fileID(toy)
	if fileID(other) != id || bytes.Equal(toy, other) {
		t.Fatal("the other content has another build id")
	}
	key := c.makeKey("ids")
	red, blue := c.agent(c.grpcAddr, key), c.agent(c.grpcAddr, c.makeKey("ids-too"))
	for _, a := range []*parcatest.Client{red, blue} {
		for _, name := range []string{"batch1", "batch2"} {
			if err := a.WriteArrow(ctx, parcaFile(t, name+".v2.lz4.arrows")); err != nil {
				t.Fatal(err)
			}
		}
	}
	// lines waits until the places of a tenant are these: function, offset, status, line.
	const lineOf = "SELECT concat(toString(function), ' ', toString(pc_offset), ' ', toString(symbol_status)), toUInt64(max(line)), " +
		"toUInt64(min(line)) FROM pc_lines WHERE tenant = ? AND build_id = ? GROUP BY function, pc_offset, symbol_status"
	lines := func(tenant, what string, are func(map[string][]uint64) bool) (out string) {
		t.Helper()
		eventually(t, 3*time.Minute, what+" of "+tenant, func() (bool, string) {
			got, err := c.tryRows(lineOf, tenant, id)
			out = sums(got)
			return err == nil && len(got) > 0 && are(got), fmt.Sprintf("%v\n%s", err, out)
		})
		return out
	}
	right := map[string][]uint64{} // by the vectors
	for k, n := range expectedCSV(t, "expected_sums_batch1_plus_batch2.csv", []string{"build_id", "function", "pc_offset"}, "source_line") {
		if rest, ok := strings.CutPrefix(k, id+"|"); ok {
			right[strings.ReplaceAll(rest, "|", " ")+" ok"] = []uint64{n[0], n[0]}
		}
	}
	isRight := func(got map[string][]uint64) bool { return sums(got) == sums(right) }
	isOther := func(got map[string][]uint64) bool { // other lines, not none
		changed := 0
		for k, n := range got {
			if !strings.HasSuffix(k, " ok") {
				return false
			}
			if w := right[k]; len(w) > 0 && w[0] != n[0] {
				changed++
			}
		}
		return changed > 0
	}
	is := func(want string) func(map[string][]uint64) bool {
		return func(got map[string][]uint64) bool { return sums(got) == want }
	}
	wanted := func(a *parcatest.Client, want bool) {
		t.Helper()
		eventually(t, 3*time.Minute, "the question", func() (bool, string) {
			o, err := a.Ask(ctx, id, parcatest.HashBuildID)
			if o.Reason == parcatest.InProgress {
				t.Error("an upload is said to be under way")
			}
			return err == nil && o.Wanted == want, fmt.Sprintf("%+v, %v, want %v", o, err, want)
		})
	}

	// Two tenants have other bytes under one id, and each its own lines.
	offer(ctx, t, red, id, toy)
	wanted(red, false)
	wanted(blue, true)
	offer(ctx, t, blue, id, other)
	lines("ids", "the lines", isRight)
	others := lines("ids-too", "the other lines", isOther)

	// The first is kept, whichever way the second comes.
	if o, err := red.Offer(ctx, id, other); err != nil || o.Wanted {
		t.Errorf("another content under a stored id: %+v, %v", o, err)
	}
	code, answer := c.postFile(key, "/api/v1/cubins", other)
	var said struct {
		Duplicate bool
		BuildID   string `json:"build_id"`
	}
	if json.Unmarshal([]byte(answer), &said) != nil || code != http.StatusOK || !said.Duplicate || said.BuildID != id {
		t.Errorf("by HTTP: %d %s", code, answer)
	}
	lines("ids", "the lines", isRight)

	// A second CRC under this id: whose lines these are nobody can tell, until its samples are gone.
	rows := []parca.WireRow{pcRow(1795168800000000001, "twin", "cubin-00000000deadbeef", id, "_Z10hash_churnPjiy", 16,
		"smsp__pcsamp_warps_issue_stalled_wait", 1000)}
	if err := red.WriteArrow(ctx, parcatest.Arrow(rows)); err != nil {
		t.Fatal(err)
	}
	lines("ids", "ambiguous lines", func(got map[string][]uint64) bool {
		for k, n := range got {
			if !strings.HasSuffix(k, " ambiguous_cubin") || n[0] != 0 {
				return false
			}
		}
		return true
	})
	lines("ids-too", "the other lines", is(others))
	eventually(t, 3*time.Minute, "crcs", func() (bool, string) {
		crcs, err := c.tryRows("SELECT toString(build_id), toUInt64(length(crcs)), toUInt64(has(crcs, 'cubin-00000000deadbeef')) FROM cubins "+
			"WHERE tenant = 'ids' AND build_id = ?", id)
		return err == nil && fmt.Sprint(crcs[id]) == "[2 1]", fmt.Sprint(crcs, err)
	})
	eventually(t, 3*time.Minute, "coverage", func() (bool, string) {
		coverage, err := c.tryRows("SELECT toString(symbol_status), toUInt64(sum(samples)) FROM symbol_coverage WHERE tenant = 'ids' AND "+
			"build_id = ? GROUP BY symbol_status", id)
		return err == nil && len(coverage) == 1 && len(coverage["ambiguous_cubin"]) == 1 && coverage["ambiguous_cubin"][0] >= 1000,
			fmt.Sprint(coverage, err)
	})
	eventually(t, 3*time.Minute, "report stalls", func() (bool, string) {
		out, err := exec.Command(binary, append([]string{"report", "stalls", "--tenant", "ids", "--json"}, c.asking()...)...).Output()
		var report struct {
			Unsymbolized []struct {
				Status  string
				Samples uint64
			}
		}
		if err == nil {
			err = json.Unmarshal(out, &report)
		}
		return err == nil && len(report.Unsymbolized) == 1 && report.Unsymbolized[0].Status == "ambiguous_cubin",
			fmt.Sprintf("%v, %+v", err, report)
	})
	del := func(session string) {
		t.Helper()
		args := append([]string{"session", "delete", "ids", session, "--yes", "--wait", "150s"}, c.reach()...)
		if out, err := exec.Command(binary, args...).CombinedOutput(); err != nil {
			t.Fatalf("delete %s: %v\n%s", session, err, out)
		}
	}
	var twins map[string][]uint64
	eventually(t, 3*time.Minute, "the session to delete", func() (bool, string) { // samples may be there before it
		var err error
		twins, err = c.tryRows("SELECT session_id, toUInt64(1) FROM sessions WHERE tenant = 'ids' AND host = 'twin'")
		return err == nil && len(twins) == 1, fmt.Sprint(twins, err)
	})
	for s := range twins {
		del(s)
	}
	lines("ids", "the lines", isRight)

	// Deleted and offered again: the other content is welcome now.
	del("cubin:" + id)
	wanted(red, true)
	offer(ctx, t, red, id, other)
	wanted(red, false)
	lines("ids", "the other lines", is(others))
	lines("ids-too", "the other lines", is(others))
}
