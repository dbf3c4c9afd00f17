package aggregate

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/kineto"
	"github.com/warpline/warpline/testdata"
)

// TraceParts are the parts of a real trace, cut as a gateway cuts them, and how many elements each tells. A counter and a begin without an
// end are added. replace has old and new texts.
func TraceParts(t testing.TB, limit int, replace ...string) (bodies [][]byte, counts []uint64) {
	t.Helper()
	f, err := testdata.Traces.Open("traces/real/HTA_critical_path__cuda_event_sync_multi_stream__event_sync_trace.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	const list = `"traceEvents": [`
	trace := strings.Replace(strings.NewReplacer(replace...).Replace(string(text)), list, list+`{"ph":"C","name":"load","pid":1,`+
		`"ts":1712867402305721,"args":{"busy":0.5,"waits":3}},{"ph":"B","cat":"cpu_op","name":"step","pid":1,"tid":1,"ts":1712867402305722},`, 1)
	meta, err := kineto.Survey(strings.NewReader(trace))
	if err != nil {
		t.Fatal(err)
	}
	head := kineto.Head{Complete: true, Rank: meta.Rank, Devices: meta.Devices, Vendor: meta.Vendor, Job: "night", Host: "vm"}
	c := kineto.Cutter{Head: head, Meta: meta, Limit: limit, Refuse: func(r *kineto.Refusal) error { return fmt.Errorf("%+v", r) },
		Send: func(_ *kineto.Head, n uint64, _ int64, body []byte) error {
			bodies, counts = append(bodies, bytes.Clone(body)), append(counts, n)
			return nil
		}}
	if err := c.Cut(strings.NewReader(trace)); err != nil {
		t.Fatal(err)
	}
	return bodies, counts
}
