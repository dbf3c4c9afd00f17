package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/parca"
	"github.com/warpline/warpline/proto/parca/parcatest"
)

// auditClean wants `warpline audit` to find nothing.
func (c *cluster) auditClean(t testing.TB) {
	t.Helper()
	eventually(t, 3*time.Minute, "audit", func() (bool, string) {
		out, err := exec.Command(binary, append([]string{"audit"}, c.reach()...)...).CombinedOutput()
		return err == nil, string(out)
	})
}

const lineQuery = "SELECT concat(toString(function), '|', toString(pc_offset), '|', toString(symbol_status), '|', toString(file), ':', " +
	"toString(line), '|', arrayStringConcat(inline_chain, ' < ')), count() FROM pc_lines WHERE tenant = ? GROUP BY function, pc_offset, " +
	"symbol_status, file, line, inline_chain"

// place is what pc_lines must say of an instruction.
type place struct {
	status string
	frames []string // file:line, innermost first
}

// linesOf answers pc_lines of a tenant by function and offset; a chain keeps only file:line of each frame.
func (c *cluster) linesOf(tenant string) (map[string]place, error) {
	rows, err := c.tryRows(lineQuery, tenant)
	out := map[string]place{}
	for k := range rows {
		part := strings.SplitN(k, "|", 5)
		p := place{status: part[2]}
		if part[3] != ":0" {
			p.frames = []string{part[3]}
		}
		if part[4] != "" {
			p.frames = nil
			for _, frame := range strings.Split(part[4], " < ") {
				at, _, _ := strings.Cut(frame, " ")
				p.frames = append(p.frames, at)
			}
			if p.frames[0] != part[3] {
				err = fmt.Errorf("%s: the chain does not begin with the line", k)
			}
		}
		out[part[0]+"+"+part[1]] = p
	}
	return out, err
}

// differ says where lines are not as wanted.
func differ(got, want map[string]place) string {
	var b strings.Builder
	for k, w := range want {
		if g := got[k]; fmt.Sprint(g) != fmt.Sprint(w) {
			fmt.Fprintf(&b, "%s is %v, want %v\n", k, g, w)
		}
	}
	if len(got) != len(want) {
		fmt.Fprintf(&b, "%d places, want %d\n", len(got), len(want))
	}
	return b.String()
}

// linesCase is the samples at every offset that the vectors know, and their lines once the cubins are there.
func linesCase(t *testing.T, names func(string) string) (rows []parca.WireRow, cubins map[string]string, want map[string]place) {
	t.Helper()
	const at = 1795168800000000001
	want, cubins = map[string]place{}, map[string]string{}
	ids, frames := expectedInline(t)
	short := map[string]map[string]bool{} // by cubin and shortened name: names that begin so
	for cubin, functions := range frames {
		cubins[cubin] = ids[cubin]
		for f := range functions {
			k := cubin + names(f)
			if short[k] == nil {
				short[k] = map[string]bool{}
			}
			short[k][f] = true
		}
	}
	for cubin, functions := range frames {
		for f, offsets := range functions {
			for offset, list := range offsets {
				p := place{"ok", list}
				if len(short[cubin+names(f)]) > 1 {
					p = place{status: "ambiguous_name"}
				}
				// Both cubins have functions of one name: the name of the session keeps nothing apart, so they go by cubin.
				want[cubin+"/"+names(f)+"+"+strconv.FormatUint(offset, 10)] = p
				rows = append(rows, pcRow(at, cubin, "cubin-"+ids[cubin][:16], ids[cubin], names(f), offset,
					"smsp__pcsamp_warps_issue_stalled_wait", 1))
			}
		}
	}
	return rows, cubins, want
}

func cutAt127(s string) string { return s[:min(len(s), 127)] }

