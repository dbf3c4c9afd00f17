package e2e_test

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/telemetry"
	"github.com/warpline/warpline/proto/tenant"
)

// loaderCase is a file or folder that stormlog 0.4.3 loaded, and what it made of it.
type loaderCase struct {
	Name       string
	File       string `json:"file_name"`
	Text       string `json:"file_text"`
	Files      map[string]string
	Path       string
	Loader     string
	Key        *string `json:"events_key"`
	Permissive *bool   `json:"permissive_legacy"`
	Asked      *string `json:"session_id"`
	Output     []map[string]any
	Sessions   []struct {
		Summary struct {
			ID string `json:"session_id"`
		}
		Count  int `json:"event_count"`
		Output []map[string]any
	}
	Error *struct{ Message string }

	tenant, key string
	got         loaderAnswer
}

// loaderAnswer is what the gateway, or send, said.
type loaderAnswer struct {
	Accepted int
	Rejected int
	Errors   []struct{ Code, Message string }
	Detail   string
}

// kind is how the case came in.
func (l *loaderCase) kind() string {
	switch {
	case l.Files != nil:
		return "folder"
	case l.Loader == "csv":
		return "csv"
	case strings.HasSuffix(l.File, ".jsonl"):
		return "jsonl"
	}
	return "json"
}

// tenantKeys makes keys for tenants without a process each.
func (c *cluster) tenantKeys(tenants []string) map[string]string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 60*time.Second)
	defer cancel()
	nc, js, err := broker.Connect(ctx, broker.ConnectConfig{URL: "nats://" + c.natsAddr})
	if err != nil {
		c.t.Fatal(err)
	}
	defer nc.Close()
	kv, err := js.KeyValue(ctx, stream.KeysBucket)
	if err != nil {
		c.t.Fatal(err)
	}
	out := map[string]string{}
	for _, name := range tenants {
		if out[name], _, err = ingest.NewKeys(kv).Create(ctx, name, "", tenant.Limits{}, 0); err != nil {
			c.t.Fatal(err)
		}
	}
	return out
}

// load gives the case to the service as its user would.
func (l *loaderCase) load(t *testing.T, c *cluster) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "sink")
	if l.Files != nil {
		for name, text := range l.Files {
			name = filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(binary, "send", "--url", "http://"+c.gatewayAddr, "--key", l.key, filepath.Join(dir, l.Path))
		out, _ := cmd.CombinedOutput()
		l.got.Detail = string(out)
		for line := range strings.Lines(string(out)) {
			if _, what, ok := strings.Cut(line, "(sink): "); ok {
				var accepted, rejected int
				fmt.Sscanf(what, "%d", &accepted)
				_, refused, _ := strings.Cut(what, "stored, ")
				fmt.Sscanf(refused, "%d", &rejected)
				l.got.Accepted, l.got.Rejected = l.got.Accepted+accepted, l.got.Rejected+rejected
			}
			if _, what, ok := strings.Cut(line, "  record "); ok {
				_, message, _ := strings.Cut(what, ": ")
				l.got.Errors = append(l.got.Errors, struct{ Code, Message string }{"", strings.TrimSpace(message)})
			}
		}
		return
	}
	q := url.Values{"default_session_id": {"$DEFAULT"}, "format": {map[string]string{"csv": "csv", "jsonl": "sink", "json": "json"}[l.kind()]}}
	if l.Key != nil {
		q.Set("events_key", *l.Key)
	}
	if l.Permissive != nil && !*l.Permissive {
		q.Set("permissive_legacy", "false")
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+c.gatewayAddr+"/api/v1/telemetry?"+q.Encode(),
		strings.NewReader(l.Text))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+l.key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(text, &l.got)
	}
	if err != nil {
		t.Fatalf("%s: %s %v: %s", l.Name, resp.Status, err, text)
	}
}

// cells are the rows of a CSV case as they are meant: integers with all their digits, metadata as JSON. Rows that have no verdict by
// themselves are left to the caller.
func (l *loaderCase) cells(t *testing.T) (out []memoryRow) {
	t.Helper()
	r := csv.NewReader(strings.NewReader(l.Text))
	r.FieldsPerRecord = -1
	lines, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	asJSON := strings.NewReplacer(`'`, `"`, "True", "true", "False", "false", "None", "null")
	for _, line := range lines[1:] {
		row := memoryRow{"rank": "0", "local_rank": "0", "world_size": "1"}
		for i, key := range lines[0] {
			cell := line[i]
			if strings.HasSuffix(key, "_bytes") || strings.HasSuffix(key, "_ns") {
				cell = strings.TrimSuffix(strings.TrimSpace(cell), ".0")
			}
			switch {
			case key == "metadata" && cell == "":
				cell = "{}"
			case key == "metadata" && strings.Contains(cell, "'"):
				cell = asJSON.Replace(cell)
			case cell == "" && (key == "rank" || key == "local_rank" || key == "world_size"):
				continue
			case cell == "":
				cell = "null"
			}
			row[key] = cell
		}
		out = append(out, row)
	}
	return out
}

