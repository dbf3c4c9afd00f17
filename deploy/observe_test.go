package deploy_test

import (
	"context"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/warpline/warpline/aggregate"
	gpuflightfold "github.com/warpline/warpline/aggregate/gpuflight"
	telemetryfold "github.com/warpline/warpline/aggregate/telemetry"
	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/ingest"
	gpuflightdoor "github.com/warpline/warpline/ingest/gpuflight"
	telemetrydoor "github.com/warpline/warpline/ingest/telemetry"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// sources is the Go text of the roles, without tests: where the values of labels come from.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range []string{"ingest", "aggregate", "sink", "broker", "proto", "cmd/warpline"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				all.WriteString(read(t, path))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

var describes = regexp.MustCompile(`fqName: "(\w+)".*variableLabels: \{([^}]*)\}`)

// series are the metrics of all roles with their labels, as the roles themselves register them.
func series(t *testing.T) map[string][]string {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	streams := brokertest.Start(t, broker.Layout{})
	g, err := ingest.New(streams, ingest.Config{
		Listen: "127.0.0.1:0", SpoolDir: t.TempDir(), Registerer: reg,
		Sources: []ingest.Source{gpuflightdoor.Source(), telemetrydoor.Source()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	aggregate.New(streams, aggregate.Config{Sources: []aggregate.Source{gpuflightfold.Source(), telemetryfold.Source()},
		Schema: tabletest.Schema(), Registerer: reg})
	// it asks nobody
	if _, err := sink.New(streams, sink.Config{Schema: tabletest.Schema(), HTTPAddr: "127.0.0.1:1",
		NativeAddr: "127.0.0.1:1", Registerer: reg}); err != nil {
		t.Fatal(err)
	}
	keep, stop := context.WithCancel(t.Context())
	kept := make(chan struct{})
	go func() { defer close(kept); streams.Keep(keep, broker.KeeperConfig{Registerer: reg}) }()
	stop()
	<-kept
	all := map[string][]string{"up": nil}                                                                     // Prometheus's own
	if strings.Contains(read(t, filepath.Join(root, "cmd/warpline/service/watcher.go")), `Name: "trouble"`) { // the watcher is not exported
		all["warpline_trouble"] = []string{"what", "blocks"}
	}
	if strings.Contains(read(t, filepath.Join(root, "cmd/warpline/service/trimming.go")), `Name: "rejects_dropped_total"`) {
		all["warpline_sink_rejects_dropped_total"] = nil
	}
	descs := make(chan *prometheus.Desc)
	go func() { reg.Describe(descs); close(descs) }()
	for d := range descs {
		m := describes.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("a metric describes itself as %s", d)
		}
		all[m[1]] = strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' })
	}
	if len(all) < 40 {
		t.Fatalf("only %d metrics", len(all))
	}
	return all
}

// labelsOf returns the labels that a name in an expression can have, those that Prometheus adds included.
func labelsOf(all map[string][]string, name string) (labels []string, ok bool) {
	for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
		if base, cut := strings.CutSuffix(name, suffix); cut {
			if own, found := all[base]; found {
				labels = append(slices.Clone(own), "job", "instance")
				if suffix == "_bucket" {
					labels = append(labels, "le")
				}
				return labels, true
			}
		}
	}
	return nil, false
}

var (
	selector = regexp.MustCompile(`\b([a-zA-Z_]\w*)(\{[^}]*\})?(\[\w+\])?`)
	matcher  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"`)
	grouping = regexp.MustCompile(`\bby \(([^)]*)\)`)
)

// functions are the words of the expressions that are no metrics.
var functions = []string{"sum", "max", "min", "rate", "increase", "histogram_quantile", "or"}

// checkExpression says what an expression names that nobody has, and returns the labels of its result.
func checkExpression(t *testing.T, all map[string][]string, text, where, expr string) (result []string) {
	t.Helper()
	if strings.Count(expr, "(") != strings.Count(expr, ")") {
		t.Errorf("%s: parentheses of %s", where, expr)
	}
	n := 0
	var common []string
	for _, m := range selector.FindAllStringSubmatch(grouping.ReplaceAllString(expr, ""), -1) {
		if slices.Contains(functions, m[1]) {
			continue
		}
		labels, ok := labelsOf(all, m[1])
		if !ok {
			t.Errorf("%s: no role has a metric %s", where, m[1])
			continue
		}
		if n++; n == 1 {
			common = labels
		}
		common = slices.DeleteFunc(common, func(l string) bool { return !slices.Contains(labels, l) })
		for _, pair := range matcher.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(labels, pair[1]) {
				t.Errorf("%s: %s has no label %s", where, m[1], pair[1])
			}
			for value := range strings.SplitSeq(pair[2], "|") {
				if !strings.Contains(text, `"`+value+`"`) && pair[1] != "job" && value != "$tenant" { // which a person picks
					t.Errorf("%s: nothing sets %s of %s to %q", where, pair[1], m[1], value)
				}
			}
		}
	}
	if n == 0 {
		t.Errorf("%s: no metric in %s", where, expr)
	}
	by := grouping.FindAllStringSubmatch(expr, -1)
	for _, m := range by {
		for label := range strings.SplitSeq(m[1], ",") {
			if label = strings.TrimSpace(label); !slices.Contains(common, label) {
				t.Errorf("%s: by %s, which not every metric in %s has", where, label, expr)
			}
			result = append(result, label)
		}
	}
	if by == nil && !regexp.MustCompile(`^(sum|max|min)\(`).MatchString(expr) {
		result = common
	}
	return result
}

func TestMetricsAreFoundAndMissed(t *testing.T) {
	all := series(t)
	for name, label := range map[string]string{"warpline_worker_lag_seconds_bucket": "le", "warpline_gateway_events_received_total": "tenant",
		"warpline_sink_inserts_total": "table", "up": "job"} {
		if labels, ok := labelsOf(all, name); !ok || !slices.Contains(labels, label) {
			t.Errorf("%s has labels %v, want %s among them", name, labels, label)
		}
	}
	for _, name := range []string{"warpline_gateway_unheard_of_total", "warpline_worker_lag_minutes_bucket", "warpline_sink_inserts"} {
		if labels, ok := labelsOf(all, name); ok {
			t.Errorf("%s is found, with labels %v", name, labels)
		}
	}
}

var shownLabel = regexp.MustCompile(`\$labels\.(\w+)`)

func TestAlertsAreOnMetricsThatExist(t *testing.T) {
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Labels      map[string]string
				Annotations map[string]string
			}
		}
	}
	decode(t, "prometheus/alerts.yml", &file)
	var scraped struct {
		Scrape []struct {
			Job string `yaml:"job_name"`
		} `yaml:"scrape_configs"`
	}
	decode(t, "prometheus/prometheus.yml", &scraped)
	jobs := map[string]bool{}
	for _, s := range scraped.Scrape {
		jobs[s.Job] = true
	}
	all, text, n, names := series(t), sources(t), 0, map[string]bool{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			n++
			if names[r.Alert] {
				t.Errorf("two alerts are called %s", r.Alert)
			}
			names[r.Alert] = true
			labels := checkExpression(t, all, text, r.Alert, r.Expr)
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["action"] == "" {
				t.Errorf("%s lacks severity, summary or action", r.Alert)
			}
			for _, m := range shownLabel.FindAllStringSubmatch(r.Annotations["summary"]+r.Annotations["action"], -1) {
				if !slices.Contains(labels, m[1]) {
					t.Errorf("%s tells the label %s, its result has %v", r.Alert, m[1], labels)
				}
			}
			for _, m := range matcher.FindAllStringSubmatch(r.Expr, -1) {
				for job := range strings.SplitSeq(m[2], "|") {
					if m[1] == "job" && !jobs[job] {
						t.Errorf("%s is about job %s, which is not scraped", r.Alert, job)
					}
				}
			}
		}
	}
	if n == 0 {
		t.Fatal("no alerts")
	}
}

// The pages name metrics whole, and alerts name metrics and flags in their texts.
func TestTextsNameMetricsThatExist(t *testing.T) {
	all, n := series(t), 0
	paths := []string{"README.md", "prometheus/alerts.yml"}
	for _, pattern := range []string{"../*.md", "../docs/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		paths = append(paths, found...)
	}
	for _, path := range paths {
		if path == "../CHANGELOG.md" { // of what was
			continue
		}
		for _, name := range regexp.MustCompile(`\bwarpline_(?:gateway|worker|sink|broker)_\w+`).FindAllString(read(t, path), -1) {
			n++
			if _, ok := labelsOf(all, name); !ok {
				t.Errorf("%s: no role has a metric %s", path, name)
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d names found", n)
	}
}
