package intrakernel_test

import (
	"testing"

	"github.com/warpline/warpline/sink/table"
	regiontable "github.com/warpline/warpline/sink/table/intrakernel"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// imbalance is the largest mean of a block over the mean of all, also where the sums of a block came in several chunks.
func TestImbalance(t *testing.T) {
	s := tabletest.New(t, true)
	type sum struct {
		region, block uint32
		slices, ns    uint64
	}
	for _, chunk := range [][]sum{
		{{1, 0, 1, 100}, {1, 1, 1, 80}, {2, 0, 1, 10}, {2, 1, 1, 30}}, // block 0 of region 1 alone would be the slowest
		{{1, 0, 3, 100}},
	} {
		u, v := &regiontable.RegionBlocks, &regiontable.RegionTrends
		s.Seed(*u, len(chunk), func(b *table.Batch, i int) {
			u.Tenant.AppendString(b, "acme")
			u.SessionID.AppendString(b, "one")
			u.Kernel.AppendString(b, "k")
			u.Region.Append(b, chunk[i].region)
			u.Block.Append(b, chunk[i].block)
			u.Slices.Append(b, chunk[i].slices)
			u.TotalNS.Append(b, chunk[i].ns)
		})
		s.Seed(*v, len(chunk), func(b *table.Batch, i int) {
			v.Tenant.AppendString(b, "acme")
			v.SessionID.AppendString(b, "one")
			v.Kernel.AppendString(b, "k")
			v.Region.Append(b, chunk[i].region)
			v.Slices.Append(b, chunk[i].slices)
			v.TotalNS.Append(b, chunk[i].ns)
		})
	}
	const ask = "SELECT region, count, total_ns, round(imbalance, 3) FROM {db}.region_trends ORDER BY region FORMAT TSV"
	if got, want := s.Query(ask), "1\t5\t280\t1.429\n2\t2\t40\t1.5"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
