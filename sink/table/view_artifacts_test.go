package table_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// code inserts a function's instructions and a session's link to them.
func (s *store) code(tenant, session, function string, crc, content uint64, sass ...string) {
	s.Helper()
	s.demangled(tenant, session, function, "", crc, content, sass...)
}

// demangled is code with the function's demangled name.
func (s *store) demangled(tenant, session, function, demangled string, crc, content uint64, sass ...string) {
	s.Helper()
	c, l := table.SASSLines, table.SessionFunctions
	s.Seed(c, len(sass), func(b *table.Batch, i int) {
		c.Tenant.AppendString(b, tenant)
		c.ContentHi.Append(b, 1)
		c.ContentLo.Append(b, content)
		c.PC.Append(b, uint64(16*i))
		c.SASS.AppendString(b, sass[i])
	})
	s.Seed(l, 1, func(b *table.Batch, _ int) {
		l.Append(b, &table.SessionFunctionRow{HeadRow: table.HeadRow{Tenant: tenant, SessionID: session}, Kind: table.ArtifactSASS,
			CubinCRC: crc, FunctionName: function, Demangled: demangled, ContentHi: 1, ContentLo: content, Instructions: 1,
			ReceivedDay: today()})
	})
}

// sample inserts PC samples of a function of tenant acme, session s.
func (s *store) sample(function string, id uint32, pc uint64, reason string, samples uint64, file string, line uint32) {
	s.Helper()
	p := table.PCSamples
	s.Seed(p, 1, func(b *table.Batch, _ int) {
		session(p.Head, b)
		p.Function.AppendString(b, function)
		p.FunctionID.Append(b, id)
		p.PCOffset.Append(b, pc)
		p.StallReason.AppendString(b, reason)
		p.MetricID.Append(b, 0)
		p.Scope.AppendString(b, "")
		p.Cubin.AppendString(b, "")
		p.File.AppendString(b, file)
		p.Line.Append(b, line)
		p.Samples.Append(b, samples)
	})
}

func (s *store) metric(function string, id uint32, pc uint64, name string, value uint64, file string, line uint32) {
	s.Helper()
	p := table.ProfileMetrics
	s.Seed(p, 1, func(b *table.Batch, _ int) {
		session(p.Head, b)
		p.Function.AppendString(b, function)
		p.FunctionID.Append(b, id)
		p.PCOffset.Append(b, pc)
		p.MetricName.AppendString(b, name)
		p.MetricID.Append(b, 0)
		p.Scope.AppendString(b, "")
		p.File.AppendString(b, file)
		p.Line.Append(b, line)
		p.MetricValue.Append(b, value)
	})
}

const stalled = "smsp__pcsamp_warps_issue_stalled_"

// Samples get their instruction whichever comes first, by symbol, by name, by the first 255 bytes, and of several cubins by the smallest
// crc; a tenant's code is nobody else's.
func TestSamplesGetTheirInstruction(t *testing.T) {
	s := newStore(t, true)
	long := "_Z" + strings.Repeat("n", 400)
	s.sample("void f(int)", 1, 16, stalled+"wait", 5, "", 0)
	s.sample("plain", 2, 0, stalled+"wait", 6, "", 0)
	s.sample("long", 3, 16, stalled+"wait", 7, "", 0)
	s.sample("twice", 4, 0, stalled+"wait", 8, "", 0)
	s.sample("none", 5, 0, stalled+"wait", 9, "", 0)
	s.metric("void f(int)", 1, 16, "smsp__sass_inst_executed", 5, "", 0)
	const q = "SELECT function, sass, sass_ambiguous FROM {db}.pc_samples ORDER BY samples"
	s.Want(q, "void f(int)\t\t0\nplain\t\t0\nlong\t\t0\ntwice\t\t0\nnone\t\t0")
	s.name("func_symbol_dict", 1, "_Z1fi", 0)
	s.name("func_symbol_dict", 3, long[:255], 0)
	s.name("func_symbol_dict", 4, "_Z5twice", 0)
	s.code("acme", "s", "_Z1fi", 7, 1, "NOP", "EXIT")
	s.code("acme", "s", "_Z1fi", 8, 1, "NOP", "EXIT") // the same code in another cubin is not ambiguous
	s.code("acme", "s", "plain", 7, 2, "BRA")
	s.code("acme", "s", long, 7, 3, "IADD3", "FFMA")
	s.code("acme", "s", "_Z5twice", 9, 4, "nine")
	s.code("acme", "s", "_Z5twice", 8, 5, "eight")
	s.code("acme", "other", "none", 7, 6, "of another session")
	s.code("rival", "s", "none", 7, 7, "of another tenant")
	const want = "void f(int)\tEXIT\t0\nplain\tBRA\t0\nlong\tFFMA\t0\ntwice\teight\t1\nnone\t\t0"
	s.Want(q, want)
	s.Want("SELECT function, sass FROM {db}.pc_lines ORDER BY samples LIMIT 1", "void f(int)\tEXIT")
	s.Want("SELECT function, metric_value, sass FROM {db}.profile_metrics", "void f(int)\t5\tEXIT")
	s.Exec("OPTIMIZE TABLE {db}.sass_lines_data FINAL")
	s.Want(q, want)
	s.Want("SELECT sum(samples), count() FROM {db}.pc_samples", "35\t5")
}

