package ingest_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/tenant"
)

// The values that labels are known to have from the start are those that the text of the gateway and of its sources sets.
func TestSeriesKnowTheValuesOfTheirLabels(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	ofSources, err := filepath.Glob("*/*.go")
	if err != nil || len(ofSources) == 0 {
		t.Fatal(ofSources, err)
	}
	var text strings.Builder
	for _, f := range append(files, ofSources...) {
		if strings.HasSuffix(f, "_test.go") || f == "series.go" {
			continue
		}
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(b)
	}
	r := start(t, broker.Layout{}, nil)
	known := r.labels()
	options := []string{"events_key", "format", "peer", "permissive_legacy", "default_session_id", "default_sampling_interval_ms"}
	for pattern, known := range map[string][]string{
		`Code: +"(\w+)"|Unavailable\("(\w+)"|bad\("(\w+)"`: append(options, known["refused_total/reason"]...),
		`[oO]utcome = "(\w+)"|\.Odd\("(\w+)"`:              known["windows_total/outcome"],
		`return "(\w+)", "[a-zA-Z]+ [^"]*"`:                append([]string{"timeout"}, known["publish_failures_total/reason"]...),
	} {
		n := 0
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text.String(), -1) {
			for _, value := range m[1:] {
				if value != "" && !slices.Contains(known, value) {
					t.Errorf("%q is set and not among the values that are known: %q", value, known)
				}
				n++
			}
		}
		if n == 0 {
			t.Errorf("%s finds nothing", pattern)
		}
	}
	if slices.Contains(known["parts_total/kind"], "repeats") {
		t.Error("counts are no parts")
	}
}

// labels are the values of each metric's labels, by metric/label.
func (r *rig) labels() map[string][]string {
	r.t.Helper()
	families, err := r.metrics.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	out := map[string][]string{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				name := strings.TrimPrefix(f.GetName(), "warpline_gateway_") + "/" + l.GetName()
				out[name] = append(out[name], l.GetValue())
			}
		}
	}
	return out
}

// A gateway has series of so many tenants, and counts the others together.
func TestMetricsTenants(t *testing.T) {
	r := start(t, broker.Layout{}, func(c *ingest.Config) { c.MetricsTenants = 3 }) // one is dev's
	for i, name := range []string{"red", "green", "blue"} {
		if a := r.post("s", ndjson("s", 10*(i+1)), r.keyOf(name, tenant.Limits{})...); a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.raw)
		}
	}
	for name, want := range map[string]float64{"red": 10, "green": 20, "blue": 0, tenant.OtherSeries: 30} {
		if n := r.metric("events_received_total", "tenant", name); n != want {
			t.Errorf("%s has %v events, want %v", name, n, want)
		}
	}
	r.balanced()
}
