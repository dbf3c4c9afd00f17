package table_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/hist"
	"github.com/warpline/warpline/sink/table"
)

// declared is every table variable, so that tests can fill their columns without naming them.
var declared = []any{
	table.Kernels, table.Launches, table.LaunchConfigs, table.KernelDetails, table.KernelStats, table.Scopes, table.ScopeStats, table.PCSamples,
	table.ProfileMetrics, table.SourceMap, table.Memcpys, table.HostMetrics, table.DeviceMetrics, table.HostMetrics1m,
	table.DeviceMetrics1m, table.Sessions, table.Devices, table.Dictionaries, table.Usage, table.Rejects, table.Ledger,
	table.Memsets, table.Syncs, table.SyncStats, table.Allocations, table.MemcpyStats, table.Markers, table.Graphs, table.GraphNodes, table.PerfMetrics,
	table.PMSamples, table.PMStats, table.PMConfigs, table.SassConfigs, table.ExecutionSignatures, table.DeepWindowRules, table.CounterQuality,
	table.SystemEvents, table.DeviceSnapshots, table.JobStarts, table.ExtraFields,
	table.Segments, table.RunEnds, table.SessionEnds, table.Capabilities, table.Synthetic, table.DeepWindows,
	table.SourceLines, table.SASSLines, table.PTX, table.SessionSources, table.SessionFunctions,
	table.MemoryEvents, table.MemoryStats, table.MemoryReplaced, table.MemoryTrackAlerts,
}

func tableOf(v any) *table.Table {
	return reflect.ValueOf(v).FieldByName("Table").Interface().(*table.Table)
}

// fillRest gives every column that is shorter than rows a value of its kind.
func fillRest(b *table.Batch, v any, rows int, received time.Time, retention uint16) {
	day := int32(received.Unix() / 86400)
	var walk func(reflect.Value)
	walk = func(s reflect.Value) {
		for i := range s.NumField() {
			name := s.Type().Field(i).Name
			switch c := s.Field(i).Interface().(type) {
			case table.U8Col:
				for i := len(*c.Slice(b)); name == "Rank" && i < rows; i++ { // of a session's end: clients tell it in two ways
					c.Append(b, []uint8{table.EndComplete, table.EndStopped}[i%2])
				}
				c.AppendN(b, 1, rows-len(*c.Slice(b)))
			case table.U16Col:
				n := uint16(3)
				if name == "RetentionDays" {
					n = retention
				}
				c.AppendN(b, n, rows-len(*c.Slice(b)))
			case table.U32Col:
				c.AppendN(b, 1, rows-len(*c.Slice(b)))
			case table.U64Col:
				c.AppendN(b, 1, rows-len(*c.Slice(b)))
			case table.I32Col:
				c.AppendN(b, 1, rows-len(*c.Slice(b)))
			case table.I64Col:
				c.AppendN(b, -1, rows-len(*c.Slice(b)))
			case table.F32Col:
				c.AppendN(b, 1.5, rows-len(*c.Slice(b)))
			case table.F64Col:
				c.AppendN(b, 1.5, rows-len(*c.Slice(b)))
			case table.TimeCol:
				c.AppendN(b, received.UnixNano(), rows-len(*c.Slice(b)))
			case table.DayCol:
				c.AppendN(b, day, rows-len(*c.Slice(b)))
			case table.DictCol:
				for i := len(*c.Slice(b)); name == "Kind" && i < rows; i++ {
					c.AppendString(b, []string{table.ArtifactSASS, table.ArtifactPTX}[i%2])
				}
				c.AppendN(b, c.Index(b, "x"), rows-len(*c.Slice(b)))
			case table.StrCol:
				for c.Len(b) < rows {
					c.Append(b, "text\xff")
				}
			case table.HistCol:
				for c.Len(b) < rows {
					c.AppendPairs(b, []int16{5}, []uint64{1})
				}
			case *table.Table:
			default:
				walk(s.Field(i))
			}
		}
	}
	walk(reflect.ValueOf(v))
}