// There are sessions whose symbols are demangled, and such that have none: their samples find their instructions by the demangled name, of
// which the first 255 bytes count. The mangled name comes first where both are there.
func TestSamplesGetTheirInstructionByDemangledName(t *testing.T) {
	s := newStore(t, true)
	long := "void " + strings.Repeat("n", 400) + "(int)"
	for i, function := range []string{"f(int)", "g(int)", long[:255], "twice(int)", "both", "wrong(int)", "other(int)", ""} {
		s.sample(function, uint32(i+1), 0, stalled+"wait", uint64(i+1), "", 0)
	}
	s.name("func_symbol_dict", 1, "f(int)", 0) // demangled
	s.name("func_symbol_dict", 3, long[:255], 0)
	s.name("func_symbol_dict", 4, "twice(int)", 0)
	s.name("func_symbol_dict", 6, "_Z5wrongl", 0) // has no code, and another function of that demangled name is another function
	s.demangled("acme", "s", "_Z1fi", "f(int)", 7, 1, "F")
	s.demangled("acme", "s", "_Z1gi", "g(int)", 7, 2, "G")
	s.demangled("acme", "s", "_Zlong", long, 7, 3, "LONG")
	s.demangled("acme", "s", "_Z5twicei", "twice(int)", 9, 4, "nine")
	s.demangled("acme", "s", "_Z5twicei", "twice(int)", 8, 5, "eight")
	s.demangled("acme", "s", "_Z4bothv", "both", 1, 6, "demangled")
	s.demangled("acme", "s", "both", "", 9, 7, "mangled")
	s.demangled("acme", "s", "_Z5wrongi", "wrong(int)", 7, 8, "wrong")
	s.demangled("acme", "other", "_Z5otheri", "other(int)", 7, 9, "of another session")
	s.demangled("acme", "s", "", "", 7, 10, "nameless")
	s.Want("SELECT samples, sass, sass_ambiguous FROM {db}.pc_samples ORDER BY samples",
		"1\tF\t0\n2\tG\t0\n3\tLONG\t0\n4\teight\t1\n5\tmangled\t1\n6\t\t0\n7\t\t0\n8\t\t0")
	s.Want("SELECT samples, sass FROM {db}.source_profile ORDER BY samples LIMIT 1", "1\tF")
	s.Want("SELECT function, sass FROM {db}.disassembly WHERE function_name IN ('_Z1fi', '_Z1gi') ORDER BY ALL", "f(int)\tF\ng(int)\tG")
	s.Exec("OPTIMIZE TABLE {db}.session_functions_data FINAL")
	s.Want("SELECT samples, sass FROM {db}.pc_samples ORDER BY samples LIMIT 4", "1\tF\n2\tG\n3\tLONG\n4\teight")
}

