package table_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// sampled is a row of PCBuckets and its part in PCCubins; what is not set has a value of its own.
type sampled struct {
	tenant, session, build, cubin, function string
	pc                                      uint64
	sass, reason                            string
	period, samples                         uint64
	ago                                     time.Duration // how old the minute is
}

func (s *store) sampled(rows ...sampled) {
	s.Helper()
	p, c := table.PCBuckets, table.PCCubins
	or := func(v, otherwise string) string {
		if v == "" {
			return otherwise
		}
		return v
	}
	s.Seed(c, len(rows), func(b *table.Batch, i int) {
		r := rows[i]
		c.Tenant.AppendString(b, or(r.tenant, "acme"))
		c.SessionID.AppendString(b, or(r.session, "parca:n:1:python"))
		c.Bucket.Append(b, tabletest.Received.Add(-r.ago).Truncate(time.Minute).UnixNano())
		c.BucketS.Append(b, 60)
		c.BuildID.AppendString(b, r.build)
		c.Cubin.AppendString(b, r.cubin)
		c.Samples.Append(b, r.samples)
	})
	s.Seed(p, len(rows), func(b *table.Batch, i int) {
		r := rows[i]
		p.Tenant.AppendString(b, or(r.tenant, "acme"))
		p.SessionID.AppendString(b, or(r.session, "parca:n:1:python"))
		p.Bucket.Append(b, tabletest.Received.Add(-r.ago).Truncate(time.Minute).UnixNano())
		p.BucketS.Append(b, 60)
		p.Cubin.AppendString(b, r.cubin)
		p.BuildID.AppendString(b, r.build)
		p.Function.AppendString(b, r.function)
		p.Demangled.AppendString(b, "")
		p.PCOffset.Append(b, r.pc)
		p.SASS.AppendString(b, r.sass)
		p.StallReason.AppendString(b, or(r.reason, stalled+"wait"))
		p.PeriodNS.Append(b, r.period)
		p.DeviceID.Append(b, -1)
		p.Samples.Append(b, r.samples)
		p.GPUNS.Append(b, r.samples*r.period)
		p.Hits.Append(b, 1)
	})
}

// span is a range of instructions of a function; without a file it is a function without lines.
type span struct {
	function string
	from, to uint64
	file     string
	line     uint32
	chain    string
}

// cubin inserts a cubin as it was read, received on a day.
func (s *store) cubin(tenant, build, status string, whole uint8, day int32, spans ...span) {
	s.Helper()
	head := table.HeadRow{Tenant: tenant, SessionID: "cubin:" + build}
	c, f, l := table.Cubins, table.CubinFunctions, table.CubinLines
	s.Seed(c, 1, func(b *table.Batch, _ int) {
		c.Append(b, &table.CubinRow{HeadRow: head, BuildID: build, Whole: whole, Status: status, SM: 80, SizeBytes: 1000 + uint64(whole),
			Functions: uint32(len(spans)), Lines: uint32(len(spans)), UploadedAt: tabletest.Received.UnixNano(), ReceivedDay: day})
	})
	if len(spans) == 0 {
		return
	}
	s.Seed(f, len(spans), func(b *table.Batch, i int) {
		f.Append(b, &table.CubinFunctionRow{HeadRow: head, BuildID: build, Whole: whole, Function: spans[i].function, SizeBytes: 4096,
			ReceivedDay: day})
	})
	s.Seed(l, len(spans), func(b *table.Batch, i int) {
		r := spans[i]
		if r.file == "" {
			r = span{function: "(another)", to: 16, file: "other.cu", line: 1}
		}
		l.Append(b, &table.CubinLineRow{HeadRow: head, BuildID: build, Whole: whole, Function: r.function, PCFrom: r.from, PCTo: r.to,
			File: r.file, Line: r.line, InlineChain: r.chain, ReceivedDay: day})
	})
}

const pcLines = "SELECT function, pc_offset, file, line, inline_chain, symbol_status FROM {db}.pc_lines ORDER BY samples"

