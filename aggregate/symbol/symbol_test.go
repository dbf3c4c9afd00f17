package symbol_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/warpline/warpline/aggregate/symbol"
)

const vectors = "../../testdata/parca"

func load(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(vectors, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func read(t testing.TB, name string) *symbol.Cubin {
	t.Helper()
	c, err := symbol.Read(load(t, name))
	if err != nil {
		t.Fatal(name, err)
	}
	return c
}

func parse(t testing.TB, name string, to any) {
	t.Helper()
	if err := json.Unmarshal(load(t, name), to); err != nil {
		t.Fatal(err)
	}
}

// forms are how a cubin may come.
func forms(name string) []string { return []string{name, name + ".stripped"} }

func offset(t testing.TB, s string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Every known offset gets its line, from whole cubins and from what the agent uploads of them.
func TestLines(t *testing.T) {
	var want map[string]struct {
		File      string
		Functions map[string]map[string]uint32
	}
	parse(t, "expected_lines.json", &want)
	n := 0
	for cubin, w := range want {
		for _, name := range forms(cubin) {
			c := read(t, name)
			for function, lines := range w.Functions {
				for at, line := range lines {
					n++
					got, status := c.Lookup(function, offset(t, at))
					if status != symbol.OK || got[0].Line != line || !strings.HasSuffix(got[0].File, w.File) {
						t.Errorf("%s: %s+%s is %v, %v; want line %d of %s", name, function, at, got, status, line, w.File)
					}
				}
			}
		}
	}
	if n != 2*13 {
		t.Errorf("%d places were looked up", n)
	}
}

// Every instruction of the inlined kernels gets the frames that NVIDIA's disassembler prints, in ABI V1 and V2, whole and stripped, by
// lookup and by range.
func TestInlineChains(t *testing.T) {
	var want struct {
		Frames map[string]map[string]map[string][]string
	}
	parse(t, "expected_inline.json", &want)
	n := 0
	for cubin, functions := range want.Frames {
		for _, name := range forms(cubin) {
			c := read(t, name)
			for function, frames := range functions {
				for at, want := range frames {
					n++
					got, status := c.Lookup(function, offset(t, at))
					if !slices.Equal(places(got), want) || status != symbol.OK {
						t.Errorf("%s: %s+%s is %v, %v; want %v", name, function, at, places(got), status, want)
					}
					if last := got[len(got)-1].Function; last != function {
						t.Errorf("%s+%s ends in %s, not in the kernel", function, at, last)
					}
				}
				ranges := byRange(t, c, function)
				if !reflect.DeepEqual(ranges, frames) {
					t.Errorf("%s: ranges of %s do not agree with its instructions", name, function)
				}
			}
		}
	}
	if want := 2 * (24 + 24 + 376 + 40 + 32 + 32 + 376 + 48); n != want {
		t.Errorf("%d instructions were looked up, want %d", n, want)
	}
}

func places(frames []symbol.Frame) (out []string) {
	for _, f := range frames {
		out = append(out, fmt.Sprintf("%s:%d", f.File, f.Line))
	}
	return out
}

// byRange lists what ranges say of each instruction.
func byRange(t *testing.T, c *symbol.Cubin, function string) map[string][]string {
	out := map[string][]string{}
	for i := range c.Functions {
		if c.Functions[i].Name != function {
			continue
		}
		end := uint64(0)
		for r := range c.Functions[i].Ranges() {
			if r.From < end || r.To <= r.From {
				t.Fatalf("range %d to %d of %s follows one to %d", r.From, r.To, function, end)
			}
			end = r.To
			for at := r.From; at < r.To; at += 16 {
				out[fmt.Sprintf("%#x", at)] = places(r.Frames)
			}
		}
	}
	return out
}

// Frames are named: what was inlined by the line table, the kernel by itself.
func TestFrameNames(t *testing.T) {
	got, _ := read(t, "inline.sm_80.cubin.stripped").Lookup("long_loop", 0x2c0)
	want := []symbol.Frame{{Function: "_Z9scale_addff", File: "/src/inline.cu", Line: 5},
		{Function: "_Z8load_twoPKfif", File: "/src/inline.cu", Line: 11}, {Function: "long_loop", File: "/src/inline.cu", Line: 32}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// A stripped cubin has the functions of the whole one and says that it is stripped; the architecture is known when a note has it.
func TestStripped(t *testing.T) {
	sm := map[string][2]uint32{"inline.sm_80.cubin": {80, 0}, "inline.sm_90.cubin": {90, 90}, "toy.sm_75.cubin": {75, 75},
		"pc_sample_toy.sm_121.cubin": {121, 121}}
	for _, name := range slices.Sorted(maps.Keys(sm)) {
		whole, stripped := read(t, name), read(t, name+".stripped")
		if !whole.Whole || stripped.Whole || !whole.HasLines || !stripped.HasLines {
			t.Errorf("%s: whole %v and %v, lines %v and %v", name, whole.Whole, stripped.Whole, whole.HasLines, stripped.HasLines)
		}
		if whole.SM != sm[name][0] || stripped.SM != sm[name][1] {
			t.Errorf("%s: sm %d, stripped %d", name, whole.SM, stripped.SM)
		}
		if len(whole.Functions) == 0 || len(whole.Functions) != len(stripped.Functions) {
			t.Errorf("%s: %d functions, stripped %d", name, len(whole.Functions), len(stripped.Functions))
		}
		for i := range whole.Functions {
			if a, b := &whole.Functions[i], &stripped.Functions[i]; a.Name != b.Name || a.SizeBytes != b.SizeBytes || a.SizeBytes == 0 {
				t.Errorf("%s: %s of %d bytes is %s of %d when stripped", name, a.Name, a.SizeBytes, b.Name, b.SizeBytes)
			}
		}
	}
}

// The build id is the one that the agent has for the whole cubin.
func TestBuildID(t *testing.T) {
	var want struct {
		IDs map[string]string `json:"build_ids"`
	}
	parse(t, "expected_inline.json", &want)
	for name, id := range want.IDs {
		if got := symbol.BuildID(load(t, name)); got != id {
			t.Errorf("%s: %s, want %s", name, got, id)
		}
	}
	if symbol.BuildID(nil) == symbol.BuildID([]byte{0}) {
		t.Error("sizes do not count")
	}
}

// Names as samples have them: whole, cut at 127 characters, cut so that two kernels have them, unknown.
func TestNames(t *testing.T) {
	for _, file := range forms("inline.sm_90.cubin") {
		c := read(t, file)
		var long []string
		for i := range c.Functions {
			if name := c.Functions[i].Name; strings.HasPrefix(name, "_Z8epilogue") {
				long = append(long, name)
			}
		}
		if len(long) != 2 || long[0][:127] != long[1][:127] {
			t.Fatal(long)
		}
		for name, want := range map[string]symbol.Status{
			long[0]: symbol.OK, long[1]: symbol.OK, long[0][:127]: symbol.AmbiguousName, long[0][:126]: symbol.NoFunction,
			"long_loop": symbol.OK, "long_loo": symbol.NoFunction, "long_loop2": symbol.NoFunction, "": symbol.NoFunction,
			long[0][:len(long[0])-3]: symbol.OK,
		} {
			frames, status := c.Lookup(name, 0)
			if status != want || (status == symbol.OK) != (len(frames) > 0) {
				t.Errorf("%s: %q is %v, %v; want %v", file, name, status, frames, want)
			}
		}
	}
}

// An offset behind a function belongs to the function of its section that has it; one behind all has no function.
func TestOffsetBehindFunction(t *testing.T) {
	c := read(t, "inline.sm_80.cubin")
	got, status := c.Lookup("$long_loop$_Z4tailfi", 1504) // the sqrt that follows
	if status != symbol.OK || got[len(got)-1].Function != "$__internal_0_$__cuda_sm20_sqrt_rn_f32_slowpath" && got[0].Function != "long_loop" {
		t.Errorf("%v, %v", got, status)
	}
	if got, status := c.Lookup("long_loop", 6016); status != symbol.NoFunction || got != nil {
		t.Errorf("%v, %v", got, status)
	}
	if _, status := c.Lookup("long_loop", 1<<60); status != symbol.NoFunction {
		t.Error(status)
	}
}