// Equal contents are one wherever they come from, before ClickHouse has merged anything and after.
func TestArtifactViews(t *testing.T) {
	s := newStore(t, true)
	src, link, p := table.SourceLines, table.SessionSources, table.PTX
	text := []string{"int main() {", "", "}"}
	for _, tenant := range []string{"acme", "acme", "rival"} { // acme sends it twice
		s.Seed(src, len(text), func(b *table.Batch, i int) {
			src.Tenant.AppendString(b, tenant)
			src.ContentHi.Append(b, 5)
			src.ContentLo.Append(b, 6)
			src.Line.Append(b, uint32(i+1))
			src.Text.Append(b, text[i])
		})
		for _, session := range []string{"s", "s2"} {
			s.Seed(link, 1, func(b *table.Batch, _ int) {
				link.Append(b, &table.SessionSourceRow{HeadRow: table.HeadRow{Tenant: tenant, SessionID: session}, SourceFileID: 3,
					ContentHi: 5, ContentLo: 6, Lines: 3, ReceivedDay: today()})
			})
		}
		s.Seed(p, 1, func(b *table.Batch, _ int) {
			p.Tenant.AppendString(b, tenant)
			p.ContentHi.Append(b, 8)
			p.ContentLo.Append(b, 9)
			p.FunctionName.Append(b, "_Z1fi")
			p.Arch.AppendString(b, "sm_90")
			p.PTX.Append(b, "ret;")
		})
		f := table.SessionFunctions
		s.Seed(f, 1, func(b *table.Batch, _ int) {
			f.Append(b, &table.SessionFunctionRow{HeadRow: table.HeadRow{Tenant: tenant, SessionID: "s"}, Kind: table.ArtifactPTX,
				FunctionName: "_Z1fi", Arch: "sm_90", ContentHi: 8, ContentLo: 9, ReceivedDay: today()})
		})
		s.code(tenant, "s", "_Z1fi", 1<<63, 1, "NOP", "EXIT")
	}
	s.name("source_file_dict", 3, "main.cu", 0)
	s.name("func_symbol_dict", 1, "_Z1fi", 0)
	s.name("function_dict", 1, "f(int)@main.cu", 0)
	check := func() {
		s.Helper()
		s.Want("SELECT path, line, text FROM {db}.source_files WHERE tenant = 'acme' AND session_id = 's' ORDER BY line",
			"main.cu\t1\tint main() {\nmain.cu\t2\t\nmain.cu\t3\t}")
		s.Want("SELECT tenant, session_id, path, count() FROM {db}.source_files GROUP BY ALL ORDER BY ALL",
			"acme\ts\tmain.cu\t3\nacme\ts2\t\t3\nrival\ts\t\t3\nrival\ts2\t\t3")
		s.Want("SELECT cubin_crc, function, function_name, pc_offset, sass FROM {db}.disassembly WHERE tenant = 'acme' ORDER BY pc_offset",
			"9223372036854775808\tf(int)\t_Z1fi\t0\tNOP\n9223372036854775808\tf(int)\t_Z1fi\t16\tEXIT")
		s.Want("SELECT session_id, function_name, arch, ptx, function FROM {db}.ptx WHERE tenant = 'acme'", "s\t_Z1fi\tsm_90\tret;\tf(int)")
	}
	check()
	for _, name := range []string{"source_lines_data", "session_sources_data", "ptx_data", "session_functions_data", "sass_lines_data"} {
		s.Exec("OPTIMIZE TABLE {db}." + name + " FINAL")
	}
	check()
	s.Want("SELECT tenant, count() FROM {db}.source_lines_data GROUP BY tenant ORDER BY tenant", "acme\t3\nrival\t3")

	// A user who may see one tenant's rows sees that tenant's alone in every view, joins included. The filters do what row policies
	// do; the embedded engine has no place to make policies in.
	var filters []string
	for _, tb := range tabletest.Schema().Tables() {
		if tb.Column("tenant") != nil {
			filters = append(filters, fmt.Sprintf("'%s.%s': 'tenant = \\'rival\\''", s.Opts.Database, tb.Name))
		}
	}
	only := "additional_table_filters={" + strings.Join(filters, ", ") + "}"
	for _, view := range []string{"source_files", "disassembly", "ptx", "pc_samples", "source_profile", "function_metrics"} {
		if got := s.Query("SELECT count() FROM {db}."+view+" WHERE tenant != 'rival'", only); got != "0" {
			t.Errorf("%s shows %s rows of another tenant", view, got)
		}
	}
	if got := s.Query("SELECT count(), sum(sass != '') FROM {db}.disassembly", only); got != "2\t2" {
		t.Errorf("the tenant's own disassembly is %q", got)
	}
}