// loaderHere are the cases in which Warpline differs on purpose, by the divergence that says so (proto/telemetry.Divergences).
var loaderHere = map[string]string{
	"requested_session":                "a file with several sessions", // there is no asking for one: all are there
	"requested_session_missing":        "a file with several sessions",
	"jsonl_raw_line_separator_splits":  "where a line of a JSON-lines file ends",
	"csv_v4_python_repr_metadata_lost": "a CSV export", "csv_empty_metadata_fails_row": "a CSV export",
	"csv_empty_rank_fails_row":         "a CSV export",
	"csv_float_timestamp_loses_digits": "a CSV export", "csv_v2": "a CSV export", "csv_pandas_float_counters": "a CSV export",
	"csv_empty_session_default": "a CSV export", "csv_bad_number_row_warning": "a CSV export", "csv_all_null_counters": "a CSV export",
	"csv_cells_trimmed": "the white space around text in the cells of a CSV export",
}

// Each file and folder of the peer's loader cases goes through gateway, worker and sink into SQL and is there as 0.4.3 loads it, or as a
// listed divergence says: refused in its words, or with every field of every event. A file that the peer loses for one record loses
// that record only; of several sessions all are there.
func TestTelemetryLoader(t *testing.T) {
	c := newCluster(t, 1)
	file, err := os.Open(filepath.Join("..", "..", "..", "testdata", "telemetry", "v4", "loader_cases.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all []*loaderCase
	var tenants []string
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		l := &loaderCase{tenant: fmt.Sprintf("case-%d", len(all))}
		decodeJSON(t, lines.Bytes(), l)
		all, tenants = append(all, l), append(tenants, l.tenant)
	}
	if err := lines.Err(); err != nil || len(all) != 78 {
		t.Fatalf("%d cases, %v", len(all), err)
	}
	keys := c.tenantKeys(tenants)
	total, accepted := uint64(0), uint64(0)
	for _, l := range all {
		l.key = keys[l.tenant]
		l.load(t, c)
		total += uint64(l.got.Accepted + l.got.Rejected)
		accepted += uint64(l.got.Accepted)
	}
	eventually(t, 3*time.Minute, "all records", func() (bool, string) {
		n := c.one("SELECT sum(events) FROM usage WHERE tenant LIKE 'case-%'")
		rows := c.one("SELECT count() FROM memory_events WHERE tenant LIKE 'case-%'")
		return n == total && rows >= accepted, fmt.Sprintf("%d of %d, %d events of %d", n, total, rows, accepted)
	})
	rows, sessions := c.loaded(t)
	counts := map[string]*[3]int{}
	for _, l := range all {
		n := counts[l.kind()]
		if n == nil {
			n = &[3]int{}
			counts[l.kind()] = n
		}
		here := loaderHere[l.Name]
		asPeer := l.compare(t, rows[l.tenant], sessions[l.tenant])
		switch {
		case asPeer == "" && here != "":
			t.Errorf("%s is as the peer's, though it is listed", l.Name)
		case asPeer == "" && l.Error != nil:
			n[1]++
		case asPeer == "":
			n[0]++
		case slices.ContainsFunc(telemetry.Divergences(), func(d telemetry.Divergence) bool {
			return here != "" && strings.HasPrefix(d.What, here)
		}):
			n[2]++
		default:
			t.Errorf("%s: %s", l.Name, asPeer)
		}
	}
	for _, kind := range []string{"json", "jsonl", "csv", "folder"} {
		t.Logf("%s: %d loaded and %d refused as by the peer, %d listed divergences", kind, counts[kind][0], counts[kind][1], counts[kind][2])
	}
}

// loaded asks for all events of the cases, by tenant, and for how many each session has.
func (c *cluster) loaded(t *testing.T) (rows map[string][]memoryRow, sessions map[string]map[string]int) {
	t.Helper()
	conn := c.open()
	defer conn.Close()
	list := []string{"session_id"}
	for _, key := range telemetryKeys {
		list = append(list, "ifNull(toString("+key+"), 'null')")
	}
	rs, err := conn.Query(t.Context(), "SELECT tenant, ["+strings.Join(list, ",")+"] FROM memory_events WHERE tenant LIKE 'case-%'")
	if err != nil {
		t.Fatal(err)
	}
	defer rs.Close()
	rows, sessions = map[string][]memoryRow{}, map[string]map[string]int{}
	for rs.Next() {
		var of string
		var values []string
		if err := rs.Scan(&of, &values); err != nil {
			t.Fatal(err)
		}
		row := memoryRow{"session_id": values[0]}
		for i, v := range values[1:] {
			row[telemetryKeys[i]] = strings.ToValidUTF8(v, "\uFFFD")
		}
		rows[of] = append(rows[of], row)
		if sessions[of] == nil {
			sessions[of] = map[string]int{}
		}
		sessions[of][values[0]]++
	}
	if err := rs.Err(); err != nil {
		t.Fatal(err)
	}
	return rows, sessions
}

// bare is an event in which capabilities that were made up, and so are columns only, do not stand in metadata.
func bare(row memoryRow, like []memoryRow) memoryRow {
	for _, l := range like {
		if strings.Contains(l["metadata"], "memory_capabilities") {
			return row
		}
	}
	var m map[string]json.RawMessage
	if json.Unmarshal([]byte(row["metadata"]), &m) != nil {
		return row
	}
	delete(m, "memory_capabilities")
	b, _ := json.Marshal(m)
	row["metadata"] = string(b)
	return row
}

// compare says how what is in SQL differs from what the peer loads; "" if it does not. What must hold of divergences too is an error.
func (l *loaderCase) compare(t *testing.T, rows []memoryRow, sessions map[string]int) string {
	t.Helper()
	if len(rows) != l.got.Accepted {
		t.Errorf("%s: %d events, %d were accepted", l.Name, len(rows), l.got.Accepted)
	}
	messages := l.got.Detail
	for _, e := range l.got.Errors {
		messages += "\n" + e.Message
	}
	if l.Error != nil {
		said := l.Error.Message
		switch { // of these the peer names the file, which the gateway does not know
		case strings.HasPrefix(said, "Malformed telemetry JSONL record"):
			if said = "Expecting"; l.Name == "jsonl_bom" {
				said = "BOM"
			}
		case strings.HasPrefix(said, "Telemetry record in "):
			said = "must be an object"
		case strings.Contains(said, "retained no segments"), strings.Contains(said, "Is a directory"):
			if l.got.Accepted+l.got.Rejected == 0 && strings.TrimSpace(l.got.Detail) != "" {
				return ""
			}
		}
		if !strings.Contains(messages, said) {
			return fmt.Sprintf("%q, the peer says %q", messages, said)
		}
		return ""
	}
	want := l.Output
	if l.Loader == "csv" {
		if cells := l.cells(t); len(rows)+l.got.Rejected != len(cells) {
			t.Errorf("%s: %d events and %d refused of %d rows", l.Name, len(rows), l.got.Rejected, len(cells))
		} else {
			for _, row := range rows {
				if !slices.ContainsFunc(cells, func(cell memoryRow) bool { return sameRow(t, row, cell) == "" }) {
					t.Errorf("%s: %v stands in no row of %v", l.Name, row, cells)
				}
			}
		}
		for _, s := range l.Sessions {
			want = append(want, s.Output...)
		}
	} else if l.got.Rejected > 0 {
		return fmt.Sprintf("refused: %s", messages)
	}
	counted := map[string]int{}
	for _, s := range l.Sessions {
		if s.Count > 0 {
			counted["mem:"+s.Summary.ID] = s.Count
		}
	}
	if fmt.Sprint(counted) != fmt.Sprint(sessions) {
		return fmt.Sprintf("sessions %v, the peer has %v", sessions, counted)
	}
	left := slices.Clone(rows)
	for _, m := range want {
		w := rowOf(t, m)
		id := "mem:" + m["session_id"].(string)
		i := slices.IndexFunc(left, func(row memoryRow) bool {
			return row["session_id"] == id && sameRow(t, row, bare(w, []memoryRow{row})) == ""
		})
		if i < 0 {
			return fmt.Sprintf("%v is not among %v", w, left)
		}
		left = slices.Delete(left, i, i+1)
	}
	left = slices.DeleteFunc(left, func(row memoryRow) bool {
		return len(want) > 0 && row["session_id"] != "mem:"+want[0]["session_id"].(string)
	})
	if len(left) > 0 {
		return fmt.Sprintf("%v is there too", left)
	}
	if l.Asked != nil && len(l.Sessions) > 1 {
		return "all sessions are there"
	}
	return ""
}
