package telemetry_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// queryCase is what stormlog 0.4.3 says of some events: a case of its vectors has one analysis, a random one all answers.
type queryCase struct {
	Name     string
	Analysis string
	Metric   string
	GroupBy  string `json:"group_by"`
	Events   []memoryEvent
	Output   any
	Error    any
	Answers  map[string]any
}

func queryCases(t *testing.T, path string) (cases []queryCase) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c queryCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, c)
	}
	return cases
}

// querySQL asks the views for what the peer's tools answer, by its names.
var querySQL = map[string]string{
	"spans": `SELECT session_id, rank, thread_id, thread_name, scope_id, path, toUnixTimestamp64Nano(started_at) AS start_ns,
    toUnixTimestamp64Nano(ended_at) AS end_ns, sequence,
		synthetic_end = 1 ? true : false AS synthetic_end FROM {db}.memory_phases`,
	"resolved": "SELECT session_id, rank, timestamp_ns, event_type, phase AS summary FROM {db}.memory_event_phases",
	"markers": `SELECT session_id, toUnixTimestamp64Nano(started_at) AS start_ns, if(source = 'phase_replay',
    toUnixTimestamp64Nano(ended_at), NULL) AS end_ns, kind, source, severity, label, rank,
		local_rank, world_size, event_type FROM {db}.memory_markers`,
	"issues": `SELECT fingerprint_id, kind, severity, title, hits AS hit_count, toUnixTimestamp64Nano(first_seen_at) AS
    first_seen_ns, toUnixTimestamp64Nano(last_seen_at) AS last_seen_ns,
		session_ids AS affected_sessions FROM {db}.memory_issues`,
	"sessions": `SELECT session_id, status, toUnixTimestamp64Nano(started_at) AS started_at_ns, if(status = 'completed',
    toUnixTimestamp64Nano(ended_at), NULL) AS ended_at_ns, host, pid,
		nullIf(job_id, '') AS job_id, rank, local_rank, world_size, events AS event_count FROM {db}.memory_sessions`,
	"summaries": `SELECT metric, group_by, nullIf(session_id, '') AS session_id, rank, nullIf(status, '') AS status, value FROM ` +
		`{db}.memory_summaries`,
}

// lines are rows of JSON in an order of their own, with the columns that both have.
func lines(rows []any, keep map[string]any) []string {
	out := []string{}
	for _, r := range rows {
		row := map[string]any{}
		for k, v := range r.(map[string]any) {
			if _, ok := keep[k]; ok {
				row[k] = v
			}
		}
		line, _ := json.Marshal(row)
		out = append(out, string(line))
	}
	slices.Sort(out)
	return out
}

// What stormlog's own queries answer the views answer too, in its vectors and in random cases that it was asked; where it fails, at the
// largest of a counter that some event lacks, they leave those events out.
func TestMemoryQueriesAgreeWithThePeer(t *testing.T) {
	s := newStore(t, true)
	cases := append(queryCases(t, "../../../testdata/telemetry/v4/analytics_cases.jsonl"),
		queryCases(t, "../../../testdata/telemetry/v4/query_cases.jsonl")...)
	answers := map[string]string{"phase_spans": "spans", "timeline_markers": "markers", "issues": "issues", "query_summary": "summaries"}
	var all []memoryEvent
	for i := range cases {
		c := &cases[i]
		if a := answers[c.Analysis]; a != "" && c.Error == nil {
			c.Answers = map[string]any{a: c.Output}
		}
		if c.Answers == nil && c.Analysis != "phase_resolve" && c.Error == nil {
			continue
		}
		for _, e := range c.Events {
			e.Tenant, e.Session = c.Name, e.SessionID
			all = append(all, e)
		}
	}
	s.addMemory(all...)
	got := map[string]map[string][]any{}
	for what, sql := range querySQL {
		got[what] = map[string][]any{}
		for _, r := range into[map[string]any](s, strings.Replace(sql, "SELECT ", "SELECT tenant, ", 1)) {
			tenant := r["tenant"].(string)
			delete(r, "tenant")
			got[what][tenant] = append(got[what][tenant], r)
		}
	}
	agreed := map[string]int{}
	for _, c := range cases {
		for what, answer := range c.Answers {
			want, _ := answer.([]any)
			if groups, ok := answer.(map[string]any); ok { // of each metric and group
				for _, rows := range groups {
					want = append(want, rows.([]any)...)
				}
			}
			have := got[what][c.Name]
			if c.Analysis == "query_summary" {
				have = slices.DeleteFunc(slices.Clone(have), func(r any) bool {
					row := r.(map[string]any)
					return row["metric"] != c.Metric || row["group_by"] != c.GroupBy && c.Metric != "session_count_by_status"
				})
			}
			keep := map[string]any{}
			for _, r := range have {
				keep = r.(map[string]any)
			}
			a, b := lines(have, keep), slices.Compact(lines(want, keep))
			if c.Analysis == "" && what == "summaries" {
				a = slices.Compact(a)
			}
			if len(want) > 0 && !slices.Equal(a, b) && !slices.Equal(a, lines(want, keep)) || len(want) == 0 && len(have) > 0 {
				t.Errorf("%s: %s are\n%s\nwant\n%s", c.Name, what, strings.Join(a, "\n"), strings.Join(b, "\n"))
				continue
			}
			agreed[what]++
		}
		if out, ok := c.Output.(map[string]any); ok && c.Analysis == "phase_resolve" {
			e := c.Events[len(c.Events)-1]
			want := "\\N"
			if summary, ok := out["summary"].(string); ok {
				want = summary
			}
			s.Want(fmt.Sprintf("SELECT anyOrNull(phase) FROM {db}.memory_event_phases WHERE tenant = '%s' AND timestamp_ns = %d AND "+
				"event_type = '%s'", c.Name, e.TimestampNS, e.EventType), want)
			agreed["resolved"]++
		}
	}
	t.Logf("agreed: %v", agreed)
	for what := range querySQL {
		if agreed[what] < 30 {
			t.Errorf("only %d answers about %s were compared", agreed[what], what)
		}
	}
	s.Want("SELECT value FROM {db}.memory_summaries WHERE tenant = 'summary_peak_with_null_counter' AND metric = "+
		"'peak_allocator_allocated_bytes' AND group_by = 'session'", "1073741824")
}
