package deploy_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
)

// A scrape is what was read of the metrics at once: values by name and labels, as name{label="value",…}.
type scrape map[string]float64

// scrapeOf reads what a role gathers, with what Prometheus would add.
func scrapeOf(families []*dto.MetricFamily) scrape {
	s := scrape{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{"job": "gateway", "instance": "here"}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			s[f.GetName()+keyOf(labels)] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return s
}

func keyOf(labels map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, fmt.Sprintf("%s=%q", name, labels[name]))
	}
	return "{" + strings.Join(all, ",") + "}"
}

// vector is a result, by the labels.
type vector map[string]struct {
	labels map[string]string
	value  float64
}

func (v vector) put(labels map[string]string, value float64) {
	v[keyOf(labels)] = struct {
		labels map[string]string
		value  float64
	}{labels, value}
}

// promQL evaluates the part of Prometheus's language that alerts on values and on increases are written in: selectors, increase, sum, max
// and min with by, /, +, comparisons with a number, and or. Two scrapes stand for the whole range of an increase.
type promQL struct {
	t           testing.TB
	text        string
	before, now scrape
}

// ask returns what the expression gives.
func ask(t testing.TB, expr string, before, now scrape) vector {
	t.Helper()
	q := &promQL{t: t, text: expr, before: before, now: now}
	v := q.either()
	if q.skip(); q.text != "" {
		t.Fatalf("%s: %q is left", expr, q.text)
	}
	return v
}

func (q *promQL) skip() { q.text = strings.TrimLeft(q.text, " \n") }

func (q *promQL) next(token string) bool {
	q.skip()
	rest, ok := strings.CutPrefix(q.text, token)
	if ok {
		q.text = rest
	}
	return ok
}

func (q *promQL) need(token string) {
	q.t.Helper()
	if !q.next(token) {
		q.t.Fatalf("want %q before %q", token, q.text)
	}
}

func (q *promQL) either() vector {
	v := q.compared()
	for q.next("or ") {
		for key, s := range q.compared() {
			if _, there := v[key]; !there {
				v[key] = s
			}
		}
	}
	return v
}

func (q *promQL) compared() vector {
	v := q.joined()
	for op, holds := range map[string]func(a, b float64) bool{"> ": func(a, b float64) bool { return a > b },
		"< ": func(a, b float64) bool { return a < b }, "== ": func(a, b float64) bool { return a == b }} {
		if q.next(op) {
			bound := q.number()
			maps.DeleteFunc(v, func(_ string, s struct {
				labels map[string]string
				value  float64
			}) bool {
				return !holds(s.value, bound)
			})
		}
	}
	return v
}

func (q *promQL) joined() vector {
	v := q.term()
	for op, do := range map[string]func(a, b float64) float64{"/ ": func(a, b float64) float64 { return a / b },
		"+ ": func(a, b float64) float64 { return a + b }} {
		if !q.next(op) {
			continue
		}
		other, both := q.term(), vector{}
		for key, s := range v {
			if o, ok := other[key]; ok {
				both.put(s.labels, do(s.value, o.value))
			}
		}
		v = both
	}
	return v
}

func (q *promQL) number() float64 {
	q.t.Helper()
	q.skip()
	n := strings.IndexFunc(q.text+" ", func(r rune) bool { return !strings.ContainsRune("0123456789.", r) })
	f, err := strconv.ParseFloat(q.text[:n], 64)
	if err != nil {
		q.t.Fatalf("%q: %v", q.text, err)
	}
	q.text = q.text[n:]
	return f
}

func (q *promQL) term() vector {
	q.t.Helper()
	if q.next("increase(") {
		v := q.selected(func(key string) (float64, bool) {
			was, there := q.before[key] // a series that appears has not changed
			return q.now[key] - was, there
		})
		q.need(")")
		return v
	}
	// What is not a number, as 0 / 0, is neither the largest nor the smallest.
	pick := func(better func(a, b float64) bool) func(a, b float64) float64 {
		return func(a, b float64) float64 {
			if better(a, b) || math.IsNaN(b) {
				return a
			}
			return b
		}
	}
	for of, add := range map[string]func(a, b float64) float64{"sum": func(a, b float64) float64 { return a + b },
		"max": pick(func(a, b float64) bool { return a > b }), "min": pick(func(a, b float64) bool { return a < b })} {
		if !strings.HasPrefix(strings.TrimLeft(q.text, " "), of+" by") && !strings.HasPrefix(strings.TrimLeft(q.text, " "), of+"(") {
			continue
		}
		q.need(of)
		var by []string
		if q.next("by (") {
			list, rest, _ := strings.Cut(q.text, ")")
			by, q.text = strings.Split(strings.ReplaceAll(list, " ", ""), ","), rest
		}
		q.need("(")
		all, v := q.joined(), vector{}
		q.need(")")
		for _, s := range all {
			labels := map[string]string{}
			for _, name := range by {
				labels[name] = s.labels[name]
			}
			value := s.value
			if have, ok := v[keyOf(labels)]; ok {
				value = add(have.value, value)
			}
			v.put(labels, value)
		}
		return v
	}
	return q.selected(func(key string) (float64, bool) { return q.now[key], true })
}

// selected reads a selector, of a range too, and gives the values of its series.
func (q *promQL) selected(value func(key string) (float64, bool)) vector {
	q.t.Helper()
	q.skip()
	m := selector.FindStringSubmatchIndex(q.text)
	if m == nil || m[0] != 0 {
		q.t.Fatalf("want a metric before %q", q.text)
	}
	name, matches := q.text[m[2]:m[3]], ""
	if m[4] >= 0 {
		matches = q.text[m[4]:m[5]]
	}
	q.text = q.text[m[1]:]
	v := vector{}
	for key := range q.now {
		of, rest, _ := strings.Cut(key, "{")
		if of != name {
			continue
		}
		labels, fits := map[string]string{}, true
		for _, pair := range matcher.FindAllStringSubmatch(rest, -1) {
			labels[pair[1]] = pair[2]
		}
		for _, pair := range matcher.FindAllStringSubmatch(matches, -1) {
			if strings.Contains(pair[0], "!") {
				q.t.Fatalf("%s is not evaluated here", matches)
			}
			fits = fits && slices.Contains(strings.Split(pair[2], "|"), labels[pair[1]])
		}
		if n, ok := value(key); fits && ok {
			v.put(labels, n)
		}
	}
	return v
}
