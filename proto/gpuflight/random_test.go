package gpuflight_test

import (
	"math/rand/v2"
	"sort"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/gpuflight"
)

// TestRandomBatches compares the decoder with the reference on batches that byte-wise fuzzing seldom builds: well-formed JSON with
// columns and keys shuffled, cells from the edges of every width, white space and torn ends.
func TestRandomBatches(t *testing.T) {
	rng := rand.New(rand.NewPCG(20261120, 7))
	pick := func(list ...string) string { return list[rng.IntN(len(list))] }
	var types []string
	for name := range refSchemas {
		types = append(types, name)
	}
	sort.Strings(types)
	edges := []string{
		"0", "-0", "1", "9", "10", "-1", "255", "256", "9999999", "10000000", "99999999", "100000000", "2147483647", "2147483648", "-2147483648",
		"-2147483649",
		"4294967295", "4294967296", "999999999999999999", "1000000000000000000", "9223372036854775807",
		"9223372036854775808", "-9223372036854775808",
		"-9223372036854775809", "18446744073709551615", "18446744073709551616", "99999999999999999999",
		"1.0", "1e2", "-0.5E-3", "1e999", "null", "true", `"1"`, `"[,]"`, "[]", "[1,2]", `{"a":1}`,
	}
	broken := []string{"01", "-", "1.", ".5", "+1", "nan", "1e", "--1", "0x1", "tru", ""}
	var dec gpuflight.Decoder
	accepted, refusedRows, refusedLines := 0, 0, 0
	for range 8000 {
		typ := types[rng.IntN(len(types))]
		var names []string
		for _, c := range refSchemas[typ] {
			if (!c.optional || rng.IntN(2) == 0) && rng.IntN(200) > 0 {
				names = append(names, c.name)
			}
		}
		for rng.IntN(4) == 0 {
			names = append(names, pick("new", "newer", "dt_ns", ""))
		}
		if rng.IntN(2) == 0 {
			rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		}
		space := func() string { return "" }
		if rng.IntN(4) == 0 {
			space = func() string { return pick("", "", " ", "\t", "\r\n ") }
		}
		wild := pick("0", "1", "30") // how many cells in a hundred come from the edges
		var rows []string
		for range rng.IntN(6) {
			cells := make([]string, len(names))
			for i := range cells {
				cells[i] = space() + pick("0", "1", "7", "64", "255") + space()
				if rng.IntN(100) < len(wild)*len(wild)*3-3 {
					cells[i] = edges[rng.IntN(len(edges))]
				}
				if rng.IntN(3000) == 0 {
					cells[i] = broken[rng.IntN(len(broken))]
				}
			}
			if rng.IntN(30) == 0 && len(cells) > 0 {
				cells = cells[1:]
			}
			rows = append(rows, space()+"["+strings.Join(cells, ",")+"]"+space())
		}
		keys := []string{
			`"version":1`, `"type":"` + typ + `"`, `"session_id":"s"`, `"batch_id":` + pick("1", "18446744073709551615"),
			`"base_time_ns":` + pick("0", "1795175929972803352", "-5"),
			`"columns"` + space() + `:["` + strings.Join(names, `",`+space()+`"`) + `"]`, `"rows":` + space() + `[` + strings.Join(rows, ",") + `]`,
		}
		if rng.IntN(3) == 0 {
			rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		}
		line := "{" + strings.Join(keys, space()+","+space()) + "}"
		if rng.IntN(50) == 0 {
			line = line[:rng.IntN(len(line))]
		}
		got := compare(t, &dec, []byte(line))
		if got.Batch == nil {
			refusedLines++
			continue
		}
		accepted++
		refusedRows += got.Batch.WireRows() - got.Batch.Rows()
	}
	if accepted < 5000 || refusedRows < 1000 || refusedLines < 200 {
		t.Fatalf("the mix is off: %d accepted, %d rows and %d lines refused", accepted, refusedRows, refusedLines)
	}
}
