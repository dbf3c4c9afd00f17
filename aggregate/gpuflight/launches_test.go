package gpuflight

import (
	"strconv"
	"strings"
	"testing"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/sink/table"
)

// A kernel that is launched now with these registers, now with those, has a row of each launch, also when its id is too large for the
// index and when many others came between.
func TestLaunchesAreWrittenOnce(t *testing.T) {
	f := newTestFlight(aggregate.Config{})
	line := func(ids []string, regs string) string {
		rows := make([]string, len(ids))
		for i, id := range ids {
			rows[i] = "[1," + id + ",5,100,1,0," + regs + ",0]"
		}
		return `{"type":"kernel_event_batch","session_id":"s","batch_id":1,"base_time_ns":1795175929000000000,` +
			`"columns":["dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"],"rows":[` +
			strings.Join(rows, ",") + "]}\n"
	}
	few := []string{"1", "2", "99999999"}
	many := make([]string, 70_000)
	for i := range many {
		many[i] = strconv.Itoa(i + 100_000)
	}
	var s *aggregate.Session
	for n, body := range []string{line(few, "32"), line(few, "64"), line(few, "32"), line(few, "64")} {
		s = foldPart(f, n, []byte(body))
	}
	rows := func() int { return f.Out.Batch(table.Launches.Table, s.FactPartition()).Rows() }
	if n := rows(); n != 2*len(few) {
		t.Fatalf("%d launches of %d kernels with two numbers of registers each", n, len(few))
	}
	foldPart(f, 4, []byte(line(many, "32")))
	f.Flush(1 << 62) // what was added up is written, and the index of large ids forgotten
	foldPart(f, 5, []byte(line(few, "32")))
	if n := rows(); n != 2*len(few)+len(many) {
		t.Errorf("%d launches after %d others, want %d", n, len(many), 2*len(few)+len(many))
	}
}
