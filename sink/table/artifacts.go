package table

// What programs are made of (source lines, instructions, PTX) is stored once per tenant and content, and linked to the sessions that sent
// it: a session's own rows are few, and a program that is profiled a thousand times takes room once. Equal contents merge away within a
// month and retention class; across those, and until a merge, they are there more than once, so views take any one of equal rows.

// contentOrder is how content tables are sorted after their key. The sink proves that an insert arrived by the largest chunk that each
// partition of ROWS has in a table. Rows of a content may come by any of these, and a merge keeps one row, so every load also brings a mark
// row: it has content 0, and there is one for each tenant and partition of ROWS. Views do not show it, since no session links to it.
const contentOrder = ", if(content_hi = 0 AND content_lo = 0, rows_partition, 0)"

// defineContent registers a table of contents. key is without tenant and content, links the table that refers to them.
func defineContent(name, links, key string) *Table {
	primary := "tenant, content_hi, content_lo" + key
	t := Define(name, Fact, primary+contentOrder)
	t.Primary = splitTop(primary)
	t.Engine = "ReplacingMergeTree(chunk)"
	t.LinkedBy = links
	return t
}

// ContentID names a content: a hash of 128 bits. Two numbers join in half the time that text takes and compress as well (0.02 B a row).
type ContentID struct{ ContentHi, ContentLo U64Col }

func (t *Table) contentID() ContentID {
	return ContentID{t.U64("content_hi", Codec("ZSTD(1)"), Note("128-bit hash of the content")), t.U64("content_lo", Codec("ZSTD(1)"))}
}

// plain makes a Dict column text in ClickHouse: it travels as a dictionary, which keeps runs of equal values small, and is stored as a
// String, which takes a quarter less room than LowCardinality when there are many values (5.2 against 6.9 B an instruction).
func plain(col *Column) { col.Type = "String" }

type sourceLinesTable struct {
	*Table
	Tenant DictCol
	ContentID
	Line U32Col
	Text StrCol
	FactTail
}

// SourceLines holds the lines of source files, once per content.
var SourceLines = func() sourceLinesTable {
	t := defineContent("source_lines_data", "session_sources_data", ", line")
	return sourceLinesTable{
		Table:     t,
		Tenant:    t.Dict("tenant"),
		ContentID: t.contentID(),
		Line:      t.U32("line", Codec(Rising), Note("from 1")),
		Text:      t.Str("text"),
		FactTail:  t.FactTail(),
	}
}()

type sassLinesTable struct {
	*Table
	Tenant DictCol
	ContentID
	PC   U64Col
	SASS DictCol
	FactTail
}

// SASSLines holds the instructions of functions, once per content: one row an instruction.
var SASSLines = func() sassLinesTable {
	t := defineContent("sass_lines_data", "session_functions_data", ", pc")
	return sassLinesTable{
		Table:     t,
		Tenant:    t.Dict("tenant"),
		ContentID: t.contentID(),
		PC:        t.U64("pc", Codec(Rising), Note("offset in the function, bytes")),
		SASS:      t.Dict("sass", plain),
		FactTail:  t.FactTail(),
	}
}()

type ptxTable struct {
	*Table
	Tenant DictCol
	ContentID
	FunctionName StrCol
	Arch         DictCol
	PTX          StrCol
	FactTail
}

// PTX holds PTX texts, once per content.
var PTX = func() ptxTable {
	t := defineContent("ptx_data", "session_functions_data", "")
	return ptxTable{
		Table:        t,
		Tenant:       t.Dict("tenant"),
		ContentID:    t.contentID(),
		FunctionName: t.Str("function_name", Note("mangled")),
		Arch:         t.Dict("arch"),
		PTX:          t.Str("ptx"),
		FactTail:     t.FactTail(),
	}
}()

// SessionSourceRow is a row of SessionSources.
type SessionSourceRow struct {
	HeadRow
	SourceFileID uint32
	ContentHi    uint64
	ContentLo    uint64
	Lines        uint32
	ReceivedDay  int32
}

// SessionSources says which content a session's source file has.
var SessionSources = DefineRows(
	Define("session_sources_data", Fact, "tenant, session_id, source_file_id, content_hi, content_lo").LastCounts(),
	func(c *Binder[SessionSourceRow], r *SessionSourceRow) {
		c.Head(&r.HeadRow)
		c.U32("source_file_id", &r.SourceFileID, Note("id in source_file_dict"))
		c.contentID(&r.ContentHi, &r.ContentLo)
		c.U32("lines", &r.Lines)
		c.FactTail(&r.ReceivedDay)
	})

// Kinds of artifacts in [SessionFunctions].
const (
	ArtifactSASS = "sass"
	ArtifactPTX  = "ptx"
)

// SessionFunctionRow is a row of SessionFunctions.
type SessionFunctionRow struct {
	HeadRow
	Kind         string
	CubinCRC     uint64
	FunctionName string
	Demangled    string
	Arch         string
	ContentHi    uint64
	ContentLo    uint64
	Instructions uint32
	ReceivedDay  int32
}

// SessionFunctions says which code a session's functions have.
var SessionFunctions = DefineRows(
	Define("session_functions_data", Fact, "tenant, session_id, kind, function_name, cubin_crc, arch, content_hi, content_lo").LastCounts(),
	func(c *Binder[SessionFunctionRow], r *SessionFunctionRow) {
		c.Head(&r.HeadRow)
		c.Dict("kind", &r.Kind, Note("sass, ptx"))
		c.U64("cubin_crc", &r.CubinCRC, Note("0 for ptx"))
		c.Str("function_name", &r.FunctionName, Note("mangled, whole"))
		c.Str("demangled", &r.Demangled, Note("'' when function_name is not mangled, or too long"))
		c.Dict("arch", &r.Arch, Note("'' for sass"))
		c.contentID(&r.ContentHi, &r.ContentLo)
		c.U32("instructions", &r.Instructions, Note("0 for ptx"))
		c.FactTail(&r.ReceivedDay)
	})