// The largest chunk of each partition of ROWS survives merges of contents that came by several: the sink's proof rests on it.
func TestContentsKeepTheirMarks(t *testing.T) {
	s := newStore(t, true)
	c := table.SASSLines
	for _, from := range []struct {
		partition uint16
		chunk     uint64
	}{{1, 5}, {2, 9}, {1, 7}} {
		s.Seed(c, 3, func(b *table.Batch, i int) {
			c.Tenant.AppendString(b, "acme")
			c.ContentHi.Append(b, uint64(min(i, 1)))
			c.ContentLo.Append(b, uint64(min(i, 1)))
			c.PC.Append(b, uint64(16*max(i-1, 0)))
			c.SASS.AppendString(b, strings.Repeat("x", i))
			c.RowsPartition.Append(b, from.partition)
			c.Chunk.Append(b, from.chunk)
		})
	}
	s.Exec("OPTIMIZE TABLE {db}.sass_lines_data FINAL")
	s.Want("SELECT rows_partition, max(chunk) FROM {db}.sass_lines_data GROUP BY rows_partition ORDER BY rows_partition", "1\t7\n2\t9")
	s.Want("SELECT count() FROM {db}.sass_lines_data WHERE content_hi != 0", "2")
}

// One query shows the line, the instruction, why warps waited there and what the counters say; what has only one of them shows too.
func TestSourceProfile(t *testing.T) {
	s := newStore(t, true)
	src, link, m := table.SourceLines, table.SessionSources, table.SourceMap
	s.Seed(src, 3, func(b *table.Batch, i int) {
		src.Tenant.AppendString(b, "acme")
		src.ContentHi.Append(b, 5)
		src.ContentLo.Append(b, 6)
		src.Line.Append(b, uint32(i+1))
		src.Text.Append(b, fmt.Sprint("line ", i+1))
	})
	s.Seed(link, 1, func(b *table.Batch, _ int) {
		link.Append(b, &table.SessionSourceRow{HeadRow: acme("s"), SourceFileID: 3, ContentHi: 5, ContentLo: 6, Lines: 3,
			ReceivedDay: today()})
	})
	s.Seed(m, 1, func(b *table.Batch, _ int) {
		session(m.Head, b)
		m.Function.AppendString(b, "f(int)")
		m.FunctionID.Append(b, 1)
		m.PCOffset.Append(b, 32)
		m.File.AppendString(b, "a.cu")
		m.FileID.Append(b, 3)
		m.Line.Append(b, 3)
	})
	s.name("source_file_dict", 3, "a.cu", 0)
	s.name("func_symbol_dict", 1, "_Z1fi", 0)
	s.code("acme", "s", "_Z1fi", 7, 1, "IADD", "LDG", "EXIT")
	s.sample("f(int)", 1, 0, stalled+"wait", 5, "a.cu", 1)
	s.sample("f(int)", 1, 0, stalled+"long_scoreboard", 7, "a.cu", 1)
	s.sample("f(int)", 1, 0, stalled+"wait_not_issued", 4, "a.cu", 1)
	s.sample("f(int)", 1, 0, "smsp__pcsamp_sample_count", 12, "a.cu", 1)
	s.metric("f(int)", 1, 0, "smsp__sass_inst_executed", 10, "a.cu", 1)
	s.metric("f(int)", 1, 0, "smsp__sass_thread_inst_executed", 240, "a.cu", 1)
	s.metric("f(int)", 1, 16, "smsp__sass_sectors_mem_global", 100, "a.cu", 2)
	s.metric("f(int)", 1, 16, "smsp__sass_sectors_mem_global_ideal", 25, "a.cu", 2)
	s.metric("f(int)", 1, 16, "smsp__sass_inst_executed", 10, "a.cu", 2)
	s.metric("f(int)", 1, 16, "smsp__sass_thread_inst_executed", 320, "a.cu", 2)
	s.metric("", 9, 0, "SQ_WAVES", 77, "", 0) // AMD: counters of other names
	s.Want("SELECT function, pc_offset, file, line, source, sass, samples, stalls, top_stall, metrics FROM {db}.source_profile ORDER "+
		"BY function, pc_offset", strings.Join([]string{
		"\t0\t\t0\t\t\t0\t{}\t\t{'SQ_WAVES':77}",
		"f(int)\t0\ta.cu\t1\tline 1\tIADD\t12\t{'" + stalled + "long_scoreboard':7,'" + stalled + "wait':5}\t" + stalled +
			"long_scoreboard\t{'smsp__sass_inst_executed':10,'smsp__sass_thread_inst_executed':240}",
		"f(int)\t16\ta.cu\t2\tline " +
			"2\tLDG\t0\t{}\t\t{'smsp__sass_inst_executed':10,'smsp__sass_sectors_mem_global':100,'smsp__sass_sectors_mem_global_ideal" +
			"':25,'smsp__sass_thread_inst_executed':320}",
		"f(int)\t32\ta.cu\t3\tline 3\tEXIT\t0\t{}\t\t{}",
	}, "\n"))
	const derived = "samples, round(top_stall_share, 3), thread_efficiency, divergence, coalescing, branch_divergence, ideal_shares"
	s.Want("SELECT function, "+derived+" FROM {db}.function_metrics ORDER BY function", strings.Join([]string{
		"\t0\t0\t\\N\t\\N\t\\N\t\\N\t{}",
		"f(int)\t12\t0.583\t0.875\t0.125\t0.25\t\\N\t{'smsp__sass_sectors_mem_global':0.25}",
	}, "\n"))
	s.Want("SELECT file, line, "+derived+" FROM {db}.line_metrics ORDER BY line", strings.Join([]string{
		"a.cu\t1\t12\t0.583\t0.75\t0.25\t\\N\t\\N\t{}",
		"a.cu\t2\t0\t0\t1\t0\t0.25\t\\N\t{'smsp__sass_sectors_mem_global':0.25}",
		"a.cu\t3\t0\t0\t\\N\t\\N\t\\N\t\\N\t{}",
	}, "\n"))
	s.Want("SELECT stall_shares['"+stalled+"wait'] * 12, not_issued_shares FROM {db}.function_metrics WHERE function != ''",
		"5\t{'"+stalled+"wait_not_issued':1}")
}

