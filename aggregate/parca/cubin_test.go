package parca

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/aggregate/symbol"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

func init() { rows.Strict = true }

// foldCubin folds one upload in a partition without an owner.
func foldCubin(t testing.TB, body []byte) (*aggregate.Fold, *aggregate.Part) {
	t.Helper()
	f := aggregate.NewFold(aggregate.Config{Sources: []aggregate.Source{Source()}})
	p := &aggregate.Part{Env: stream.Envelope{Tenant: "acme", Session: "cubin:0123456789abcdef0123456789abcdef", Kind: stream.KindCubin,
		Source: "parca", Identity: "sha256-0", Events: 1, Bytes: uint64(len(body)), ReceivedAt: 1795175929972803352, RetentionDays: 7,
		RollupDays: 395}}
	f.Take(p, f.Session(p), body)
	if got := p.Counted(); got.Events != 1 || got.Stored != 1 {
		t.Errorf("counted %+v: a cubin is one event, and stored", got)
	}
	return f, p
}

// writerOf returns what wrote the rows of an upload.
func writerOf(t testing.TB, body []byte) *cubinWriter {
	t.Helper()
	f, p := foldCubin(t, nil)
	w := &cubinWriter{f: &folding{shared: f}, p: p, cubin: table.CubinRow{HeadRow: p.Session.Head(), Status: cubinOK}}
	c, err := symbol.Read(body)
	if err != nil {
		t.Fatal(err)
	}
	w.read(c)
	return w
}

func count(f *aggregate.Fold, p *aggregate.Part, t *table.Table) int { return f.Facts(p, t).Rows() }

func vector(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("../../testdata/parca/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A cubin is a row, its functions are rows, and so are the ranges of its lines; stripped it has the same.
func TestCubinRows(t *testing.T) {
	for _, name := range []string{"inline.sm_80.cubin", "inline.sm_90.cubin", "toy.sm_75.cubin", "pc_sample_toy.sm_121.cubin"} {
		var want [2]int
		for i, form := range []string{name, name + ".stripped"} {
			f, p := foldCubin(t, vector(t, form))
			got := [2]int{count(f, p, table.CubinFunctions.Table), count(f, p, table.CubinLines.Table)}
			if count(f, p, table.Cubins.Table) != 1 || got[0] == 0 || got[1] < got[0] {
				t.Errorf("%s: %v functions and lines", form, got)
			}
			if i == 1 && got != want {
				t.Errorf("%s: %v functions and lines, whole %v", form, got, want)
			}
			want = got
		}
	}
}

// One that cannot be read is a row that says why, and no reject.
func TestCorruptCubin(t *testing.T) {
	whole := vector(t, "inline.sm_80.cubin")
	for name, body := range map[string][]byte{"empty": nil, "text": []byte("hello"), "half": whole[:len(whole)/2]} {
		f, p := foldCubin(t, body)
		if count(f, p, table.Cubins.Table) != 1 || count(f, p, table.CubinLines.Table) != 0 || count(f, p, table.Rejects.Table) != 0 {
			t.Errorf("%s: %d cubins", name, count(f, p, table.Cubins.Table))
		}
	}
}

// What the rows of a cubin say, written down.
func TestCubinWriter(t *testing.T) {
	for name, want := range map[string]string{
		"inline.sm_80.cubin":          "ok whole=1 sm=80 functions=6",
		"inline.sm_80.cubin.stripped": "ok whole=0 sm=0 functions=6",
		"toy.sm_75.cubin":             "ok whole=1 sm=75 functions=1",
	} {
		w := writerOf(t, vector(t, name))
		if got := fmt.Sprintf("%s whole=%d sm=%d functions=%d", w.cubin.Status, w.cubin.Whole, w.cubin.SM, w.cubin.Functions); got != want {
			t.Errorf("%s: %s; want %s", name, got, want)
		}
		if w.cubin.Detail != "" || w.cubin.Lines == 0 {
			t.Errorf("%s: %d lines, %s", name, w.cubin.Lines, w.cubin.Detail)
		}
	}
	var names chainNames
	if got := names.of("_Z9scale_addff"); got != "scale_add(float, float)" {
		t.Error(got)
	}
	if got := names.of("_Zbroken\nname\xff"); got != "_Zbroken name\uFFFD" {
		t.Error(got)
	}
	if got := names.of(strings.Repeat("n", 4000)); len(got) > maxChainNameBytes+3 {
		t.Error(len(got))
	}
}

// Without line information its functions are listed all the same.
func TestCubinWithoutLines(t *testing.T) {
	body := vector(t, "toy.sm_75.cubin")
	body = []byte(strings.ReplaceAll(string(body), ".debug_line\x00", ".debug_none\x00"))
	w := writerOf(t, body)
	if w.cubin.Status != cubinNoLineInfo || w.cubin.Functions != 1 || w.cubin.Lines != 0 {
		t.Errorf("%+v", w.cubin)
	}
}

func BenchmarkFoldCubin40kB(b *testing.B) {
	body := vector(b, "pc_sample_toy.sm_121.cubin")
	b.ReportAllocs()
	for b.Loop() {
		foldCubin(b, body)
	}
}
