package table

import "strings"

// codecs are the codecs of the kinds, for columns that do not name a better one. Measured in kernels_data, a million rows of bench data,
// bytes a row of the largest columns (BenchmarkKernelsAtRest prints today's):
//
//	duration_ns   2.56 T64,ZSTD(1)    2.57 T64('bit'),ZSTD(1)  2.91 T64('bit')      3.29 ZSTD(3)
//	started_at    2.43 Delta,T64('bit'),ZSTD(3)  2.45 Delta,T64('bit'),ZSTD(1)  2.60 Delta,T64,ZSTD(1)  3.26 Delta,ZSTD(1)  3.76 Gorilla
//	launch_id     0.94 T64,ZSTD(1)    1.14 T64('bit'),ZSTD(1)  1.32 ZSTD(3)         1.24 ZSTD(9)
//	stream_id     0.33 ZSTD(3)        0.51 ZSTD(1)             0.51 T64,ZSTD(1)
//	corr_id       0.19 DoubleDelta,ZSTD(1)       0.22 Delta,ZSTD(1)      0.24 Delta,T64,ZSTD(1)
//
// The data's own entropy, with rows in the order of time and each column by itself, is 2.3, 2.4, 0.9, 0.25 and 0.1. Sorting by kernel
// within a session makes launch_id nearly free, but costs more in started_at and corr_id than it saves, and rows of a time range would lie
// apart.
var codecs = [...]string{
	U8:   "ZSTD(1)",
	U16:  "T64, ZSTD(1)",
	U32:  "T64, ZSTD(1)",
	U64:  "T64, ZSTD(1)",
	I32:  "T64, ZSTD(1)",
	I64:  "T64, ZSTD(1)",
	F32:  "ZSTD(1)",
	F64:  "ZSTD(1)",
	Time: Rising,
	Day:  "ZSTD(1)",
	Str:  "ZSTD(1)",
	Dict: "ZSTD(1)",
	Hist: "T64, Delta(1), ZSTD(3)", // T64 lays the low bytes of 64 buckets together; they rise by a few, counts hardly change
}

// same suits numbers that nearly all rows have in common: there is no header of a codec before ZSTD's. ZSTD(1) overlooks some that repeat.
const same = "ZSTD(3)"

// Rising suits numbers that seldom fall from row to row; Spread suits numbers whose steps are large and without pattern: the bits of the
// steps are sorted by weight, so that random bits are apart from constant ones.
const Rising, Spread = "Delta, ZSTD(1)", "Delta, T64('bit'), ZSTD(1)"

// near suits times of which many follow each other in steps of like size: the low bytes of 64 steps lie together and are subtracted.
const near = "Delta, T64, Delta(1), ZSTD(1)"

// Codecs of rollups and of metrics, measured in the reference hour: the tables are small and live long, so more work pays off.
const (
	minutes = "GCD, Delta, ZSTD(3)" // times of whole minutes that rise within a key
	chunks  = "T64, ZSTD(1)"        // few different ones, in any order
	amounts = "T64('bit'), ZSTD(1)" // sums of one thing that differ from minute to minute
	regular = "DoubleDelta, ZSTD(1)"
	offsets = "GCD, Delta, ZSTD(1)"             // places of instructions, a multiple of 8 or 16
	lines   = "Delta, T64('bit'), ZSTD(9)"      // of instructions that follow each other
	gauge   = "Delta, ZSTD(9)"                  // small whole numbers kept as floats
	pages   = "GCD, Delta, T64('bit'), ZSTD(1)" // sizes in whole pages or MiB
)

// Define begins the definition of a table; the calls that follow add its columns. A table is part of a database when a [Schema] has it.
func Define(name string, r Retention, orderBy string) *Table {
	// What columns are made of is initialized before every table: the compiler does not see that the methods of a generic Binder use it.
	_, _, _ = kinds, codecs, Most
	t := &Table{Name: name, Engine: "MergeTree", Retention: r, OrderBy: splitTop(orderBy), Version: 1}
	switch r {
	case Raw:
		t.Partition = "(toDate(received_at), retention_days)"
		t.TTL = "toDate(received_at) + toIntervalDay(retention_days) DELETE"
	case Rollup, Fact:
		t.Partition = "(toYYYYMM(received_day), retention_days)"
		t.TTL = "received_day + toIntervalDay(retention_days) DELETE"
	}
	return t
}

