package parca_test

import (
	"os"
	"slices"
	"testing"

	"github.com/warpline/warpline/proto/parca"
	"github.com/warpline/warpline/proto/parca/parcatest"
)

// What parcatest encodes comes back: equal rows by Arrow, and by OTLP, which has no stack ids and types of
// periods, parts of the same sessions.
func TestEncodersAndDecodersAgree(t *testing.T) {
	file, err := os.ReadFile("../../testdata/parca/batch1.wire_rows.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := parcatest.Rows(file)
	if err != nil {
		t.Fatal(err)
	}
	var b parca.Batch
	sessions := func(err error) (ids []string, kept, refused int) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		_ = b.Cut(func(p parca.Piece) error {
			var part parca.Part
			if err := part.Decode(p.Body); err != nil {
				t.Fatal(err)
			}
			ids, kept, refused = append(ids, p.Session), kept+len(part.PC)+len(part.Kernels), refused+len(part.Refused)
			return nil
		})
		return ids, kept, refused
	}
	want, kept, _ := sessions(b.DecodeArrow(parcatest.Arrow(rows)))
	if kept != len(rows) {
		t.Fatal(kept)
	}
	samples, locations := parcatest.ArrowV1(rows)
	for name, err := range map[string]func() error{
		"v1":    func() error { return b.DecodeArrowV1(samples, locations) },
		"plain": func() error { return b.DecodeArrow(parcatest.ArrowPlain(rows)) },
		"otlp":  func() error { return b.DecodeOTLP(parcatest.OTLP(rows)) },
	} {
		if ids, n, refused := sessions(err()); !slices.Equal(ids, want) || n != kept || refused != 0 {
			t.Errorf("%s: sessions %v, want %v; %d rows and %d refused, want %d", name, ids, want, n, refused, kept)
		}
	}
	if err := b.DecodeOTLP(parcatest.OTLP19(rows)); err == nil {
		t.Error("OTLP 1.9 is read")
	}
}
