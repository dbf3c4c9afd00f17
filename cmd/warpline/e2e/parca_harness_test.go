package e2e_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	endian "encoding/binary"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/parca"
	"github.com/warpline/warpline/proto/parca/parcatest"
)

// parcaFile reads one of the vectors.
func parcaFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "testdata", "parca", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func parcaRows(t testing.TB, name string) []parca.WireRow {
	t.Helper()
	rows, err := parcatest.Rows(parcaFile(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// agent is a client of a gateway that retries by the agent's rules, faster and longer.
func (c *cluster) agent(addr, key string) *parcatest.Client {
	c.t.Helper()
	a, err := parcatest.Dial(addr, key)
	if err != nil {
		c.t.Fatal(err)
	}
	a.Retry = parcatest.Fast
	c.t.Cleanup(func() { a.Close() })
	return a
}

// postFile sends a file to a route and returns the answer.
func (c *cluster) postFile(key, path string, body []byte) (int, string) {
	c.t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://"+c.gatewayAddr+path, bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

// fileID is the agent's name of a file (facts 2.4).
func fileID(b []byte) string {
	h := sha256.New()
	h.Write(b[:min(len(b), 4096)])
	h.Write(b[len(b)-min(len(b), 4096):])
	h.Write(endian.BigEndian.AppendUint64(nil, uint64(len(b))))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// sums is a table of a text and its numbers, in order.
func sums(m map[string][]uint64) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintln(&b, k, m[k])
	}
	return b.String()
}

// expectedCSV reads sums: the last columns are the numbers, the others name them.
func expectedCSV(t testing.TB, name string, key []string, numbers ...string) map[string][]uint64 {
	t.Helper()
	lines, err := csv.NewReader(bytes.NewReader(parcaFile(t, name))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]uint64{}
	for _, l := range lines[1:] {
		cell := func(column string) string { return l[slices.Index(lines[0], column)] }
		var names []string
		for _, k := range key {
			names = append(names, cell(k))
		}
		var values []uint64
		for _, n := range numbers {
			v, err := strconv.ParseUint(cell(n), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, v)
		}
		out[strings.Join(names, "|")] = values
	}
	return out
}

// Samples by every column of the vectors' sums.
const pcSumsQuery = "SELECT concat(toString(cubin), '|', toString(build_id), '|', toString(function), '|', toString(pc_offset), '|', " +
	"toString(stall_reason), '|', toString(reason_kind), '|', toString(sass), '|', toString(period_ns)), toUInt64(sum(samples)), " +
	"toUInt64(sum(gpu_ns)) FROM pc_samples WHERE tenant = ? GROUP BY cubin, build_id, function, pc_offset, stall_reason, reason_kind, sass, " +
	"period_ns"

const kernelSumsQuery = "SELECT concat(toString(kernel), '|', toString(device_id), '|', toString(stream_id)), toUInt64(sum(duration_ns)) " +
	"FROM kernels WHERE tenant = ? GROUP BY kernel, device_id, stream_id"

// parcaSums are what both batches of the vectors add up to.
func parcaSums(t testing.TB) (pc, kernels map[string][]uint64) {
	return expectedCSV(t, "expected_sums_batch1_plus_batch2.csv", []string{"mapping_file", "build_id", "function", "pc_offset", "stall_reason",
			"reason_kind", "sass", "period_ns"}, "samples", "gpu_time_ns"),
		expectedCSV(t, "expected_kernel_time_batch1_plus_batch2.csv", []string{"function", "cuda_device", "cuda_stream"}, "kernel_time_ns")
}

// checkParca waits until a tenant's samples and kernels are exactly these.
func (c *cluster) checkParca(t testing.TB, tenant string, pc, kernels map[string][]uint64) {
	t.Helper()
	for _, q := range []struct {
		name, query string
		want        map[string][]uint64
	}{{"pc_samples", pcSumsQuery, pc}, {"kernels", kernelSumsQuery, kernels}} {
		eventually(t, 3*time.Minute, q.name+" of "+tenant, func() (bool, string) {
			got, err := c.tryRows(q.query, tenant)
			return err == nil && sums(got) == sums(q.want), fmt.Sprintf("%v\n%s\nwant\n%s", err, sums(got), sums(q.want))
		})
	}
}

// books waits until usage of a tenant's source parca says this. Resends may be dropped before they are counted, or be counted as
// duplicates.
func (c *cluster) books(t testing.TB, tenant string, unique, rejected, bytes uint64) {
	t.Helper()
	eventually(t, 3*time.Minute, "usage of "+tenant, func() (bool, string) {
		got, err := c.tryRows("SELECT '', toUInt64(sum(events)), toUInt64(sum(rejected)), toUInt64(sum(duplicates)), "+
			"toUInt64(sum(bytes)) FROM usage WHERE tenant = ? AND source = 'parca'", tenant)
		b := got[""]
		return err == nil && len(b) == 4 && b[0]-b[2] == unique && b[1] == rejected && b[3] == bytes,
			fmt.Sprintf("events, rejected, duplicates, bytes are %v (%v), want %d events without duplicates, %d rejected, %d bytes", b, err, unique,
				rejected, bytes)
	})
}

// inline are the vectors' answers of nvdisasm: by cubin, function and offset, frames innermost first.
func expectedInline(t testing.TB) (ids map[string]string, frames map[string]map[string]map[uint64][]string) {
	t.Helper()
	var file struct {
		BuildIDs map[string]string                         `json:"build_ids"`
		Frames   map[string]map[string]map[string][]string `json:"frames"`
	}
	if err := json.Unmarshal(parcaFile(t, "expected_inline.json"), &file); err != nil {
		t.Fatal(err)
	}
	frames = map[string]map[string]map[uint64][]string{}
	for cubin, functions := range file.Frames {
		frames[cubin] = map[string]map[uint64][]string{}
		for function, offsets := range functions {
			frames[cubin][function] = map[uint64][]string{}
			for at, list := range offsets {
				n, err := strconv.ParseUint(strings.TrimPrefix(at, "0x"), 16, 64)
				if err != nil {
					t.Fatal(err)
				}
				frames[cubin][function][n] = list
			}
		}
	}
	return file.BuildIDs, frames
}

// pcRow is a sample of one place.
func pcRow(at int64, node, cubin, build, function string, offset uint64, reason string, samples int64) parca.WireRow {
	return parca.WireRow{TimestampUnixNS: at, Producer: "parca_agent", SampleType: "gpu_pcsample", SampleUnit: "count",
		PeriodType: "gpu_pcsample", PeriodUnit: "nanoseconds", Temporality: "delta", Period: 433654, Duration: 1e9, Value: samples,
		Labels: map[string]string{"node": node, "comm": "train", "cpu": "1", "thread_id": "7", "cuda_stall_reason": reason},
		Stacktrace: []parca.WireFrame{{Address: offset, FrameType: "cuda-pc", MappingFile: cubin, MappingBuildID: build, SystemName: function,
			HasLines: true}}}
}

// offer uploads a cubin and wants it to be taken.
func offer(ctx context.Context, t testing.TB, a *parcatest.Client, id string, file []byte) {
	t.Helper()
	if o, err := a.Offer(ctx, id, file); err != nil || !o.Stored {
		t.Fatalf("offer %s: %+v, %v", id, o, err)
	}
}