// Samples come first, and their lines appear when the cubin does; no stored row changes. Another tenant with the same build id has other
// bytes, and its lines.
func TestLinesComeWithTheCubin(t *testing.T) {
	s := newStore(t, true)
	const chain = "in.h:5 inner(int)\nk.cu:40 kernel(int)"
	s.sampled(
		sampled{build: "b1", cubin: "cubin-01", function: "_Zk", pc: 0x10, samples: 1},
		sampled{build: "b1", cubin: "cubin-01", function: "_Zk", pc: 0x20, samples: 2},
		sampled{build: "b1", cubin: "cubin-01", function: "_Zk", pc: 0x30, samples: 3},
		sampled{build: "b2", cubin: "cubin-02", function: "_Zk", pc: 0x10, samples: 4, ago: time.Hour},
		sampled{function: "_Zk", pc: 0x10, samples: 5},
	)
	s.sampled(sampled{tenant: "rival", build: "b1", cubin: "cubin-01", function: "_Zk", pc: 0x10, samples: 6})
	s.Want(pcLines, strings.Join([]string{"_Zk\t16\t\t0\t[]\tpending", "_Zk\t32\t\t0\t[]\tpending", "_Zk\t48\t\t0\t[]\tpending",
		"_Zk\t16\t\t0\t[]\tnot_uploaded", "_Zk\t16\t\t0\t[]\tnone", "_Zk\t16\t\t0\t[]\tpending"}, "\n"))
	stored := s.Query("SELECT * FROM {db}.pc_buckets_data ORDER BY ALL")

	s.cubin("acme", "b1", "ok", 0, today(), span{"_Zk", 0, 0x20, "k.cu", 39, ""}, span{"_Zk", 0x20, 0x30, "in.h", 5, chain})
	s.cubin("rival", "b1", "ok", 1, today(), span{"_Zk", 0, 0x100, "theirs.cu", 7, ""})
	want := strings.Join([]string{
		"_Zk\t16\tk.cu\t39\t[]\tok",
		"_Zk\t32\tin.h\t5\t['in.h:5 inner(int)','k.cu:40 kernel(int)']\tok",
		"_Zk\t48\t\t0\t[]\tno_lineinfo", // past what the table of lines has
		"_Zk\t16\t\t0\t[]\tnot_uploaded",
		"_Zk\t16\t\t0\t[]\tnone",
		"_Zk\t16\ttheirs.cu\t7\t[]\tok",
	}, "\n")
	s.Want(pcLines, want)
	s.Want("SELECT function, pc_offset, file, line, symbol_status FROM {db}.pc_stalls WHERE tenant = 'rival'", "_Zk\t16\ttheirs.cu\t7\tok")
	s.Want("SELECT build_id, function, pc_from, pc_to, file, line, inline_chain FROM {db}.cubin_lines WHERE tenant = 'acme' ORDER BY pc_from",
		"b1\t_Zk\t0\t32\tk.cu\t39\t[]\nb1\t_Zk\t32\t48\tin.h\t5\t['in.h:5 inner(int)','k.cu:40 kernel(int)']")
	if got := s.Query("SELECT * FROM {db}.pc_buckets_data ORDER BY ALL"); got != stored {
		t.Error("rows of samples changed with the cubin")
	}

	// Sent again, and renewed a month later: rows are there several times, samples once.
	for _, day := range []int32{today(), today() - 40} {
		s.cubin("acme", "b1", "ok", 0, day, span{"_Zk", 0, 0x20, "k.cu", 39, ""}, span{"_Zk", 0x20, 0x30, "in.h", 5, chain})
	}
	s.Want(pcLines, want)
	s.Want("SELECT count() FROM {db}.cubin_lines WHERE tenant = 'acme'", "2")
	// The whole cubin stands in the place of the stripped one.
	s.cubin("acme", "b1", "ok", 1, today(), span{"_Zk", 0, 0x40, "whole.cu", 1, ""})
	s.Want("SELECT file, count() FROM {db}.pc_lines WHERE tenant = 'acme' AND build_id = 'b1' GROUP BY file", "whole.cu\t3")
	s.Want("SELECT file FROM {db}.cubin_lines WHERE tenant = 'acme'", "whole.cu")
	s.Want("SELECT build_id, status, crcs, sm, size_bytes, functions, lines FROM {db}.cubins WHERE tenant = 'acme' ORDER BY build_id",
		"b1\tok\t['cubin-01']\t80\t1001\t1\t1\nb2\tnot_uploaded\t['cubin-02']\t0\t0\t0\t0")

	// Deleted, the lines are gone, and another tenant's are not; offered again, they are back.
	for _, tab := range s.Schema.Tables() {
		if sql := tab.DeleteSQL(s.Opts, []table.Target{{Tenant: "acme", Session: "cubin:b1"}}); sql != "" {
			s.Exec(strings.Replace(sql, "mutations_sync = 0", "mutations_sync = 1", 1))
		}
	}
	s.Want("SELECT tenant, symbol_status, count() FROM {db}.pc_lines WHERE build_id = 'b1' GROUP BY ALL ORDER BY ALL",
		"acme\tpending\t3\nrival\tok\t1")
	s.cubin("acme", "b1", "ok", 0, today(), span{"_Zk", 0, 0x20, "k.cu", 39, ""}, span{"_Zk", 0x20, 0x30, "in.h", 5, chain})
	s.Want(pcLines, want)
}

