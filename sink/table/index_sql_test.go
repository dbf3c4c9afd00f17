package table_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/hist"
)

// SQL puts every value into the bucket that Go puts it into: around every bound, at the ends, and in between.
func TestIndexSQLEqualsGo(t *testing.T) {
	s := newStore(t, true)
	values := []uint64{0, 1, 2, 1<<63 - 1, 1 << 63, 1<<63 + 1, math.MaxUint64 - 1, math.MaxUint64}
	for i := int16(0); i <= hist.Last; i++ {
		low, high := hist.Bounds(i)
		values = append(values, low-1, low, low+1, high)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 5000 {
		values = append(values, r.Uint64()>>r.UintN(64))
	}
	var sql strings.Builder
	for _, v := range values {
		fmt.Fprintln(&sql, v)
	}
	s.Exec("CREATE TABLE {db}.numbers (n UInt64, at UInt32) ENGINE = MergeTree ORDER BY at")
	if _, err := s.Post("INSERT INTO {db}.numbers SELECT toUInt64(line), rowNumberInAllBlocks() FROM input('line String') FORMAT "+
		"LineAsString", strings.NewReader(sql.String()), "max_insert_threads=1", "input_format_parallel_parsing=0"); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(s.Query("SELECT n, "+hist.IndexSQL("n")+", toTypeName("+hist.IndexSQL("n")+") FROM {db}.numbers ORDER BY at"),
		"\n")
	if len(got) != len(values) {
		t.Fatalf("%d rows, want %d", len(got), len(values))
	}
	wrong := 0
	for i, v := range values {
		if want := fmt.Sprintf("%d\t%d\tInt16", v, hist.Index(v)); got[i] != want {
			if wrong++; wrong < 10 {
				t.Errorf("have %q, want %q", got[i], want)
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d values differ", wrong, len(values))
	}
}