func TestEveryTableTakesItsBatches(t *testing.T) {
	s := newStore(t, true)
	if len(declared) != len(table.All()) {
		t.Fatalf("%d tables are declared here, %d in all", len(declared), len(table.All()))
	}
	for _, v := range declared {
		b := table.NewBatch(tableOf(v))
		fillRest(b, v, 3, time.Now(), 30)
		s.insert(b, b) // the same body twice: splicing works for every table
		want := "6"
		if n := s.query("SELECT count() FROM {db}." + b.Table().Name + " SETTINGS optimize_trivial_count_query = 0"); n != want && b.Table().Engine == "MergeTree" {
			t.Errorf("%s has %s rows, want %s", b.Table().Name, n, want)
		} else if n == "0" {
			t.Errorf("%s has no rows", b.Table().Name)
		}
	}
	s.addMemory(memoryOdd(t)...) // of what is all the same there is nothing to find
	for _, v := range table.Views(s.opts) {
		if n := s.query("SELECT count() FROM (SELECT * FROM {db}." + v.From() + ")"); n == "0" && !strings.HasPrefix(v.Name, "insight_") {
			t.Errorf("view %s shows nothing", v.Name)
		}
	}
}

// Rows leave by the day of receipt and their retention class, whatever their own time says.
func TestRetention(t *testing.T) {
	s := newStore(t, true)
	now := time.Now().UTC()
	for _, v := range declared {
		tb := tableOf(v)
		if tb.Retention == table.Static {
			continue
		}
		for _, c := range []struct {
			age       int
			retention uint16
		}{{1, 30}, {45, 30}, {45, 90}} {
			b := table.NewBatch(tb)
			fillRest(b, v, 2, now.AddDate(0, 0, -c.age), c.retention)
			s.insert(b)
		}
		s.exec("OPTIMIZE TABLE {db}." + tb.Name + " FINAL")
		day := "received_day"
		if tb.Retention == table.Raw {
			day = "toDate(received_at)"
		}
		s.want(fmt.Sprintf("SELECT arraySort(groupUniqArray((toDate(now('UTC')) - %s, retention_days))) FROM {db}.%s", day, tb.Name), "[(1,30),(45,90)]")
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
	s.insert(b)
	perHour := "SELECT toStartOfHour(bucket) AS hour, kernel, sum(calls), sum(total_ns), min(min_ns), max(max_ns), sumMap(duration_hist) FROM {db}.kernel_stats GROUP BY hour, kernel ORDER BY hour, kernel"
	before := s.query(perHour)
	s.exec("OPTIMIZE TABLE {db}.kernel_stats_data FINAL")
	if after := s.query(perHour); after != before {
		t.Errorf("coarsening changed the sums:\n%s\nbefore\n%s", after, before)
	}
	s.want("SELECT count(), uniqExact(bucket), groupUniqArray(bucket_s), max(chunk), any(rows_partition), any(kernel_id > 0) FROM {db}.kernel_stats_data", "6\t3\t[3600]\t1179\t9\t1")
	for h := range hours {
		for k := range kernels {
			d := &all[h][k]
			low, high := uint64((h*60+1)*(k+1)*100), uint64(0)
			for m := h * 60; m < h*60+60; m++ {
				high = max(high, uint64((m+1)*(m%5+1)*(k+1)*100))
			}
			s.want(fmt.Sprintf("SELECT calls, min_ns, max_ns, p50_ns, p90_ns, p99_ns FROM {db}.kernel_stats WHERE kernel = 'kernel%d' AND bucket = toDateTime('%s', 'UTC')", k, received.Add(time.Duration(h)*time.Hour).Format(time.DateTime)),
				fmt.Sprintf("%d\t%d\t%d\t%d\t%d\t%d", d.Count(), low, high, d.Quantile(0.5, low, high), d.Quantile(0.9, low, high), d.Quantile(0.99, low, high)))
		}
	}
	// A minute that comes late joins its hour.
	s.insert(b)
	s.exec("OPTIMIZE TABLE {db}.kernel_stats_data FINAL")
	s.want("SELECT count(), groupUniqArray(bucket_s) FROM {db}.kernel_stats_data", "6\t[3600]")
	s.want("SELECT sum(calls) FROM {db}.kernel_stats", fmt.Sprint(2*sumCalls(all[:])))
}

func sumCalls[T ~[2]hist.Dense](all []T) (n uint64) {
	for i := range all {
		for k := range all[i] {
			n += all[i][k].Count()
		}
	}
	return n
}
