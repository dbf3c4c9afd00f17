package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// artifactLines are the example lines of the three types, as those of a session.
func artifactLines(t testing.TB, session string) (out string) {
	t.Helper()
	for _, file := range []string{"examples_by_type", "examples_handbuilt"} {
		raw, err := os.ReadFile(filepath.Join("..", "..", "..", "testdata", "gpuflight", file+".ndjson"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(raw) {
			for _, typ := range []string{"cubin_disassembly", "ptx_disassembly", "source_file_content"} {
				if bytes.Contains(line, []byte(`"type":"`+typ+`"`)) {
					out += strings.ReplaceAll(string(bytes.TrimSpace(line)), "dbca9991-838e-4545-b1e3-570e3dac0e39", session) + "\n"
				}
			}
		}
	}
	if strings.Count(out, "\n") != 3 {
		t.Fatalf("examples are %s", out)
	}
	return out
}

// Code and source sent before, after and without the samples that mean them, by two sessions and two tenants, twice, and as a giant line:
// every field is there, once, and each session's samples show its instructions.
func TestArtifacts(t *testing.T) {
	c := newCluster(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	const samples = `{"version":1,"type":"dictionary_update","session_id":"SESSION","function_dict":{"1":"vecMulAdd(float const*, float ` +
		`const*, float*, int)@vec.cu"},"func_symbol_dict":{"1":"_Z9vecMulAddPKfS0_Pfi"},"source_file_dict":{"1":"vec.cu"},` +
		`"metric_dict":{"1":"smsp__pcsamp_warps_issue_stalled_wait","2":"smsp__sass_inst_executed"}}
{"version":1,"type":"profile_sample_batch","session_id":"SESSION","batch_id":1,"base_time_ns":1795175929972803352,"columns":["dt_ns",` +
		`"corr_id","device_id","function_id","pc_offset","metric_id","metric_value","stall_reason","sample_kind","scope_name_id",` +
		`"source_file_id","source_line"],"rows":[[0,0,0,1,16,1,5,2,0,0,1,3],[0,0,0,1,24,2,9,0,1,0,1,3]]}
`
	keys := map[string]string{"one": c.makeKey("one"), "two": c.makeKey("two"), "three": c.makeKey("three")}
	send := func(tenant, session, channel string, n int, lines string) {
		t.Helper()
		w := &window{session: session, channel: channel, id: fmt.Sprint(tenant, session, channel, n),
			sequence: n, gz: zip([]byte(strings.ReplaceAll(lines, "SESSION", session)))}
		if err := w.deliver(ctx, c.gatewayAddr, keys[tenant], true); err != nil {
			t.Fatal(err)
		}
	}
	before, after := artifactLines(t, "before"), artifactLines(t, "after")
	send("one", "before", "sass", 1, before)
	send("one", "before", "scope", 1, samples)
	send("one", "after", "scope", 1, samples)
	send("two", "before", "sass", 1, before)
	answer := func(sql string) string {
		conn := c.open()
		defer conn.Close()
		rows, err := conn.Query(ctx, sql)
		if err != nil {
			return err.Error()
		}
		defer rows.Close()
		return text(t, rows)
	}
	want := func(sql, want string) {
		t.Helper()
		got := ""
		eventually(t, 3*time.Minute, sql, func() (bool, string) { got = answer(sql); return got == want, got })
	}
	want("SELECT session_id, sass FROM pc_samples WHERE tenant = 'one' ORDER BY session_id", "after \nbefore v_fma_f32 v0, v1, 42, v0")
	send("one", "after", "sass", 1, after)
	send("one", "after", "sass", 2, after) // again, in other clothes
	want("SELECT session_id, sass FROM pc_samples WHERE tenant = 'one' ORDER BY session_id",
		"after v_fma_f32 v0, v1, 42, v0\nbefore v_fma_f32 v0, v1, 42, v0")
	want("SELECT pc_offset, file, line, source, sass, samples, metrics['smsp__sass_inst_executed'] FROM source_profile WHERE tenant = 'one' "+
		"AND session_id = 'after' ORDER BY pc_offset",
		"16 vec.cu 3   if (i < n) c[i] = a[i] * b[i] + c[i]; v_fma_f32 v0, v1, 42, v0 5 0\n24 vec.cu 3   if (i < n) c[i] = a[i] * b[i] + c[i]; "+
			"global_store_dword v0, v1, s[2:3] 0 9")
	// Sessions whose symbols are demangled, as those of the client's own examples, find their code by the demangled name.
	send("three", "s", "scope", 1, strings.Replace(samples, `"_Z9vecMulAddPKfS0_Pfi"`, `"vecMulAdd(float const*, float const*, float*, int)"`,
		1))
	send("three", "s", "sass", 1, artifactLines(t, "s"))
	want("SELECT line, source, sass, samples, metrics['smsp__sass_inst_executed'] FROM source_profile WHERE tenant = 'three' ORDER BY "+
		"pc_offset",
		"3   if (i < n) c[i] = a[i] * b[i] + c[i]; v_fma_f32 v0, v1, 42, v0 5 0\n3   if (i < n) c[i] = a[i] * b[i] + c[i]; global_store_dword "+
			"v0, v1, s[2:3] 0 9")
	want("SELECT DISTINCT function FROM disassembly WHERE tenant = 'three'", "vecMulAdd(float const*, float const*, float*, int)")
	want("SELECT tenant, session_id, cubin_crc, function_name, function, groupArray((pc_offset, sass)) FROM (SELECT * FROM disassembly "+
		"WHERE tenant = 'one' ORDER BY pc_offset) GROUP BY ALL ORDER BY session_id",
		"one after 16045690984503111693 _Z9vecMulAddPKfS0_Pfi vecMulAdd(float const*, float const*, float*, int) [[0 s_load_dword s0, s[4:5], "+
			"0x18] [8 v_fma_f32 v0, v1, 42, v0] [16 v_fma_f32 v0, v1, 42, v0] [24 global_store_dword v0, v1, s[2:3]] [32 s_endpgm]]\n"+
			"one before 16045690984503111693 _Z9vecMulAddPKfS0_Pfi vecMulAdd(float const*, float const*, float*, int) [[0 s_load_dword s0, s[4:5],"+
			" 0x18] [8 v_fma_f32 v0, v1, 42, v0] [16 v_fma_f32 v0, v1, 42, v0] [24 global_store_dword v0, v1, s[2:3]] [32 s_endpgm]]")
	want("SELECT session_id, source_file_id, path, line, length(text) FROM source_files WHERE tenant = 'two' ORDER BY line",
		"before 1  1 76\nbefore 1  2 48\nbefore 1  3 39\nbefore 1  4 1")
	want("SELECT tenant, session_id, function_name, arch, position(ptx, '.visible .entry') > 40 FROM ptx ORDER BY tenant, session_id", "one "+
		"after _Z9vecMulAddPKfS0_Pfi sm_90 1\none before _Z9vecMulAddPKfS0_Pfi sm_90 1\nthree s _Z9vecMulAddPKfS0_Pfi sm_90 1\ntwo before "+
		"_Z9vecMulAddPKfS0_Pfi sm_90 1")
	want("SELECT tenant, uniqExact(content_hi, content_lo), count() FROM sass_lines_data FINAL WHERE content_hi != 0 GROUP BY tenant ORDER "+
		"BY tenant", "one 1 5\nthree 1 5\ntwo 1 5")
	want("SELECT sum(events), sum(rejected), sum(duplicates) FROM usage WHERE tenant = 'one'", "15 0 3")

	// A file of 12 MiB is one line, and travels through the object store.
	var giant strings.Builder
	giant.WriteString(`{"version":1,"type":"source_file_content","session_id":"SESSION","source_file_id":9,"lines":["first"`)
	for n := range 200_000 {
		fmt.Fprintf(&giant, `,"\tint line_%d = %d; // %s"`, n, n, strings.Repeat("x", 30))
	}
	giant.WriteString("]}\n")
	send("two", "giant", "sass", 1, giant.String())
	want("SELECT count(), max(line), max(text LIKE '\\tint line_199999 = 199999;%') FROM source_files WHERE session_id = 'giant'",
		"200001 200001 1")
}

// text is rows as lines of values with a space between.
func text(t testing.TB, rows driver.Rows) string {
	var lines []string
	for rows.Next() {
		into := make([]any, len(rows.Columns()))
		for i, c := range rows.ColumnTypes() {
			into[i] = reflect.New(c.ScanType()).Interface()
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		var cells []string
		for _, v := range into {
			cells = append(cells, fmt.Sprint(reflect.ValueOf(v).Elem().Interface()))
		}
		lines = append(lines, strings.Join(cells, " "))
	}
	return strings.Join(lines, "\n")
}