// Each way not to have a line has its name, and coverage adds up to all samples.
func TestSymbolStatus(t *testing.T) {
	s := newStore(t, true)
	long := "_Z" + strings.Repeat("n", 125) // 127 bytes, as names in samples are cut
	s.cubin("acme", "good", "ok", 0, today(), span{"exact", 0, 64, "a.cu", 1, ""}, span{long + "_one", 0, 64, "b.cu", 2, ""},
		span{long[:126] + "x_alone", 0, 64, "c.cu", 3, ""}, span{long + "_two", 0, 64, "d.cu", 4, ""}, span{function: "bare"})
	s.cubin("acme", "twice", "ok", 0, today(), span{"exact", 0, 64, "a.cu", 1, ""})
	s.cubin("acme", "lineless", "no_lineinfo", 0, today())
	s.cubin("acme", "broken", "corrupt", 1, today())
	s.cubin("acme", "mended", "corrupt", 1, today())
	s.cubin("acme", "mended", "ok", 0, today(), span{"exact", 0, 64, "mended.cu", 9, ""})
	s.cubin("acme", "same", "ok", 0, today(), span{long, 0, 64, "short.cu", 5, ""}, span{long + "_longer", 0, 64, "longer.cu", 6, ""})
	s.sampled(
		sampled{build: "good", cubin: "c1", function: "exact", pc: 48, samples: 1},
		sampled{build: "good", cubin: "c1", function: long, pc: 48, samples: 2},
		sampled{build: "good", cubin: "c1", function: long[:126] + "x", pc: 48, samples: 3},
		sampled{build: "good", cubin: "c1", function: "exac", pc: 48, samples: 4},
		sampled{build: "good", cubin: "c1", function: "bare", pc: 0, samples: 5},
		sampled{build: "good", cubin: "c1", function: "exact", pc: 64, samples: 6},
		sampled{build: "twice", cubin: "c1", function: "exact", pc: 0, samples: 7},
		sampled{build: "twice", cubin: "c2", function: "exact", pc: 0, samples: 8, session: "parca:other:1:python"},
		sampled{build: "lineless", cubin: "c1", function: "exact", pc: 0, samples: 9},
		sampled{build: "broken", cubin: "c1", function: "exact", pc: 0, samples: 10},
		sampled{build: "mended", cubin: "c1", function: "exact", pc: 0, samples: 11},
		sampled{build: "same", cubin: "c1", function: long, pc: 0, samples: 12},
		sampled{build: "absent", cubin: "c1", function: "exact", pc: 0, samples: 13, ago: 20 * time.Minute},
		sampled{build: "absent", cubin: "c1", function: "exact", pc: 0, samples: 14},
		sampled{build: "fresh", cubin: "c1", function: "exact", pc: 0, samples: 15},
		sampled{build: "fresh", cubin: "c1", function: "exact", pc: 0, samples: 16, reason: "stall_reason_9"},
	)
	s.Want("SELECT samples, file, line, symbol_status FROM {db}.pc_lines ORDER BY samples", strings.Join([]string{
		"1\ta.cu\t1\tok", "2\t\t0\tambiguous_name", "3\tc.cu\t3\tok", "4\t\t0\tno_function", "5\t\t0\tno_lineinfo", "6\t\t0\tno_lineinfo",
		"7\t\t0\tambiguous_cubin", "8\t\t0\tambiguous_cubin", "9\t\t0\tno_lineinfo", "10\t\t0\tcorrupt", "11\tmended.cu\t9\tok",
		"12\tshort.cu\t5\tok", "13\t\t0\tnot_uploaded", "14\t\t0\tnot_uploaded", "15\t\t0\tpending", "16\t\t0\tpending"}, "\n"))
	s.Want("SELECT symbol_status, sum(samples) FROM {db}.symbol_coverage GROUP BY symbol_status ORDER BY symbol_status",
		"ambiguous_cubin\t15\nambiguous_name\t2\ncorrupt\t10\nno_function\t4\nno_lineinfo\t20\nnot_uploaded\t27\nok\t27\npending\t15")
	s.Want("SELECT symbol_status, samples, round(share, 3) FROM {db}.symbol_coverage WHERE build_id = 'good' ORDER BY symbol_status",
		"ambiguous_name\t2\t0.095\nno_function\t4\t0.19\nno_lineinfo\t11\t0.524\nok\t4\t0.19")
	s.Want("SELECT build_id, status, crcs FROM {db}.cubins ORDER BY build_id", strings.Join([]string{"absent\tnot_uploaded\t['c1']",
		"broken\tcorrupt\t['c1']", "fresh\tpending\t['c1']", "good\tok\t['c1']", "lineless\tno_lineinfo\t['c1']", "mended\tok\t['c1']",
		"same\tok\t['c1']", "twice\tok\t['c1','c2']"}, "\n"))
}

