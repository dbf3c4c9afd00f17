package table_test

import (
	"testing"

	"github.com/warpline/warpline/sink/table"
)

// Trap: what a copy's code means depends on the vendor, which may be known only after the copies were written.
func TestAMDCopyKindsOfALateVendor(t *testing.T) {
	s := newStore(t, true)
	se, m := table.Sessions, table.Memcpys
	for _, c := range []struct{ id, vendor, want string }{
		{"amd", "AMD", "HtoD DtoD HtoH kind_8"}, {"nvidia", "NVIDIA", "HtoD HtoA AtoH DtoD"}, {"unknown", "", "HtoD   "},
	} {
		for _, vendor := range []string{"", c.vendor} { // a session's first row does not know it
			s.Seed(se, 1, func(b *table.Batch, _ int) {
				se.Append(b, &table.SessionRow{HeadRow: acme(c.id), Vendor: vendor, ReceivedDay: today()})
			})
		}
		s.Seed(m, 4, func(b *table.Batch, i int) {
			m.Tenant.AppendString(b, "acme")
			m.SessionID.AppendString(b, c.id)
			m.CopyKind.AppendString(b, []string{"HtoD", "", "", ""}[i])
			m.CopyKindID.Append(b, []uint32{1, 3, 4, 8}[i])
			m.Bytes.Append(b, uint64(i))
		})
		s.Want("SELECT arrayStringConcat(groupArray(copy_kind), ' ') FROM ("+
			"SELECT copy_kind FROM {db}.memcpys WHERE session_id = '"+c.id+"' ORDER BY bytes)", c.want)
	}
}

// Copies whose kind came as a word are in the rollup under that word, whatever the vendor is; codes of the wire never mean a word.
func TestCopyKindsThatCameAsWords(t *testing.T) {
	s := newStore(t, true)
	se, m := table.Sessions, table.MemcpyStats
	words := []string{"HtoD", "DtoH", "DtoD", "HtoH", "PtoP", "sideways"}
	for _, vendor := range []string{"AMD", "NVIDIA", ""} {
		s.Seed(se, 1, func(b *table.Batch, _ int) {
			se.Append(b, &table.SessionRow{HeadRow: acme("s" + vendor), Vendor: vendor, ReceivedDay: today()})
		})
		s.Seed(m, len(words), func(b *table.Batch, i int) {
			m.Tenant.AppendString(b, "acme")
			m.SessionID.AppendString(b, "s"+vendor)
			m.CopyKindID.Append(b, table.CopyKindCode(words[i]))
			m.Calls.Append(b, uint64(i))
		})
		s.Want("SELECT arrayStringConcat(groupArray(copy_kind), ' ') FROM ("+
			"SELECT copy_kind FROM {db}.memcpy_stats WHERE session_id = 's"+vendor+"' ORDER BY calls)",
			"HtoD DtoH DtoD HtoH PtoP other")
	}
}
