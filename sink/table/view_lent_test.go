package table_test

import (
	"fmt"
	"testing"

	"github.com/warpline/warpline/sink/table"
)

// A client sends what its program is made of once, with one segment of a run or of the runs it rolled into: the samples of the others find
// it there. What a segment sends itself comes first, and nothing comes from other runs or other tenants.
func TestSegmentsLendEachOtherTheirCode(t *testing.T) {
	s := newStore(t, true)
	segment := func(tenant, session, run, chain string) {
		s.Exec(fmt.Sprintf("INSERT INTO {db}.segments_data (tenant, session_id, run_id, roll_chain_id) VALUES ('%s', '%s', '%s', '%s')",
			tenant, session, run, chain))
	}
	for _, g := range [][4]string{
		{"acme", "first", "run", ""}, {"acme", "second", "run", ""}, {"acme", "own", "run", ""},
		{"acme", "rolled1", "r1", "chain"}, {"acme", "rolled2", "r2", "chain"},
		{"acme", "elsewhere", "other run", ""}, {"rival", "rival", "run", ""},
	} {
		segment(g[0], g[1], g[2], g[3])
	}
	src, link, p := table.SourceLines, table.SessionSources, table.PCSamples
	source := func(session string, content uint64, text string) {
		s.Seed(src, 1, func(b *table.Batch, _ int) {
			src.Tenant.AppendString(b, "acme")
			src.ContentHi.Append(b, 5)
			src.ContentLo.Append(b, content)
			src.Line.Append(b, 1)
			src.Text.Append(b, text)
		})
		s.Seed(link, 1, func(b *table.Batch, _ int) {
			link.Append(b, &table.SessionSourceRow{HeadRow: acme(session), SourceFileID: 3, ContentHi: 5, ContentLo: content, Lines: 1,
				ReceivedDay: today()})
		})
	}
	for _, who := range [][2]string{{"acme", "first"}, {"acme", "second"}, {"acme", "own"}, {"acme", "rolled1"},
		{"acme", "rolled2"}, {"acme", "elsewhere"}, {"acme", "alone"}, {"rival", "rival"}} {
		s.Exec(fmt.Sprintf(`INSERT INTO {db}.dictionaries (tenant, session_id, dict, id, value)
			VALUES ('%[1]s', '%[2]s', 'func_symbol_dict', 1, '_Z1fi'), ('%[1]s', '%[2]s', 'source_file_dict', 3, 'a.cu')`, who[0], who[1]))
		s.Seed(p, 1, func(b *table.Batch, _ int) {
			p.Tenant.AppendString(b, who[0])
			p.SessionID.AppendString(b, who[1])
			p.Function.AppendString(b, "f(int)")
			p.FunctionID.Append(b, 1)
			p.PCOffset.Append(b, 0)
			p.StallReason.AppendString(b, stalled+"wait")
			p.Samples.Append(b, 4)
			p.File.AppendString(b, "a.cu")
			p.Line.Append(b, 1)
		})
	}
	s.code("acme", "first", "_Z1fi", 7, 1, "LDG", "EXIT")
	s.code("acme", "own", "_Z1fi", 9, 2, "STG")
	s.code("acme", "rolled1", "_Z1fi", 7, 3, "BRA")
	source("first", 1, "of the first")
	source("own", 2, "its own")
	source("rolled1", 3, "of the rolled")

	s.Want("SELECT tenant, session_id, sass, sass_ambiguous, source, samples FROM {db}.source_profile ORDER BY ALL", `acme	alone		0		4
acme	elsewhere		0		4
acme	first	LDG	0	of the first	4
acme	own	STG	0	its own	4
acme	rolled1	BRA	0	of the rolled	4
acme	rolled2	BRA	0	of the rolled	4
acme	second	LDG	1	its own	4
rival	rival		0		4`)
	s.Want("SELECT session_id, sass FROM {db}.pc_samples WHERE tenant = 'acme' AND session_id = 'rolled2'", "rolled2\tBRA")
	s.Want("SELECT session_id, cubin_crc, pc_offset, sass, lent FROM {db}.disassembly WHERE session_id IN ('first', 'own') ORDER BY ALL",
		"first\t7\t0\tLDG\t0\nfirst\t7\t16\tEXIT\t0\nfirst\t9\t0\tSTG\t1\nown\t7\t0\tLDG\t1\nown\t7\t16\tEXIT\t1\nown\t9\t0\tSTG\t0")
	s.Want("SELECT path, text FROM {db}.source_files WHERE session_id = 'second'", "a.cu\tits own") // of two that lend, the one that came last
	s.Want("SELECT path, text FROM {db}.source_files WHERE session_id = 'own'", "a.cu\tits own")
}