// One query serves both sources: rows that differ in period or opcode stay apart, totals are of kind stall alone, and two opcodes at one
// place are marked.
func TestOneQueryServesBothSources(t *testing.T) {
	s := newStore(t, true)
	s.sample("flight", 1, 16, stalled+"wait", 100, "f.cu", 3)
	s.cubin("acme", "b", "ok", 0, today(), span{"_Z1kv", 0, 64, "k.cu", 8, ""})
	at := sampled{build: "b", cubin: "c", function: "_Z1kv", pc: 32, sass: "LDG", period: 10, samples: 1}
	with := func(change func(*sampled)) sampled { r := at; change(&r); return r }
	for range 2 { // two data parts of one key
		s.sampled(at)
	}
	s.sampled(
		with(func(r *sampled) { r.period, r.samples = 20, 3 }),
		with(func(r *sampled) { r.period, r.samples = 0, 4 }),
		with(func(r *sampled) { r.sass, r.samples, r.pc = "BAR", 5, 48 }),
		with(func(r *sampled) { r.sass, r.samples, r.pc = "LDG", 6, 48 }),
		with(func(r *sampled) { r.reason, r.samples = stalled+"wait_not_issued", 7 }),
		with(func(r *sampled) { r.reason, r.samples = "smsp__pcsamp_sample_count", 8 }),
		with(func(r *sampled) { r.reason, r.samples = "stall_reason_4", 9 }),
		with(func(r *sampled) { r.session, r.sass, r.samples = "parca:n:2:other", "EXIT", 10 }), // another process
	)
	s.Want("SELECT session_id, function, pc_offset, sass, period_ns, reason_kind, samples, gpu_ns, hits, sass_ambiguous FROM {db}.pc_samples "+
		"ORDER BY samples", strings.Join([]string{
		"parca:n:1:python\t_Z1kv\t32\tLDG\t10\tstall\t2\t20\t2\t0",
		"parca:n:1:python\t_Z1kv\t32\tLDG\t20\tstall\t3\t60\t1\t0",
		"parca:n:1:python\t_Z1kv\t32\tLDG\t0\tstall\t4\t0\t1\t0",
		"parca:n:1:python\t_Z1kv\t48\tBAR\t10\tstall\t5\t50\t1\t1",
		"parca:n:1:python\t_Z1kv\t48\tLDG\t10\tstall\t6\t60\t1\t1",
		"parca:n:1:python\t_Z1kv\t32\tLDG\t10\tstall_not_issued\t7\t70\t1\t0",
		"parca:n:1:python\t_Z1kv\t32\tLDG\t10\tsample_count\t8\t80\t1\t0",
		"parca:n:1:python\t_Z1kv\t32\tLDG\t10\tunresolved\t9\t90\t1\t0",
		"parca:n:2:other\t_Z1kv\t32\tEXIT\t10\tstall\t10\t100\t1\t0",
		"s\tflight\t16\t\t1\tstall\t100\t1\t1\t0",
	}, "\n"))
	const mine = " WHERE session_id = 'parca:n:1:python' "
	s.Want("SELECT pc_offset, file, line, sass, samples, sass_ambiguous, stalls_not_issued FROM {db}.source_profile"+mine+"ORDER BY pc_offset",
		"32\tk.cu\t8\tLDG\t9\t0\t{'"+stalled+"wait_not_issued':7}\n48\tk.cu\t8\tBAR or LDG\t11\t1\t{}")
	s.Want("SELECT function, samples, top_stall_share FROM {db}.function_metrics ORDER BY samples",
		"_Z1kv\t10\t1\n_Z1kv\t20\t1\nflight\t100\t1")
	s.Want("SELECT file, line, samples, functions FROM {db}.line_metrics ORDER BY samples",
		"k.cu\t8\t10\t['_Z1kv']\nk.cu\t8\t20\t['_Z1kv']\nf.cu\t3\t100\t['flight']")
	s.Want("SELECT subject, rule, numbers['samples'] FROM {db}.insights WHERE rule = 'stall' ORDER BY numbers['samples']",
		"_Z1kv\tstall\t10\n_Z1kv\tstall\t20\nflight\tstall\t100")
	for _, session := range []string{"s", "parca:n:1:python", "parca:n:2:other"} {
		s.Seed(table.Sessions, 1, func(b *table.Batch, _ int) {
			table.Sessions.Append(b, &table.SessionRow{HeadRow: acme(session), ReceivedDay: today()})
		})
	}
	s.Want("SELECT function, stall_reason, sum(samples) AS n FROM {db}.kernel_stalls GROUP BY ALL ORDER BY n",
		"_Z1kv\t"+stalled+"wait\t30\nflight\t"+stalled+"wait\t100")
	s.Want("SELECT file, line, sum(samples) AS n FROM {db}.line_stalls GROUP BY ALL ORDER BY n", "k.cu\t8\t30\nf.cu\t3\t100")
}

