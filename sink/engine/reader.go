package engine

import (
	"runtime"
	"strings"
)

// What one query of the reader gets, and all of them together. They are profile settings, which readonly = 1 makes final.
const (
	// readerQueries is how many may run at once for each processor, between 8 and 64 in all; the next is answered 202,
	// TOO_MANY_SIMULTANEOUS_QUERIES. More would only share the processors with the writer's inserts.
	readerQueries = 4
	// readerSessions is how much of the engine's memory, in percent, the buffers of the reader's connections may take: a native one counts
	// as sessionBytes for as long as it is open, an HTTP one while it asks, and they do not count against any bound of a user. The next is
	// answered 700, USER_SESSION_LIMIT_EXCEEDED. One that does nothing for readerIdleSeconds is closed.
	readerSessions    = 10
	sessionBytes      = 2 << 20
	readerIdleSeconds = 600
	// readerThreads is how many threads a query may use at most; it is also bounded by half the machine's processors.
	readerThreads = 8
	// readerSeconds ends a query; a driver that knows better may ask for up to readerMostSeconds.
	readerSeconds, readerMostSeconds = 60, 600
	// temporaryData is what all queries and merges together may write to temporary files: an answer that waits for its end
	// (?wait_end_of_query=1) is in one, and does not count against any bound of a user.
	temporaryData = 4 << 30
	// readerMemory is the reader's part of the engine's memory, in percent. A query gets three quarters of it, and writes what does not
	// fit into files, up to readerDisk bytes.
	readerMemory = 40
	readerDisk   = 1 << 30
)

// bounds are the numbers in the reader's profile.
type bounds struct {
	Queries, Sessions, IdleSeconds       int
	Threads, Seconds, MostSeconds        int
	UserMemory, QueryMemory, Spill, Disk int64
}

func readerBounds(memoryLimit int64) bounds {
	all := memoryLimit / 100 * readerMemory
	sessions := int(min(1000, max(50, memoryLimit/100*readerSessions/sessionBytes)))
	return bounds{
		Queries: min(64, max(8, readerQueries*runtime.NumCPU())), Sessions: sessions, IdleSeconds: readerIdleSeconds,
		Threads: min(readerThreads, max(2, runtime.NumCPU()/2)), Seconds: readerSeconds, MostSeconds: readerMostSeconds,
		UserMemory: all, QueryMemory: all / 4 * 3, Spill: all / 4, Disk: readerDisk,
	}
}

// changeable are the settings that the reader may change: what drivers send by themselves and what shapes an answer. None of them may name
// a file, a host or a format's schema, lift a bound, or add a header. Before you add one, check what it can be set to.
var changeable = []string{
	"date_time_input_format", "date_time_output_format", "enable_http_compression", "extremes", "final", "format_csv_delimiter",
	"http_headers_progress_interval_ms", "join_use_nulls", "log_comment", "max_result_bytes", "max_result_rows",
	"output_format_binary_write_json_as_string", "output_format_json_named_tuples_as_objects", "output_format_json_quote_64bit_integers",
	"output_format_json_quote_denormals", "output_format_json_validate_utf8", "output_format_native_write_json_as_string",
	"output_format_pretty_color",
	"output_format_pretty_max_rows", "output_format_pretty_max_value_width", "prefer_column_name_to_alias", "result_overflow_mode",
	"send_progress_in_http_headers", "session_timezone",
}

// quotedDatabase is a database as GRANT names it.
func quotedDatabase(name string) string {
	if name == "*" {
		return name
	}
	return "`" + strings.NewReplacer(`\`, `\\`, "`", "\\`").Replace(name) + "`"
}
