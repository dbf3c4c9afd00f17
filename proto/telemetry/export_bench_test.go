package telemetry_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/telemetry"
)

// exportOf is n records of a CUDA tracker of stormlog 0.4.3 as json, ndjson or csv; in CSV metadata is a Python literal.
func exportOf(n int, form string) []byte {
	const time = "1795000000123456789"
	records := make([]string, n)
	for i := range records {
		records[i] = strings.Replace(v4Record, time, fmt.Sprint(1795000000123456789+i*256), 1)
	}
	switch form {
	case "json":
		return []byte("[" + strings.Join(records, ",\n") + "]")
	case "ndjson":
		return []byte(strings.Join(records, "\n") + "\n")
	}
	record, metadata, _ := strings.Cut(strings.TrimSuffix(v4Record, "}"), `, "metadata": `)
	var keys, cells []string
	for _, member := range strings.Split(strings.TrimPrefix(record, "{"), ", ") {
		key, value, _ := strings.Cut(member, ": ")
		keys, cells = append(keys, strings.Trim(key, `"`)), append(cells, strings.Trim(strings.Replace(value, "null", "", 1), `"`))
	}
	literal := strings.NewReplacer(`"`, `'`, "true", "True").Replace(metadata)
	var out strings.Builder
	out.WriteString(strings.Join(keys, ",") + ",metadata\n")
	row := strings.Join(cells, ",") + `,"` + literal + `"` + "\n"
	for i := range records {
		out.WriteString(strings.Replace(row, time, fmt.Sprint(1795000000123456789+i*256), 1))
	}
	return []byte(out.String())
}

// frames reads an export as the gateway does and makes the frames that it publishes, into scratch memory.
func frames(t testing.TB, doc []byte, form string, scratch []byte) (n int, _ []byte) {
	o := telemetry.Options{Lines: form == "ndjson"}
	var in telemetry.Reader
	var err error
	if form == "csv" {
		in, err = telemetry.NewTable(bytes.NewReader(doc), o)
	} else {
		var l telemetry.Layout
		l, err = telemetry.Survey(bytes.NewReader(doc), o)
		in = l.Decoder(bytes.NewReader(doc), o)
	}
	for err == nil {
		var r *telemetry.Record
		if r, err = in.Next(); err == nil {
			if r.Refusal != nil {
				t.Fatal(r.Refusal)
			}
			scratch = telemetry.AppendFrame(scratch[:0], r.Index, r.Event)
			n++
		}
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	return n, scratch
}

// A record costs no allocation on its way through the gateway, in whatever form it comes.
func TestExportAllocations(t *testing.T) {
	const n = 1000
	for _, form := range []string{"json", "ndjson", "csv"} {
		doc := exportOf(n, form)
		var scratch []byte
		got := 0
		if allocs := testing.AllocsPerRun(5, func() { got, scratch = frames(t, doc, form, scratch) }); allocs > n/5 || got != n {
			t.Errorf("%s: %v allocations for %d of %d records", form, allocs, got, n)
		}
	}
}

// BenchmarkExport is what a record of each form costs until it is a frame, and to read that again.
func BenchmarkExport(b *testing.B) {
	const n = 2000
	var line []byte
	for _, form := range []string{"json", "ndjson", "csv"} {
		doc := exportOf(n, form)
		b.Run(form, func(b *testing.B) {
			b.SetBytes(int64(len(doc)))
			b.ReportAllocs()
			for b.Loop() {
				_, line = frames(b, doc, form, line)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/record")
		})
	}
	b.Run("frame", func(b *testing.B) {
		b.SetBytes(int64(len(line)))
		b.ReportAllocs()
		var v telemetry.Validator
		var e telemetry.Event
		var h telemetry.HealthReader
		for b.Loop() {
			f, err := telemetry.ParseFrame(line)
			if err != nil {
				b.Fatal(err)
			}
			if r := f.Event(&v, &e); r != nil {
				b.Fatal(r)
			}
			h.Read(e.Metadata)
		}
	})
}