// Lines and chains are those of NVIDIA's disassembler at every offset, from whole cubins and from what the agent leaves of them, of both
// ABIs, with names as they are and as the shim cuts them. Samples come first, cubins later, and no stored row changes for it.
func TestParcaLines(t *testing.T) {
	c := newCluster(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	for _, v := range []struct {
		tenant, suffix string
		names          func(string) string
	}{
		{"whole", "", func(s string) string { return s }},
		{"stripped", ".stripped", func(s string) string { return s }},
		{"whole-cut", "", cutAt127},
		{"stripped-cut", ".stripped", cutAt127},
	} {
		for _, cubin := range []string{"inline.sm_80.cubin", "inline.sm_90.cubin"} {
			tenant := v.tenant + "-" + cubin[10:12]
			t.Run(tenant, func(t *testing.T) {
				a := c.agent(c.grpcAddr, c.makeKey(tenant))
				all, cubins, places := linesCase(t, v.names)
				var rows []parca.WireRow
				for _, r := range all {
					if r.Labels["node"] == cubin {
						rows = append(rows, r)
					}
				}
				want := map[string]place{}
				for k, p := range places {
					if rest, ok := strings.CutPrefix(k, cubin+"/"); ok {
						want[rest] = p
					}
				}
				if err := a.WriteArrow(ctx, parcatest.Arrow(rows)); err != nil {
					t.Fatal(err)
				}
				eventually(t, 3*time.Minute, "samples without lines", func() (bool, string) {
					got, err := c.linesOf(tenant)
					for _, p := range got {
						// Event time is long ago: it may be pending no more.
						if p.status != "pending" && p.status != "not_uploaded" || len(p.frames) > 0 {
							return false, fmt.Sprint(p)
						}
					}
					return err == nil && len(got) == len(want), fmt.Sprintf("%d of %d, %v", len(got), len(want), err)
				})
				before := c.storedSamples(tenant)
				offer(ctx, t, a, cubins[cubin], parcaFile(t, cubin+v.suffix))
				eventually(t, 3*time.Minute, "lines", func() (bool, string) {
					got, err := c.linesOf(tenant)
					d := differ(got, want)
					return err == nil && d == "", fmt.Sprintf("%v\n%.3000s", err, d)
				})
				if after := c.storedSamples(tenant); after != before {
					t.Errorf("stored rows have changed: %s, were %s", after, before)
				}
			})
		}
	}
	t.Run("cubin first", func(t *testing.T) {
		a := c.agent(c.grpcAddr, c.makeKey("cubin-first"))
		toy := parcaFile(t, "pc_sample_toy.sm_121.cubin")
		offer(ctx, t, a, fileID(toy), parcaFile(t, "pc_sample_toy.sm_121.cubin.stripped"))
		for _, name := range []string{"batch1", "batch2"} {
			if err := a.WriteArrow(ctx, parcaFile(t, name+".v2.lz4.arrows")); err != nil {
				t.Fatal(err)
			}
		}
		want := expectedCSV(t, "expected_sums_batch1_plus_batch2.csv", []string{"function", "pc_offset"}, "source_line")
		eventually(t, 3*time.Minute, "lines", func() (bool, string) {
			got, err := c.tryRows("SELECT concat(toString(function), '|', toString(pc_offset)), toUInt64(max(line)), toUInt64(min(line)) " +
				"FROM pc_lines WHERE tenant = 'cubin-first' AND symbol_status = 'ok' AND file LIKE '%pc_sample_toy.cu' GROUP BY function, pc_offset")
			for k, w := range want {
				if g := got[k]; len(g) != 2 || g[0] != w[0] || g[1] != w[0] {
					return false, fmt.Sprintf("%s is %v, want %v (%v)", k, g, w, err)
				}
			}
			return err == nil && len(got) == len(want), fmt.Sprint(len(got), err)
		})
	})
	t.Run("turing", func(t *testing.T) { c.turing(ctx, t) })
	t.Run("audit", func(t *testing.T) { c.auditClean(t) })
}

// turing compares the lines of the oldest architecture, from a cubin sent over HTTP.
func (c *cluster) turing(ctx context.Context, t *testing.T) {
	var file map[string]struct {
		File      string
		Functions map[string]map[string]uint64
	}
	if err := json.Unmarshal(parcaFile(t, "expected_lines.json"), &file); err != nil {
		t.Fatal(err)
	}
	const cubin = "toy.sm_75.cubin"
	key := c.makeKey("turing")
	a := c.agent(c.grpcAddr, key)
	id := fileID(parcaFile(t, cubin))
	if code, answer := c.postFile(key, "/api/v1/cubins", parcaFile(t, cubin)); code != http.StatusOK {
		t.Fatalf("%d %s", code, answer)
	}
	var rows []parca.WireRow
	want := map[string]uint64{}
	for function, offsets := range file[cubin].Functions {
		for at, line := range offsets {
			n, err := strconv.ParseUint(strings.TrimPrefix(at, "0x"), 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, pcRow(1795168800000000001, "n", "cubin-1", id, function, n, "smsp__pcsamp_warps_issue_stalled_wait", 1))
			want[function+"+"+strconv.FormatUint(n, 10)] = line
		}
	}
	if err := a.WriteArrow(ctx, parcatest.Arrow(rows)); err != nil {
		t.Fatal(err)
	}
	eventually(t, 3*time.Minute, "lines", func() (bool, string) {
		got, err := c.linesOf("turing")
		for k, line := range want {
			p := got[k]
			if p.status != "ok" || len(p.frames) == 0 || path.Ext(p.frames[0]) == "" || !strings.HasSuffix(p.frames[len(p.frames)-1],
				":"+strconv.FormatUint(line, 10)) {
				return false, fmt.Sprintf("%s is %v, want line %d (%v)", k, p, line, err)
			}
		}
		return err == nil && len(got) == len(want), fmt.Sprint(len(got), err)
	})
	if code, answer := c.postFile(key, "/api/v1/cubins?build_id="+fileID([]byte(strings.Repeat("x", 5000))),
		parcaFile(t, cubin+".stripped")); code != http.StatusOK {
		t.Errorf("a stripped cubin with its build id: %d %s", code, answer)
	}
}

// storedSamples is the base table of a tenant's samples in short: rows, what they say, and the newest chunk that wrote to it.
func (c *cluster) storedSamples(tenant string) string {
	c.t.Helper()
	return fmt.Sprint(c.rows("SELECT '', count(), sum(cityHash64(session_id, bucket, cubin, build_id, function, pc_offset, sass, "+
		"stall_reason, period_ns, samples, gpu_ns)), toUInt64(max(chunk)) FROM pc_buckets_data FINAL WHERE tenant = ?", tenant)[""])
}
