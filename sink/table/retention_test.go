package table_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/hist"
	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
	"github.com/warpline/warpline/sink/table/telemetry"
	"github.com/warpline/warpline/sink/table/trace"
)

func TestEveryTableTakesItsBatches(t *testing.T) {
	s := newStore(t, true)
	s.SeedAll()
	for _, tb := range tabletest.Schema().Tables() {
		n := s.Query("SELECT count() FROM {db}." + tb.Name + " SETTINGS optimize_trivial_count_query = 0")
		if want := "6"; n != want && tb.Engine == "MergeTree" {
			t.Errorf("%s has %s rows, want %s", tb.Name, n, want)
		} else if n == "0" {
			t.Errorf("%s has no rows", tb.Name)
		}
	}
	for _, v := range tabletest.Schema().Views(s.Opts) {
		if strings.HasPrefix(v.Name, "insight_") || v.Source == telemetry.Source.Name || v.Source == trace.Source.Name {
			// Those of telemetry and of traces need more; their own tests have it.
			continue
		}
		if n := s.Query("SELECT count() FROM (SELECT * FROM {db}." + v.From() + ")"); n == "0" {
			t.Errorf("view %s shows nothing", v.Name)
		}
	}
}

// Rows leave by the day of receipt and their retention class, whatever their own time says.
func TestRetention(t *testing.T) {
	s := newStore(t, true)
	now := time.Now().UTC()
	for _, tb := range tabletest.Schema().Tables() {
		if tb.Retention == table.Static {
			continue
		}
		for _, c := range []struct {
			age       int
			retention uint16
		}{{1, 30}, {45, 30}, {45, 90}} {
			b := table.NewBatch(tb)
			tabletest.FillRest(b, 2, now.AddDate(0, 0, -c.age), c.retention)
			s.Insert(b)
		}
		s.Exec("OPTIMIZE TABLE {db}." + tb.Name + " FINAL")
		day := "received_day"
		if tb.Retention == table.Raw {
			day = "toDate(received_at)"
		}
		s.Want(fmt.Sprintf("SELECT arraySort(groupUniqArray((toDate(now('UTC')) - %s, retention_days))) FROM {db}.%s", day, tb.Name),
			"[(1,30),(45,90)]")
	}
}

// After 30 days minutes become hours: the same sums, fewer rows, and the sink's repair still finds the last chunk.
func TestCoarsening(t *testing.T) {
	s := newStore(t, true)
	ks := table.KernelStats
	received := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -40)
	day := int32(received.Unix() / 86400)
	b := table.NewBatch(ks.Table)
	const hours, kernels = 3, 2
	var all [hours][kernels]hist.Dense
	for minute := range hours * 60 {
		for k := range kernels {
			var h hist.Dense
			var total, low, high uint64 = 0, table.NoMin, 0
			for i := range minute%5 + 1 {
				v := uint64((minute + 1) * (i + 1) * (k + 1) * 100)
				h.Add(v)
				total, low, high = total+v, min(low, v), max(high, v)
			}
			all[minute/60][k].Merge(&h)
			ks.Tenant.AppendString(b, "acme")
			ks.SessionID.AppendString(b, "s")
			ks.Bucket.Append(b, received.Add(time.Duration(minute)*time.Minute).UnixNano())
			ks.BucketS.Append(b, 60)
			ks.KernelID.Append(b, uint32(k+1))
			ks.Scope.AppendString(b, "")
			ks.Kernel.AppendString(b, fmt.Sprint("kernel", k))
			ks.Calls.Append(b, h.Count())
			ks.TotalNS.Append(b, total)
			ks.MinNS.Append(b, low)
			ks.MaxNS.Append(b, high)
			ks.DurationHist.Append(b, &h)
			ks.ReceivedDay.Append(b, day)
			ks.RetentionDays.Append(b, 365)
			ks.RowsPartition.Append(b, 9)
			ks.Chunk.Append(b, uint64(1000+minute))
		}
	}
	s.Insert(b)
	perHour := "SELECT toStartOfHour(bucket) AS hour, kernel, sum(calls), sum(total_ns), min(min_ns), max(max_ns), " +
		"sumMap(duration_hist) FROM {db}.kernel_stats GROUP BY hour, kernel ORDER BY hour, kernel"
	before := s.Query(perHour)
	s.Exec("OPTIMIZE TABLE {db}.kernel_stats_data FINAL")
	if after := s.Query(perHour); after != before {
		t.Errorf("coarsening changed the sums:\n%s\nbefore\n%s", after, before)
	}
	s.Want("SELECT count(), uniqExact(bucket), groupUniqArray(bucket_s), max(chunk), any(rows_partition), any(kernel_id > 0) FROM "+
		"{db}.kernel_stats_data", "6\t3\t[3600]\t1179\t9\t1")
	for h := range hours {
		for k := range kernels {
			d := &all[h][k]
			low, high := uint64((h*60+1)*(k+1)*100), uint64(0)
			for m := h * 60; m < h*60+60; m++ {
				high = max(high, uint64((m+1)*(m%5+1)*(k+1)*100))
			}
			s.Want(fmt.Sprintf("SELECT calls, min_ns, max_ns, p50_ns, p90_ns, p99_ns FROM {db}.kernel_stats WHERE kernel = 'kernel%d' "+
				"AND bucket = toDateTime('%s', 'UTC')", k, received.Add(time.Duration(h)*time.Hour).Format(time.DateTime)),
				fmt.Sprintf("%d\t%d\t%d\t%d\t%d\t%d", d.Count(), low, high, d.Quantile(0.5, low, high), d.Quantile(0.9, low, high),
					d.Quantile(0.99, low, high)))
		}
	}
	// A minute that comes late joins its hour.
	s.Insert(b)
	s.Exec("OPTIMIZE TABLE {db}.kernel_stats_data FINAL")
	s.Want("SELECT count(), groupUniqArray(bucket_s) FROM {db}.kernel_stats_data", "6\t[3600]")
	s.Want("SELECT sum(calls) FROM {db}.kernel_stats", fmt.Sprint(2*sumCalls(all[:])))
}

func sumCalls[T ~[2]hist.Dense](all []T) (n uint64) {
	for i := range all {
		for k := range all[i] {
			n += all[i][k].Count()
		}
	}
	return n
}