// A question about one session reads that session's samples, and of the contents what that tenant has.
func TestSamplesViewReadsOneSession(t *testing.T) {
	s := newStore(t, true)
	const sessions, rows = 20, 200_000
	for name, columns := range map[string]string{
		"pc_samples_data": "function_id, bucket, received_day", "profile_metrics_data": "function_id, bucket, received_day",
		"session_functions_data": "cubin_crc, instructions, received_day", "dictionaries": "id, content, received_day",
	} {
		columns = strings.Replace(columns, "content", "late", 1)
		s.Exec(fmt.Sprintf("INSERT INTO {db}.%s (tenant, session_id, %s, retention_days) SELECT 'acme', toString(number %% %d), "+
			"number, 0, today(), 30 FROM numbers(%d)", name, columns, sessions, rows))
	}
	s.Exec(fmt.Sprintf("INSERT INTO {db}.sass_lines_data (tenant, content_hi, pc, received_day, retention_days) SELECT "+
		"toString(number %% 20), number, 0, today(), 30 FROM numbers(%d)", rows))
	for _, view := range []string{"pc_samples", "profile_metrics", "source_profile", "function_metrics"} {
		read := strings.Fields(s.Query("SELECT table, rows FROM viewExplain('EXPLAIN ESTIMATE', '', (SELECT * FROM {db}." + view +
			" WHERE tenant = 'acme' AND session_id = '7')) ORDER BY table"))
		if len(read) < 4 {
			t.Fatalf("%s reads %v", view, read)
		}
		for i := 0; i < len(read); i += 2 {
			if n, err := strconv.Atoi(read[i+1]); err != nil || n > rows/4 && !(read[i] == "dictionaries" && n < 2*rows) {
				t.Errorf("%s: %s of %d rows of %s are read, %v", view, read[i+1], rows, read[i], err)
			}
		}
	}
}
