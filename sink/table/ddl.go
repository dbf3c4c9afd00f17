package table

import (
	"fmt"
	"slices"
	"strings"
)

// DefaultDatabase is where the tables are by default.
const DefaultDatabase = "warpline"

// dedupTokens is for how many inserts a table remembers their tokens, dedupSeconds for how long. ClickHouse's own default for tables
// without replicas is not at all, and with replicas an hour.
const dedupTokens, dedupSeconds = 10_000, 7 * 24 * 3600

// Options say where the schema goes. The zero value is the database warpline of a single server.
type Options struct {
	Database   string // "" means DefaultDatabase
	Replicated bool   // Replicated… engines, for servers with a Keeper
	Cluster    string // name of the cluster that DDL runs on; "" means this server only

	lacks []string // table settings that the server does not know, see probe
}

func (o Options) database() string {
	if o.Database == "" {
		return DefaultDatabase
	}
	return o.Database
}

func (o Options) onCluster() string {
	if o.Cluster == "" {
		return ""
	}
	return " ON CLUSTER " + ident(o.Cluster)
}

// engine returns the engine clause, of the Replicated family if that is asked for.
func (o Options) engine(engine string) string {
	name, args, _ := strings.Cut(strings.TrimSuffix(engine, ")"), "(")
	if !o.Replicated {
		if args == "" {
			return name
		}
		return name + "(" + args + ")"
	}
	replica := "'/clickhouse/tables/{shard}/{database}/{table}', '{replica}'"
	if args != "" {
		replica += ", " + args
	}
	return "Replicated" + name + "(" + replica + ")"
}

// DDL returns the statement that creates the table if it does not exist.
func (t *Table) DDL(o Options) string {
	var s strings.Builder
	fmt.Fprintf(&s, "CREATE TABLE IF NOT EXISTS %s.%s%s (\n", ident(o.database()), ident(t.Name), o.onCluster())
	for i := range t.Columns {
		comma := ","
		if i == len(t.Columns)-1 && len(t.Skips) == 0 {
			comma = ""
		}
		fmt.Fprintf(&s, "    %s%s\n", t.Columns[i].definition(), comma)
	}
	for i, column := range t.Skips {
		comma := ","
		if i == len(t.Skips)-1 {
			comma = ""
		}
		fmt.Fprintf(&s, "    INDEX %s%s\n", skip(column), comma)
	}
	fmt.Fprintf(&s, ")\nENGINE = %s\n", o.engine(t.Engine))
	if t.Partition != "" {
		fmt.Fprintf(&s, "PARTITION BY %s\n", t.Partition)
	}
	if t.Primary != nil {
		fmt.Fprintf(&s, "PRIMARY KEY (%s)\n", strings.Join(t.Primary, ", "))
	}
	fmt.Fprintf(&s, "ORDER BY (%s)\n", strings.Join(t.OrderBy, ", "))
	if ttl := t.ttl(); ttl != "" {
		fmt.Fprintf(&s, "TTL %s\n", ttl)
	}
	fmt.Fprintf(&s, "SETTINGS %s\n", strings.Join(t.settings(o), ", "))
	return s.String()
}

// skip is the definition of an index that lets queries pass over granules.
func skip(column string) string {
	return fmt.Sprintf("%[1]s %[1]s TYPE minmax GRANULARITY 1", ident(column))
}

// lean are settings that make data parts smaller. Rows of one session are few in most tables, and then what ClickHouse stores with the data
// takes more room than the data: statistics that no query here needs, and for each column how defaults and lengths of strings are stored.
// Servers older than 25.11 do not know all of these settings; tables work without them.
var lean = [][2]string{
	{"auto_statistics_types", "''"},
	{"ratio_of_defaults_for_sparse_serialization", "1"},
	{"serialization_info_version", "'basic'"},
	{"string_serialization_version", "'single_stream'"},
}

// leanOfFew is one more for tables of which a session has few rows.
var leanOfFew = [2]string{"compress_per_column_in_compact_parts", "0"}

// lean are the settings of that name for this table.
func (t *Table) lean() [][2]string {
	if t.few {
		return append(slices.Clip(lean), leanOfFew)
	}
	return lean
}

func (t *Table) settings(o Options) []string {
	s := []string{
		fmt.Sprint("non_replicated_deduplication_window = ", dedupTokens),
		fmt.Sprint("replicated_deduplication_window = ", dedupTokens),
		fmt.Sprint("replicated_deduplication_window_seconds = ", dedupSeconds),
	}
	if t.Retention == Raw {
		s = append(s, "ttl_only_drop_parts = 1")
	}
	for _, l := range t.lean() {
		if !slices.Contains(o.lacks, l[0]) {
			s = append(s, l[0]+" = "+l[1])
		}
	}
	return s
}

// ttl returns the rules by which rows are deleted, and those by which minutes become hours.
func (t *Table) ttl() string {
	if t.Column("bucket") == nil {
		return t.TTL
	}
	// The arguments of the aggregate functions must be columns or expressions of the primary key: others are accepted here
	// and fail later, in the merge.
	set := []string{"bucket = min(toStartOfHour(bucket))", "received_day = max(received_day)"}
	for i := range t.Columns {
		c := &t.Columns[i]
		switch {
		case c.Name == "bucket_s":
			set = append(set, "bucket_s = greatest(max(bucket_s), 3600)")
		case c.agg != "":
			set = append(set, fmt.Sprintf("%[1]s = %[2]s(%[1]s)", c.Name, c.agg))
		}
	}
	return fmt.Sprintf("%s,\n    received_day + toIntervalDay(%d) GROUP BY %s SET %s", t.TTL, CoarsenDays, strings.Join(t.Primary, ", "),
		strings.Join(set, ", "))
}

// InsertSQL returns the statement that inserts an Arrow stream of this table's batches.
func (t *Table) InsertSQL(database string) string {
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = ident(c.Name)
	}
	return fmt.Sprintf("INSERT INTO %s.%s (%s) FORMAT ArrowStream", ident(Options{Database: database}.database()), ident(t.Name),
		strings.Join(names, ", "))
}

// What is escaped in literals and identifiers.
var (
	inQuotes    = strings.NewReplacer(`\`, `\\`, `'`, `\'`)
	inBackticks = strings.NewReplacer(`\`, `\\`, "`", "\\`")
)

// Quote returns s as a ClickHouse string literal.
func Quote(s string) string { return "'" + inQuotes.Replace(s) + "'" }

// ident returns s as a ClickHouse identifier.
func ident(s string) string { return "`" + inBackticks.Replace(s) + "`" }
