package main

import (
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// counterNames reads the names of all counters of a role from the text of its package.
func counterNames(t *testing.T, dir, role string) (names []string) {
	t.Helper()
	named := regexp.MustCompile(`(?:counter\(|ofTenant\(|Name: )"(?:warpline_` + role + `_)?(\w+_total)"`)
	err := filepath.WalkDir(filepath.Join("..", "..", dir), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			names = append(names, "warpline_"+role+"_"+m[1])
		}
		return err
	})
	if err != nil || len(names) == 0 {
		t.Fatalf("%s has no counters: %v", dir, err)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// toldSeries are the counters with label values that the pages, the alerts and the dashboard name.
func toldSeries(t *testing.T) (told [][3]string) {
	t.Helper()
	selector := regexp.MustCompile(`(warpline_\w+_total)\{([^}]*)\}`)
	matcher := regexp.MustCompile(`(\w+)="([^"]*)"`)
	for _, path := range append(pages(t), "../../deploy/prometheus/alerts.yml", "../../deploy/grafana/dashboards/warpline.json") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range selector.FindAllStringSubmatch(strings.ReplaceAll(string(text), `\"`, `"`), -1) {
			for _, pair := range matcher.FindAllStringSubmatch(strings.ReplaceAll(m[2], "!=", "≠"), -1) {
				told = append(told, [3]string{m[1], pair[1], pair[2]})
			}
		}
	}
	if len(told) < 3 {
		t.Fatalf("only %v are told", told)
	}
	return told
}

// Every counter of every role is there at 0 before what it counts has happened, with the values of its labels that alerts ask for:
// Prometheus sees a counter change, and not that it begins. Each role answers in OpenMetrics to who asks for it.
func TestSeriesExistBeforeTheirFirstFailure(t *testing.T) {
	nats := launch(t, "nats", "--data", t.TempDir(), "--listen", "127.0.0.1:0")
	nats.await(t, "msg=ready")
	streams := []string{"--nats", "nats://" + field(t, nats, "addr"), "--ingest-max", "64MiB", "--rows-max", "64MiB", "--bucket-max", "16MiB"}
	roles := map[string]*launched{
		"gateway": launch(t, append([]string{"gateway", "--listen", "127.0.0.1:0"}, streams...)...),
		"worker":  launch(t, append([]string{"worker"}, streams...)...),
		// it waits for one
		"sink": launch(t, append([]string{"sink", "--clickhouse", "127.0.0.1:1", "--clickhouse-http", "127.0.0.1:1"}, streams...)...),
		"up":   launch(t, upArgs(filepath.Join(t.TempDir(), "data"))...),
	}
	of := map[string][]string{"gateway": {"gateway"}, "worker": {"worker"}, "sink": {"sink"}, "up": {"gateway", "worker", "sink"}}
	for name, s := range roles {
		s.await(t, "msg=ready")
		const unconfined = "the ClickHouse engine is not confined: user reader can reach what the engine's process can"
		if name == "up" && strings.Contains(s.words.String(), "cannot confine the ClickHouse engine") { // as this kernel has it
			s.await(t, "trouble: "+unconfined)
		} else if strings.Contains(s.words.String(), unconfined) {
			t.Errorf("%s tells an engine that is confined as a trouble", name)
		}
		address := "http://" + field(t, s, "addr") + "/metrics"
		want := counterNames(t, "broker", "broker")
		for _, role := range of[name] {
			want = append(want, counterNames(t, map[string]string{"gateway": "ingest", "worker": "aggregate", "sink": "sink"}[role], role)...)
		}
		var missing []string
		for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(100 * time.Millisecond) { // the broker's begin with its first look
			text := get(t, address)
			missing = nil
			has := func(metric, label, value string) bool {
				found := regexp.MustCompile(`(?m)^` + metric + `(?:\{[^}\n]*` + label + `="` + regexp.QuoteMeta(value) + `"[^}\n]*\})? \d`)
				if label == "" {
					found = regexp.MustCompile(`(?m)^` + metric + `[ {]`)
				}
				return found.MatchString(text)
			}
			for _, metric := range want {
				if !has(metric, "", "") {
					missing = append(missing, metric)
				}
			}
			for _, told := range toldSeries(t) {
				if slices.Contains(want, told[0]) && !has(told[0], told[1], told[2]) {
					missing = append(missing, told[0]+"{"+told[1]+"="+told[2]+"}")
				}
			}
			if len(missing) == 0 || time.Now().After(deadline) {
				break
			}
		}
		if len(missing) > 0 {
			t.Errorf("%s lacks %v", name, missing)
		}
		for accept, wantType := range map[string]string{"application/openmetrics-text; version=1.0.0": "application/openmetrics-text",
			"text/plain": "text/plain"} {
			req, err := http.NewRequest(http.MethodGet, address, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Accept", accept)
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(res.Body)
			res.Body.Close()
			if open := strings.HasSuffix(strings.TrimSpace(string(text)), "# EOF"); err != nil ||
				!strings.HasPrefix(res.Header.Get("Content-Type"), wantType) || open != (wantType != "text/plain") {
				t.Errorf("%s asked for %s: %s, %v", name, accept, res.Header.Get("Content-Type"), err)
			}
		}
	}
}