// kernel_stalls and line_stalls say which application and host a session is of, and give a row for each of their keys.
func TestStallsOfAFleet(t *testing.T) {
	s := newStore(t, true)
	ss := table.Sessions
	s.Seed(ss, 2, func(b *table.Batch, i int) {
		ss.Append(b, &table.SessionRow{HeadRow: acme(fmt.Sprintf("parca:n%d:1:train", i)), App: "train", Host: fmt.Sprint("n", i),
			ReceivedDay: today()})
	})
	// One line is at different places in two builds.
	s.cubin("acme", "old", "ok", 0, today(), span{"_Zk", 0, 32, "k.cu", 8, ""})
	s.cubin("acme", "new", "ok", 0, today(), span{"_Zk", 64, 96, "k.cu", 8, ""})
	for range 2 {
		s.sampled(sampled{session: "parca:n0:1:train", build: "old", cubin: "c0", function: "_Zk", pc: 0, samples: 1},
			sampled{session: "parca:n0:1:train", build: "old", cubin: "c0", function: "_Zk", pc: 16, samples: 2},
			sampled{session: "parca:n1:1:train", build: "new", cubin: "c1", function: "_Zk", pc: 64, samples: 4})
	}
	s.Want("SELECT app, host, file, line, samples FROM {db}.line_stalls ORDER BY host", "train\tn0\tk.cu\t8\t6\ntrain\tn1\tk.cu\t8\t8")
	s.Want("SELECT app, host, function, samples FROM {db}.kernel_stalls ORDER BY host", "train\tn0\t_Zk\t6\ntrain\tn1\t_Zk\t8")
}