// DefineRollup begins the definition of a table that adds up rows of one key while ClickHouse merges. key is without time; tables with
// buckets have rows for minutes, which TTL merges into hours.
//
// Every sort key ends with rows_partition, so that no merge mixes chunk counters of different partitions of ROWS.
func DefineRollup(name, key string, buckets bool) *Table {
	t := Define(name, Rollup, key)
	t.Engine = "AggregatingMergeTree"
	if buckets {
		// The hour is in the primary key because TTL … GROUP BY groups by a prefix of it.
		key += ", toStartOfHour(bucket)"
		t.OrderBy = splitTop(key + ", bucket")
	}
	t.Primary = splitTop(key)
	t.OrderBy = append(t.OrderBy, "rows_partition")
	return t
}

// LastCounts makes ClickHouse keep, of several rows with one key, the row of the latest chunk.
func (t *Table) LastCounts() *Table {
	t.Engine = "ReplacingMergeTree(chunk)"
	return t
}

// Lasts makes deletions leave its rows.
func (t *Table) Lasts() *Table {
	t.Lasting = true
	return t
}

// Few says that a session has one row in the table, or a few. Its small data parts then keep all columns of a granule in one block, because
// each block has a header of some 30 bytes: a row of sessions_data takes 1.5 kB in place of 2.7, 10,000 take 1 % more.
func (t *Table) Few() *Table {
	t.few = true
	return t
}

// SkipsBy makes ClickHouse keep the least and the most of a column in each granule, 8192 rows, and not read those that a condition on it
// rules out. It pays for a column that nearly all rows have the same value in.
func (t *Table) SkipsBy(column string) *Table {
	t.Skips = append(t.Skips, column)
	return t
}

// Expires says when ClickHouse drops rows of a table that no retention class does.
func (t *Table) Expires(ttl string) *Table {
	t.TTL = ttl
	return t
}

// splitTop splits a list of expressions at the commas that are not inside parentheses.
func splitTop(list string) (parts []string) {
	depth, start := 0, 0
	for i, r := range list {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				parts = append(parts, strings.TrimSpace(list[start:i]))
				start = i + 1
			}
		}
	}
	if last := strings.TrimSpace(list[start:]); last != "" {
		parts = append(parts, last)
	}
	return parts
}

// Option changes a column while it is being defined.
type Option func(*Column)

// Codec says how ClickHouse compresses the column, if the codec of its kind does not suit it.
func Codec(c string) Option { return func(col *Column) { col.Codec = c } }

// Note says what the column holds.
func Note(s string) Option { return func(col *Column) { col.Comment = s } }

// Shared says that many sessions have the same values: ClickHouse keeps each once in a data part. Tables that are there keep their type.
// It is for a column of kind Str, whose batches do not look values up, as those of a Dict do.
func Shared(col *Column) { col.Type = kinds[Dict].click }

// Agg makes a column a sum, a min, a max … that ClickHouse keeps while it merges rows of one key.
func Agg(function string) Option {
	return func(col *Column) {
		typ := col.Type
		col.agg = function
		col.Type = "SimpleAggregateFunction(" + function + ", " + typ + ")"
	}
}

// The aggregates that tables use most.
var (
	Sum    = Agg("sum")
	Least  = Agg("min")
	Most   = Agg("max")
	SumMap = Agg("sumMap")
)

// storage says which kinds share a list of slices in a batch: a Time is stored as an int64, a Day as an int32.
func storage(k Kind) Kind {
	switch k {
	case Time:
		return I64
	case Day:
		return I32
	}
	return k
}

func (t *Table) add(name string, k Kind, options []Option) int {
	s := storage(k)
	c := Column{Name: name, Kind: k, Type: kinds[k].click, Codec: codecs[k], slot: t.slots[s]}
	for _, o := range options {
		o(&c)
	}
	t.slots[s]++
	t.width += kinds[k].width
	t.Columns = append(t.Columns, c)
	return c.slot
}

// U8 adds a column of that kind.
func (t *Table) U8(name string, o ...Option) U8Col { return U8Col(t.add(name, U8, o)) }

