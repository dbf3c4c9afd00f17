package e2e_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What is wrong with an upload costs what is wrong, and no neighbour: the answers of design.md section 4, reject rows in SQL, and the
// good lines around them stored.
func TestMalformedUploads(t *testing.T) {
	c := newCluster(t, 1)
	const all = `"dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"`
	batch := func(s string, id int, columns, rows string) string {
		return fmt.Sprintf(`{"version":1,"type":"kernel_event_batch","session_id":"%s","batch_id":%d,"base_time_ns":1795175929972803352,`+
			`"columns":[%s],"rows":[%s]}`, s, id, columns, rows) + "\n"
	}
	good := func(s string, id int) string { return batch(s, id, all, fmt.Sprintf("[0,1,7,1000,%d,0,32,0]", id)) }
	around := func(line string) func(string) []byte {
		return func(s string) []byte {
			return zip([]byte(good(s, 1) + strings.ReplaceAll(line, "SESSION", s) + "\n" + good(s, 2)))
		}
	}
	long := func(n int) string {
		return `{"type":"memset_event","session_id":"SESSION","name":"` + strings.Repeat("x", n) + `"}`
	}
	cases := []struct {
		name         string
		body         func(session string) []byte
		header       map[string]string
		status       int
		acknowledged bool
		kernels      uint64
		rejects      map[string]uint64
	}{
		{name: "good", body: around(""), status: 200, acknowledged: true, kernels: 2},
		{name: "empty body", body: func(string) []byte { return nil }, status: 200, acknowledged: true},
		{name: "empty gzip", body: func(string) []byte { return zip(nil) }, status: 200, acknowledged: true},
		{name: "nan", body: around(batch("SESSION", 9, all, "[0,1,1,nan,1,0,0,0]")), status: 200, acknowledged: true, kernels: 2,
			rejects: map[string]uint64{"bad_json": 1}},
		{name: "ragged rows", body: around(batch("SESSION", 9, all, "[0,1],[0,1,1,5,9,0,0,0],[]")), status: 200, acknowledged: true, kernels: 3,
			rejects: map[string]uint64{"ragged_row": 2}},
		{name: "missing column", body: around(batch("SESSION", 9, `"dt_ns"`, "[0]")), status: 200, acknowledged: true, kernels: 2,
			rejects: map[string]uint64{"missing_column": 1}},
		{name: "unknown column", body: around(batch("SESSION", 9, `"future",`+all, "[5,0,1,1,5,9,0,0,0]")), status: 200, acknowledged: true,
			kernels: 3},
		{name: "reordered columns", body: around(batch("SESSION", 9,
			`"corr_id","duration_ns","dt_ns","kernel_id","stream_id","dyn_shared","num_regs","has_details"`, "[9,5,0,1,1,0,0,0]")), status: 200,
			acknowledged: true, kernels: 3},
		{name: "negative dt", body: around(batch("SESSION", 9, all, "[-1000,1,1,5,9,0,0,0]")), status: 200, acknowledged: true, kernels: 3},
		{name: "uint64 beyond 2^63", body: around(batch("SESSION", 9, all+`,"external_kind","external_id"`,
			"[0,1,1,5,9,0,0,0,3,18446744073709551615]")), status: 200, acknowledged: true, kernels: 3},
		{name: "unknown type", body: around(`{"type":"from_the_future","session_id":"SESSION","x":[1,2]}`), status: 200, acknowledged: true,
			kernels: 2, rejects: map[string]uint64{"unknown_type": 1}},
		{name: "invalid UTF-8", body: around("{\"type\":\"dictionary_update\",\"session_id\":\"SESSION\",\"kernel_dict\":{\"1\":\"cut " +
			"\xe4\xbd\"}}"), status: 200, acknowledged: true, kernels: 2},
		{name: "no JSON at all", body: around("this is no JSON"), status: 200, acknowledged: true,
			kernels: 2, rejects: map[string]uint64{"bad_json": 1}},
		{name: "another session inside", body: around(good("somebody-else", 5)), status: 200, acknowledged: true, kernels: 2,
			rejects: map[string]uint64{"session_mismatch": 1}},
		{name: "a function of more than may be", body: around(`{"type":"cubin_disassembly","session_id":"SESSION","cubin_crc":1,` +
			`"function_name":"f","entries":[{"pc":0,"sass":"NOP","count":1000000000}]}`), status: 200,
			acknowledged: true, kernels: 2, rejects: map[string]uint64{"artifact_too_large": 1}},
		{name: "giant line of 5 MiB", body: around(long(5 << 20)), status: 200, acknowledged: true,
			kernels: 2, rejects: map[string]uint64{"missing_field": 1}},
		{name: "line of 100 MiB", body: around(long(100 << 20)), status: 200, acknowledged: false,
			kernels: 2, rejects: map[string]uint64{"line_too_long": 1}, header: map[string]string{}},
		{name: "torn gzip", body: func(s string) []byte {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			z.Write([]byte(good(s, 1) + good(s, 2)))
			z.Flush()
			z.Write([]byte(good(s, 3)[:100]))
			z.Flush()
			return b.Bytes()
		}, status: 200, acknowledged: false, kernels: 2, rejects: map[string]uint64{"torn_gzip": 1}},
		{name: "gzip that is none", body: func(string) []byte { return []byte("not gzip, says so") },
			status: 200, acknowledged: true, rejects: map[string]uint64{"torn_gzip": 1}},
		{name: "gzip bomb", body: func(s string) []byte {
			var b bytes.Buffer
			z, _ := gzip.NewWriterLevel(&b, 9)
			z.Write([]byte(good(s, 1)))
			zeros := make([]byte, 1<<20)
			for range 600 {
				z.Write(zeros)
			}
			z.Close()
			return b.Bytes()
		}, status: 200, acknowledged: false},
		{name: "wrong CRC", body: around(""), header: map[string]string{"X-GpuFlight-Window-CRC32": "1"}, status: 503},
	}
	for i, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			session := fmt.Sprintf("%08d-aaaa-4000-8000-000000000000", i)
			body := tc.body(session)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			req, _ := http.NewRequestWithContext(ctx, "POST", "http://"+c.gatewayAddr+"/api/v1/events/stream", bytes.NewReader(body))
			for k, v := range map[string]string{
				"Authorization": "Bearer " + devKey, "Content-Encoding": "gzip", "Content-Type": "application/x-ndjson",
				"X-GpuFlight-Session-Id": session,
				"X-GpuFlight-Window-Id":  "w-" + session, "X-GpuFlight-Window-Channel": "device", "X-GpuFlight-Window-Sequence": "1",
				"X-GpuFlight-Window-CRC32": strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10),
			} {
				req.Header.Set(k, v)
			}
			for k, v := range tc.header {
				req.Header.Set(k, v)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			var answer struct {
				Acknowledged bool `json:"window_acknowledged"`
				Accepted     int  `json:"accepted"`
			}
			raw := new(bytes.Buffer)
			raw.ReadFrom(resp.Body)
			json.Unmarshal(raw.Bytes(), &answer)
			if resp.StatusCode != tc.status || answer.Acknowledged != tc.acknowledged {
				t.Errorf("answer %d %s; want %d, acknowledged %v", resp.StatusCode, raw, tc.status, tc.acknowledged)
			}
			eventually(t, 3*time.Minute, "rows and rejects", func() (bool, string) {
				kernels, err := c.tryRows("SELECT '', count() FROM kernels WHERE session_id = ?", session)
				rejects, err2 := c.tryRows("SELECT reason, sum(events), toUInt64(min(length(payload) > 0)) FROM rejects WHERE session_id = ? GROUP "+
					"BY reason", session)
				if err != nil || err2 != nil {
					return false, fmt.Sprint(err, err2)
				}
				ok := kernels[""][0] == tc.kernels || tc.name == "gzip bomb"
				for reason, n := range tc.rejects {
					ok = ok && len(rejects[reason]) == 2 && rejects[reason][0] == n && rejects[reason][1] == 1
				}
				if tc.name == "gzip bomb" {
					ok = ok && len(rejects) > 0
				} else {
					ok = ok && len(rejects) == len(tc.rejects)
				}
				return ok, fmt.Sprintf("%d kernels, want %d; rejects %v, want %v", kernels[""][0], tc.kernels, rejects, tc.rejects)
			})
		})
	}
}