// What views know of the cubins that samples name stays when minutes become hours, and follows the deletion of a session.
func TestCubinsOfSamplesFollowTheSamples(t *testing.T) {
	s := newStore(t, true)
	p := table.PCCubins
	for i := range 6 { // data parts with rows of one hour, so old that they become one row
		s.Seed(p, 1, func(b *table.Batch, _ int) {
			p.Tenant.AppendString(b, "acme")
			p.SessionID.AppendString(b, []string{"one", "two"}[i%2])
			p.Bucket.Append(b, tabletest.Received.Add(-40*24*time.Hour).Truncate(time.Hour).Add(time.Duration(i)*time.Minute).UnixNano())
			p.BuildID.AppendString(b, "b")
			p.Cubin.AppendString(b, []string{"c1", "c2"}[i%2])
			p.Samples.Append(b, 1)
			p.ReceivedDay.Append(b, today()-40)
			p.RetentionDays.Append(b, 400)
		})
	}
	const cubins = "SELECT build_id, status, crcs, toUnixTimestamp(first_seen_at) % 3600 FROM {db}.cubins"
	s.Want(cubins, "b\tnot_uploaded\t['c1','c2']\t0")
	s.Exec("OPTIMIZE TABLE {db}.pc_cubins_data FINAL")
	s.Want("SELECT session_id, bucket_s, samples FROM {db}.pc_cubins_data ORDER BY session_id", "one\t3600\t3\ntwo\t3600\t3")
	s.Want(cubins, "b\tnot_uploaded\t['c1','c2']\t0")
	sql := p.DeleteSQL(s.Opts, []table.Target{{Tenant: "acme", Session: "two"}})
	s.Exec(strings.Replace(sql, "mutations_sync = 0", "mutations_sync = 1", 1))
	s.Want(cubins, "b\tnot_uploaded\t['c1']\t0")
}

// A question about one session reads that session's samples and stacks; which cubins a tenant's samples name is read as a sum of them.
func TestParcaViewsReadOneSession(t *testing.T) {
	s := newStore(t, true)
	const rows = 200_000 // of 20 sessions
	s.Exec(fmt.Sprintf("INSERT INTO {db}.pc_buckets_data (tenant, session_id, build_id, function, pc_offset, stall_reason, bucket, "+
		"received_day, retention_days) SELECT 'acme', toString(number %% 20), 'b', 'f', number, '%swait', 0, today(), 30 FROM numbers(%d)",
		stalled, rows))
	s.Exec(fmt.Sprintf("INSERT INTO {db}.kernel_stacks_data (tenant, session_id, function, content_lo, bucket, "+
		"received_day, retention_days) SELECT 'acme', toString(number %% 20), 'f', number, 0, today(), 30 FROM numbers(%d)", rows))
	for view, filled := range map[string]string{"pc_samples": "pc_buckets_data", "pc_lines": "pc_buckets_data",
		"pc_stalls": "pc_buckets_data", "kernel_stalls": "pc_buckets_data", "line_stalls": "pc_buckets_data",
		"source_profile": "pc_buckets_data", "function_metrics": "pc_buckets_data", "insight_stall": "pc_buckets_data",
		"pc_stacks": "pc_buckets_data", "kernel_stacks": "kernel_stacks_data", "pc_stack_lines": "pc_buckets_data"} {
		read := strings.Fields(s.Query("SELECT table, rows FROM viewExplain('EXPLAIN ESTIMATE', '', (SELECT * FROM {db}." + view +
			" WHERE tenant = 'acme' AND session_id = '7')) WHERE table = '" + filled + "'"))
		if len(read) != 2 {
			t.Errorf("%s reads %v", view, read)
			continue
		}
		if n, err := strconv.Atoi(read[1]); err != nil || n > rows/4 {
			t.Errorf("%s reads %s of %d rows, %v", view, read[1], rows, err)
		}
	}
}
