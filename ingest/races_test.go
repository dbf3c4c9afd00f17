package ingest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

// atOnce calls f n times at once.
func atOnce(n int, f func(i int)) {
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		wg.Go(func() { <-begin; f(i) })
	}
	close(begin)
	wg.Wait()
}

// The same upload sent by several at once is stored once, and each hears the same; of several contents under one key one is stored.
func TestTelemetrySentAtOnce(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	var records []map[string]any
	for i := range 400 {
		records = append(records, v2(i, func(m map[string]any) {
			m["pid"], m["metadata"] = 1+i%9, map[string]any{"pad": strings.Repeat("m", 8000)} // several parts, several sessions
			if i%40 == 0 {
				m["rank"] = -1
			}
		}))
	}
	body := ndjsonOf(t, records...)
	for _, headers := range [][]string{nil, {"Idempotency-Key", "k"}} {
		before := len(folded(r.published()))
		answers := make([]report, 6)
		atOnce(len(answers), func(i int) { answers[i] = r.send("format=ndjson", body, headers...) })
		for _, a := range answers {
			if a.status != http.StatusOK || a.Accepted != 390 || a.Rejected != 10 || len(a.Refused) != 10 {
				t.Fatalf("%d %.300s", a.status, a.raw)
			}
		}
		if again := r.send("format=ndjson", body, headers...); !again.Duplicate || again.Accepted != 390 || again.Rejected != 10 {
			t.Errorf("again: %.200s", again.raw)
		}
		events, refused := uint64(0), uint64(0)
		for _, m := range folded(r.published())[before:] {
			if m.Kind == stream.KindReject {
				refused += m.Events
			} else {
				events += m.Events
			}
		}
		if events != 390 || refused != 10 {
			t.Errorf("%d events and %d refused records are stored, want 390 and 10", events, refused)
		}
	}
	r.balanced()
	before := len(folded(r.published()))
	answers := make([]report, 6)
	atOnce(len(answers), func(i int) { answers[i] = r.send("", jsonOf(t, v2(i, nil)), "Idempotency-Key", "one for all") })
	stored := 0
	for _, a := range answers {
		switch a.status {
		case http.StatusOK:
			stored++
		case http.StatusUnprocessableEntity:
		default:
			t.Errorf("%d %s", a.status, a.raw)
		}
	}
	if n := len(folded(r.published())) - before; stored != 1 || n != 1 {
		t.Errorf("%d uploads are taken under one key, %d parts stored; want 1 and 1", stored, n)
	}
}

// Lines of legacy mode that come at once, the same and others, small and giant, are each stored once.
func TestLegacyLinesAtOnce(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	giant, err := json.Marshal(strings.Repeat(`\"😀`, 400_000))
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{fmt.Sprintf(`{"type":"ptx_disassembly","session_id":"s","ptx":%s}`, giant)}
	for i := range 15 {
		lines = append(lines, fmt.Sprintf(`{"type":"memset_event","session_id":"s%d","start_ns":%d,"end_ns":9}`, i%4, i))
	}
	atOnce(3*len(lines), func(i int) {
		if a := r.line("x", wrap(lines[i%len(lines)])); a.status != http.StatusOK || a.Accepted != 1 {
			t.Errorf("%d %s", a.status, a.raw)
		}
	})
	all := folded(r.published())
	if len(all) != len(lines) {
		t.Errorf("%d lines are stored of %d", len(all), len(lines))
	}
	bodies := map[string]bool{}
	for _, m := range all {
		bodies[string(m.body)] = true
	}
	for _, line := range lines {
		if !bodies[line] {
			t.Errorf("no part holds %.60s", line)
		}
	}
	r.balanced()
}

// Names that a body repeats, and names that it hides.
func TestLegacyWrappersThatRepeat(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	const line = `{"type":"x","session_id":"s"}`
	quoted, _ := json.Marshal(line)
	for body, want := range map[string]string{
		`{"data":` + string(quoted) + `,"data":"{\"type\":\"y\",\"session_id\":\"other\"}"}`: line, // the first counts
		`{"data":null,"data":` + string(quoted) + `}`:                                        line,
		`{"a":{"data":"{}"},"data":` + string(quoted) + `}`:                                  line,
		`{"a":"\"data\":\"{}\"","data":` + string(quoted) + `,"b":[[[[{"data":1}]]]]}`:       line,
	} {
		before := len(r.published())
		if a := r.line("x", body); a.status != http.StatusOK {
			t.Fatalf("%s: %d %s", body, a.status, a.raw)
		}
		all := r.published()
		if len(all) > before && string(all[len(all)-1].body) != want || len(all) == 0 {
			t.Errorf("%s: stored %q", body, all[len(all)-1].body)
		}
	}
	deep := strings.Repeat("[", 1<<20)
	if a := r.line("x", `{"data":`+string(quoted)+`,"b":`+deep+`}`); a.status != http.StatusOK || a.Rejected != 1 {
		t.Errorf("a depth without end: %d %s", a.status, a.raw)
	}
	r.balanced()
}