// U16 adds a column of that kind.
func (t *Table) U16(name string, o ...Option) U16Col { return U16Col(t.add(name, U16, o)) }

// U32 adds a column of that kind.
func (t *Table) U32(name string, o ...Option) U32Col { return U32Col(t.add(name, U32, o)) }

// U64 adds a column of that kind.
func (t *Table) U64(name string, o ...Option) U64Col { return U64Col(t.add(name, U64, o)) }

// I32 adds a column of that kind.
func (t *Table) I32(name string, o ...Option) I32Col { return I32Col(t.add(name, I32, o)) }

// I64 adds a column of that kind.
func (t *Table) I64(name string, o ...Option) I64Col { return I64Col(t.add(name, I64, o)) }

// F32 adds a column of that kind.
func (t *Table) F32(name string, o ...Option) F32Col { return F32Col(t.add(name, F32, o)) }

// F64 adds a column of that kind.
func (t *Table) F64(name string, o ...Option) F64Col { return F64Col(t.add(name, F64, o)) }

// Time adds a column of that kind.
func (t *Table) Time(name string, o ...Option) TimeCol { return TimeCol(t.add(name, Time, o)) }

// Day adds a column of that kind.
func (t *Table) Day(name string, o ...Option) DayCol { return DayCol(t.add(name, Day, o)) }

// Str adds a column of that kind.
func (t *Table) Str(name string, o ...Option) StrCol { return StrCol(t.add(name, Str, o)) }

// Dict adds a column of that kind.
func (t *Table) Dict(name string, o ...Option) DictCol { return DictCol(t.add(name, Dict, o)) }

// Hist adds a column of that kind.
func (t *Table) Hist(name string, o ...Option) HistCol { return HistCol(t.add(name, Hist, o)) }

// Head is how every table of a tenant's sessions begins.
type Head struct{ Tenant, SessionID DictCol }

// Head adds its columns.
func (t *Table) Head() Head {
	return Head{t.Dict("tenant"), t.Dict("session_id")}
}

// RawTail is how every Raw table ends.
type RawTail struct {
	ReceivedAt    TimeCol // stamped by the gateway
	RetentionDays U16Col
	RowsPartition U16Col // partition of the ROWS stream that brought the row
	Chunk         U64Col // that partition's chunk counter
}

// RawTail adds its columns.
func (t *Table) RawTail() RawTail {
	return RawTail{
		ReceivedAt:    t.Time("received_at", Note("when the gateway received it")),
		RetentionDays: t.U16("retention_days", Codec(same), Note("retention class: days from arrival")),
		RowsPartition: t.U16("rows_partition", Codec(same), Note("partition of the stream that brought the row")),
		Chunk:         t.U64("chunk", Codec(Rising), Note("number of the chunk within rows_partition")),
	}
}

// FactTail is how every Rollup and Fact table ends. In tables that aggregate, Chunk becomes the largest of the merged rows.
type FactTail struct {
	ReceivedDay   DayCol
	RetentionDays U16Col
	RowsPartition U16Col
	Chunk         U64Col
}

// FactTail adds its columns.
func (t *Table) FactTail() FactTail {
	var o []Option
	if t.Engine == "AggregatingMergeTree" {
		o = append(o, Most)
	}
	return FactTail{
		ReceivedDay:   t.Day("received_day", Note("day on which the gateway received it")),
		RetentionDays: t.U16("retention_days", Codec(same), Note("retention class: days from arrival")),
		RowsPartition: t.U16("rows_partition", Codec(same), Note("partition of the stream that brought the row")),
		Chunk:         t.U64("chunk", append(o, Codec(chunks), Note("number of the chunk within rows_partition"))...),
	}
}

// BucketHead is the time of a Rollup row: from Bucket on, for BucketS seconds (60, after coarsening 3600).
type BucketHead struct {
	Bucket  TimeCol
	BucketS U32Col
}

// BucketHead adds its columns.
func (t *Table) BucketHead(o ...Option) BucketHead {
	return BucketHead{
		Bucket:  t.Time("bucket", append([]Option{Codec(minutes), Note("start of the time bucket")}, o...)...),
		BucketS: t.U32("bucket_s", Most, Codec(same), Note("length of the time bucket, seconds")),
	}
}
