package report

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// instances are names of kernels as compilers write them, which differ in arguments of their templates.
func instances(rnd *rand.Rand, n int) (names []string) {
	word := func() string {
		return []string{"float", "half_t", "nv_bfloat16", "RowMajor", "ColumnMajor", "GemmShape", "128",
			"64", "Epilogue", "große_Matrix", "行列", "true"}[rnd.IntN(12)]
	}
	args := make([]string, 2+rnd.IntN(30))
	for i := range args {
		args[i] = word()
	}
	for len(names) < n {
		own := slices.Clone(args)
		for range 1 + rnd.IntN(3) {
			own[rnd.IntN(len(own))] = fmt.Sprint(rnd.IntN(2000))
		}
		if rnd.IntN(8) == 0 {
			own = own[:1+rnd.IntN(len(own))]
		}
		name := "void cutlass::Kernel2<" + strings.Join(own, ", ") + ">(Params)"
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Names that differ stay different when they are shortened, none is wider than it may be, and what fits is not touched. Where there is room
// for each place in which they differ, they are told apart by it; in less, by numbers.
func TestShortenedNamesStayDifferent(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		n := 1 + rnd.IntN(12)
		names, width := instances(rnd, n), 4+rnd.IntN(90)
		switch rnd.IntN(4) {
		case 0: // short ones among them, and one that looks like a shortened one
			names = append(names, "k", "axpy", cut(names[0], width))
		case 1: // nothing but length
			for i := range 5 {
				names = append(names, strings.Repeat("a", 200+i))
			}
		case 2: // the same again: it is shown the same
			names = append(names, names[0])
		}
		out, by := distinct(names, width), map[string]string{}
		for i, text := range out {
			if cells(text) > width {
				t.Fatalf("%q is wider than %d", text, width)
			}
			if cells(names[i]) <= width && text != Printable(names[i]) {
				t.Fatalf("%q fits %d and is %q", names[i], width, text)
			}
			if other, twice := by[text]; twice && other != names[i] {
				t.Fatalf("width %d: %q stands for\n%s\n%s", width, text, other, names[i])
			}
			by[text] = names[i]
			if width >= 2*len(names)+2 && strings.Contains(text, "~") && !strings.HasPrefix(names[i], "aaa") {
				t.Fatalf("width %d is enough for %d names, and %q is a number", width, len(names), text)
			}
		}
		if again := distinct(names, width); !slices.Equal(again, out) {
			t.Fatalf("another time it is\n%q\n%q", again, out)
		}
	}
}

// Five instances of a template can be told apart in each table that has names, at every width.
func TestReportTellsTemplateInstancesApart(t *testing.T) {
	var names []string
	for _, tile := range []string{"128, 128, 32", "128, 64, 32", "64, 128, 32", "64, 64, 32", "64, 64, 64"} {
		names = append(names, "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>, "+
			"cutlass::gemm::GemmShape<"+tile+
			">, cutlass::epilogue::collective::DefaultEpilogue<cutlass::half_t, cute::tuple<long, cute::C<1>, long>>, cutlass::arch::Sm90>>(Params)")
	}
	share := 0.2
	for _, width := range []int{40, 50, 60, 80, 100, 132} {
		r := &Report{KernelCalls: 5, KernelNames: 5, KernelNS: 5e6, Samples: 500, Sessions: []Session{{ID: "s", Kernels: 5}}}
		for i, name := range names {
			r.Kernels = append(r.Kernels, Timing{Name: name, Calls: 1, TotalNS: 1e6})
			r.Scopes = append(r.Scopes, Timing{Name: name, Calls: 1, TotalNS: 1e6})
			r.Hot = append(r.Hot, Hot{Function: name, Samples: 100})
			r.Spots = append(r.Spots, Spot{Function: name, SASS: fmt.Sprint("LDG", i), Samples: 100})
			r.Insights = append(r.Insights, Insight{Rule: "spill", Severity: "high", Subject: name, Share: &share})
		}
		var b bytes.Buffer
		if err := r.Print(&b, Style{Width: width}); err != nil {
			t.Fatal(err)
		}
		section, seen := "", map[string]int{}
		for line := range strings.Lines(b.String()) {
			switch {
			case !strings.HasPrefix(line, " "):
				section = strings.Fields(line + " -")[0]
			case strings.Contains(line, "…"):
				for word := range strings.SplitSeq(strings.TrimSpace(line), "  ") {
					if strings.Contains(word, "…") {
						seen[section+" "+word]++
					}
				}
			}
		}
		for what, n := range seen {
			if n > 1 {
				t.Errorf("width %d: %d lines have %s", width, n, what)
			}
		}
		if len(seen) < 15 {
			t.Errorf("width %d: only %d shortened names:\n%s", width, len(seen), b.String())
		}
	}
}

// Sessions are shown by as much of their ids as tells them apart, which commands take as a prefix.
func TestShortIDsStayDifferent(t *testing.T) {
	ids := []string{"dbca9991-838e-4545-b1e3-570e3dac0e39", "dbca9991-838f-4545-b1e3-570e3dac0e39", "00000000-838e-4545-b1e3-570e3dac0e39",
		"mem:trainer-0001.cluster.internal:4711:job-7:0", "mem:trainer-0001.cluster.internal:4712:job-7:0",
		"mem:trainer-0002.cluster.internal:4711:job-7:0", "short"}
	short := shortIDs(ids)
	seen := map[string]bool{}
	for _, id := range ids {
		if seen[short[id]] || cells(short[id]) > 36 {
			t.Errorf("%s is %s", id, short[id])
		}
		seen[short[id]] = true
	}
	for i, want := range []string{"dbca9991-838e", "dbca9991-838f", "00000000"} {
		if short[ids[i]] != want {
			t.Errorf("%s is %s, want %s", ids[i], short[ids[i]], want)
		}
	}
}
