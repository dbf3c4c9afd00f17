package ingest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/proto/stream"
)

// The values that labels are known to have are those that the text of this package sets.
func TestSeriesKnowTheValuesOfTheirLabels(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") || f == "series.go" {
			continue
		}
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(b)
	}
	for pattern, known := range map[string][]string{
		`code: +"(\w+)"|unavailable\("(\w+)"|bad\("(\w+)"`:   append([]string{"events_key", "format", "peer", "permissive_legacy", "default_session_id", "default_sampling_interval_ms"}, refusalCodes...),
		`outcome = "(\w+)"|x\.outcome = u\.session, "(\w+)"`: outcomes,
		`return "(\w+)", "[a-zA-Z]+ [^"]*"`:                  append([]string{"timeout"}, storeFailures...),
	} {
		n := 0
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text.String(), -1) {
			for _, value := range m[1:] {
				if value != "" && !slices.Contains(known, value) {
					t.Errorf("%q is set and not among the values that are known", value)
				}
				n++
			}
		}
		if n == 0 {
			t.Errorf("%s finds nothing", pattern)
		}
	}
	for _, kind := range partKinds {
		if kind == stream.KindRepeats {
			t.Error("counts are no parts")
		}
	}
}

// However many tenants there are, their series at 0 are bounded.
func TestTenantsHaveSeriesAtOnce(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := newMetrics(reg)
	count := func() (n int) {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			n += len(f.GetMetric())
		}
		return n
	}
	g := guests{met: m.meet}
	none := count()
	g.of("a")
	one := count() - none
	if one < 20 {
		t.Errorf("a tenant has %d series", one)
	}
	g.of("a")
	for i := range 10_000 {
		g.of(strings.Repeat("t", i%200) + string(rune('a'+i%26)) + strings.Repeat("u", i/200))
	}
	if n := count() - none; n != one*tenantSeries {
		t.Errorf("10 000 tenants have %d series, want %d", n, one*tenantSeries)
	}
}
