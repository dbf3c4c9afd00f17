package table_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

func TestPCSampleViews(t *testing.T) {
	s := newStore(t, true)
	p, m := table.PCSamples, table.SourceMap
	const long, selected = "smsp__pcsamp_warps_issue_stalled_long_scoreboard", "smsp__pcsamp_warps_issue_stalled_selected_not_issued"
	s.Seed(p, 4, func(b *table.Batch, i int) {
		session(p.Head, b)
		p.Function.AppendString(b, []string{"early", "", "", ""}[i])
		p.FunctionID.Append(b, []uint32{1, 2, 2, 9}[i])
		p.StallReason.AppendString(b, []string{long, "", long, ""}[i])
		p.MetricID.Append(b, []uint32{1, 2, 1, 9}[i])
		p.Scope.AppendString(b, "")
		p.ScopeID.Append(b, []uint32{0, 5, 5, 0}[i])
		p.File.AppendString(b, []string{"a.cu", "", "", ""}[i])
		p.FileID.Append(b, []uint32{1, 0, 0, 0}[i])
		p.Line.Append(b, []uint32{10, 0, 0, 0}[i])
		p.PCOffset.Append(b, 16)
		p.Samples.Append(b, uint64(i+1))
	})
	s.Seed(m, 1, func(b *table.Batch, _ int) {
		session(m.Head, b)
		m.Function.AppendString(b, "")
		m.FunctionID.Append(b, 2)
		m.PCOffset.Append(b, 16)
		m.File.AppendString(b, "")
		m.FileID.Append(b, 7)
		m.Line.Append(b, 77)
	})
	s.name("function_dict", 2, "void late<a@b>(int)@late.cu", 1)
	s.name("metric_dict", 2, selected, 1)
	s.name("scope_name_dict", 5, "train", 1)
	s.name("source_file_dict", 7, "map.cu", 1)
	s.Want("SELECT function, stall_reason, reason_kind, scope, file, line, samples FROM {db}.pc_samples ORDER BY samples",
		strings.Join([]string{
			"early\t" + long + "\tstall\t\ta.cu\t10\t1",
			"void late<a@b>(int)\t" + selected + "\tstall_not_issued\ttrain\tlate.cu\t0\t2",
			"void late<a@b>(int)\t" + long + "\tstall\ttrain\tlate.cu\t0\t3",
			"\t\tunresolved\t\t\t0\t4",
		}, "\n"))
	s.Want("SELECT samples, file, line, symbol_status FROM {db}.pc_lines ORDER BY samples",
		"1\ta.cu\t10\twire\n2\tmap.cu\t77\twire\n3\tmap.cu\t77\twire\n4\t\t0\tnone")
	s.Want("SELECT count() FROM {db}.stall_reasons", fmt.Sprint(len(table.StallReasons())))
}

// The views sort every reason that is explained as it is explained, those of the old interface by the worker's own spelling, and new ones
// by their prefix.
func TestReasonKinds(t *testing.T) {
	s := newStore(t, true)
	p := table.PCSamples
	want := map[string]string{
		"smsp__pcsamp_warps_issue_stalled_from_the_future":            table.ReasonStall,
		"smsp__pcsamp_warps_issue_stalled_from_the_future_not_issued": table.ReasonStallNotIssued,
		gpuflight.LegacyStall(0):                                      table.ReasonUnresolved, gpuflight.LegacyStall(4e9): table.ReasonUnresolved,
		"stall_reason_3": table.ReasonUnresolved, "": table.ReasonUnresolved,
	}
	for _, r := range table.StallReasons() {
		want[r.Name] = r.Kind
	}
	for code := uint32(1); code <= 12; code++ {
		want[gpuflight.LegacyStall(code)] = table.ReasonStall
	}
	names := slices.Sorted(maps.Keys(want))
	lines := make([]string, len(names))
	s.Seed(p, len(names), func(b *table.Batch, i int) {
		session(p.Head, b)
		p.StallReason.AppendString(b, names[i])
		p.PCOffset.Append(b, uint64(i))
		lines[i] = fmt.Sprint(i, "\t", want[names[i]])
	})
	s.Want("SELECT pc_offset, reason_kind FROM {db}.pc_samples ORDER BY pc_offset", strings.Join(lines, "\n"))
}

func TestProfileMetricsView(t *testing.T) {
	s := newStore(t, true)
	p := table.ProfileMetrics
	for range 2 { // two parts of one key
		s.Seed(p, 1, func(b *table.Batch, _ int) {
			session(p.Head, b)
			p.Bucket.Append(b, tabletest.Received.Truncate(time.Minute).UnixNano())
			p.Function.AppendString(b, "f")
			p.MetricName.AppendString(b, "")
			p.MetricID.Append(b, 4)
			p.MetricValue.Append(b, 1<<62)
		})
	}
	s.name("metric_dict", 4, "smsp__sass_inst_executed", 1)
	s.Want("SELECT function, metric_name, metric_value, hits FROM {db}.profile_metrics",
		"f\tsmsp__sass_inst_executed\t9223372036854775808\t2")
}

// Until the name of a source file comes, rows show the file that the function's name ends in. The other one holds as soon as it is there,
// for what was stored before too.
func TestLateSourceFileHolds(t *testing.T) {
	s := newStore(t, true)
	p, m, k := table.PCSamples, table.SourceMap, table.ProfileMetrics
	s.Seed(p, 1, func(b *table.Batch, _ int) {
		session(p.Head, b)
		p.Function.AppendString(b, "f")
		p.FunctionID.Append(b, 1)
		p.File.AppendString(b, "/src/f.cu")
		p.FileID.Append(b, 7)
		p.Samples.Append(b, 1)
	})
	s.Seed(m, 1, func(b *table.Batch, _ int) {
		session(m.Head, b)
		m.Function.AppendString(b, "f")
		m.FunctionID.Append(b, 1)
		m.File.AppendString(b, "/src/f.cu")
		m.FileID.Append(b, 7)
	})
	s.Seed(k, 1, func(b *table.Batch, _ int) {
		session(k.Head, b)
		k.Function.AppendString(b, "f")
		k.FunctionID.Append(b, 1)
		k.File.AppendString(b, "/src/f.cu")
		k.FileID.Append(b, 7)
	})
	files := "SELECT file, toTypeName(file) FROM {db}.pc_samples UNION ALL SELECT file, toTypeName(file) FROM {db}.source_map UNION " +
		"ALL SELECT file, toTypeName(file) FROM {db}.profile_metrics"
	s.Want(files, "/src/f.cu\tString\n/src/f.cu\tString\n/src/f.cu\tString")
	s.name("source_file_dict", 7, "/src/a.h", 1)
	s.Want(files, "/src/a.h\tString\n/src/a.h\tString\n/src/a.h\tString")
}
