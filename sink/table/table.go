package table

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/zeebo/xxh3"
)

// Retention is how a table is partitioned and when its rows are deleted.
type Retention uint8

const (
	// Raw rows are partitioned by day of arrival and retention class, and are deleted by whole data parts.
	Raw Retention = iota
	// Rollup rows are partitioned by month of arrival and retention class; tables with buckets coarsen from minutes to hours [CoarsenDays]
	// after arrival.
	Rollup
	// Fact rows are kept like Rollup rows, and are never aggregated.
	Fact
	// Static tables are without tenant and retention class.
	Static
)

// CoarsenDays is how many days after arrival minute buckets become hours.
const CoarsenDays = 30

// Table is the definition of one table. It does not change after the program has started and is safe for concurrent use.
type Table struct {
	Name      string // in ClickHouse, without database
	Engine    string // MergeTree, AggregatingMergeTree or ReplacingMergeTree(…)
	Retention Retention
	OrderBy   []string // expressions
	Primary   []string // expressions, a prefix of OrderBy; nil means all of it
	Partition string   // partition expression; set from Retention if the table does not name one
	TTL       string   // set from Retention if the table does not name one
	Columns   []Column
	Skips     []string // columns of which ClickHouse keeps least and most in each granule, to pass over those that a condition rules out
	// LinkedBy names, for a table of contents, the table whose rows say which session has which content; "" for other tables. A content
	// without such a row is an orphan. Links are inserted first, so that a content that is there always has one.
	LinkedBy string
	// Lasting says that no deletion takes its rows: a tenant's rows are not what it has sent.
	Lasting bool
	Version int // raised by hand when the meaning of a column changes while its name and kind do not

	few     bool          // a session has few rows
	slots   [Hist + 1]int // columns by storage
	width   int           // bytes of a row, not counting strings and histograms
	once    sync.Once
	schema  *arrow.Schema
	message []byte // schema message
	print   string
}

// Schema returns the Arrow schema of the table's batches.
func (t *Table) Schema() *arrow.Schema { t.once.Do(t.derive); return t.schema }

// SchemaMessage returns the Arrow IPC schema message that opens a stream of this table's batches. It must not be changed.
func (t *Table) SchemaMessage() []byte { t.once.Do(t.derive); return t.message }

// Fingerprint identifies a version of a table: 16 hex digits over name, version and Arrow schema. Bodies may be spliced into one stream
// only when their fingerprints are equal.
func (t *Table) Fingerprint() string { t.once.Do(t.derive); return t.print }

func (t *Table) derive() {
	fields := make([]arrow.Field, len(t.Columns))
	for i, c := range t.Columns {
		fields[i] = arrow.Field{Name: c.Name, Type: kinds[c.Kind].arrow}
	}
	t.schema = arrow.NewSchema(fields, nil)
	var buf bytes.Buffer
	// Close on a writer that has written nothing writes the schema message and the end of the stream.
	if err := ipc.NewWriter(&buf, ipc.WithSchema(t.schema)).Close(); err != nil {
		panic("BUG: table " + t.Name + ": cannot encode its schema: " + err.Error())
	}
	t.message = bytes.TrimSuffix(buf.Bytes(), EOS())
	t.print = fmt.Sprintf("%016x", xxh3.HashString(fmt.Sprint(t.Name, "\n", t.Version, "\n", t.schema)))
}

// Column returns the definition of a column, nil when the table has none of that name.
func (t *Table) Column(name string) *Column {
	for i := range t.Columns {
		if t.Columns[i].Name == name {
			return &t.Columns[i]
		}
	}
	return nil
}
