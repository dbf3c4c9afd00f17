package tenantsql

import (
	"errors"
	"fmt"
	"strings"
)

// Bounds are what the questions of a tenant's own user on a server may take. No setting of a question lifts them.
type Bounds struct {
	Memory      int64 // bytes of one question; all of a user's together may take twice as much
	Seconds     int   // of one question
	ReadRows    int64 // of one question
	ResultRows  int64
	ResultBytes int64
	AtOnce      int // questions of a user at once
	Queries     int // in a minute
	BusySeconds int // in a minute, of all questions of the user together
}

// DefaultBounds are those of a slot of an embedded engine with 10 GiB.
func DefaultBounds() Bounds {
	return Bounds{Memory: 1 << 30, Seconds: 30, ReadRows: 2_000_000_000, ResultRows: 10_000_000, ResultBytes: 1 << 30, AtOnce: 4,
		Queries: 600, BusySeconds: 120}
}

// Check returns what is wrong with the bounds: in ClickHouse 0 is no bound, and nothing here may be without one.
func (b Bounds) Check() error {
	for _, f := range []struct {
		name string
		n    int64
	}{{"memory", b.Memory}, {"seconds", int64(b.Seconds)}, {"rows to read", b.ReadRows}, {"rows of an answer", b.ResultRows},
		{"bytes of an answer", b.ResultBytes}, {"questions at once", int64(b.AtOnce)}, {"questions a minute", int64(b.Queries)},
		{"busy seconds a minute", int64(b.BusySeconds)}} {
		if f.n <= 0 {
			return fmt.Errorf("bound of %s: %d: use a number above zero", f.name, f.n)
		}
	}
	if b.Memory < 16<<20 {
		return errors.New("bound of memory: give a question 16 MiB at least")
	}
	return nil
}

// setting is one setting of a user. Without change it is what it is; else the user may set it, up to most where that is not "".
type setting struct {
	name, value, most string
	change            bool
}

// mayChange are the settings that tools send by themselves, and what shapes an answer. See engine.Config, which has the same list for the
// embedded engine and says what must be looked at before one is added.
var mayChange = []string{"date_time_input_format", "date_time_output_format", "enable_http_compression", "extremes", "final",
	"format_csv_delimiter", "http_headers_progress_interval_ms", "join_use_nulls", "log_comment", "output_format_binary_write_json_as_string",
	"output_format_json_named_tuples_as_objects", "output_format_json_quote_64bit_integers", "output_format_json_quote_denormals",
	"output_format_json_validate_utf8", "output_format_native_write_json_as_string", "output_format_pretty_color",
	"output_format_pretty_max_rows", "output_format_pretty_max_value_width", "prefer_column_name_to_alias", "result_overflow_mode",
	"send_progress_in_http_headers", "session_timezone"}

// settings are those of a user with the bounds.
func (b Bounds) settings() []setting {
	n := func(v int64) string { return fmt.Sprint(v) }
	all := []setting{
		{name: "readonly", value: "1"},
		{name: "max_memory_usage", value: n(b.Memory)},
		{name: "max_memory_usage_for_user", value: n(2 * b.Memory)},
		{name: "max_bytes_before_external_group_by", value: n(b.Memory / 2)},
		{name: "max_bytes_before_external_sort", value: n(b.Memory / 2)},
		{name: "max_temporary_data_on_disk_size_for_user", value: n(b.Memory)},
		{name: "max_temporary_data_on_disk_size_for_query", value: n(b.Memory)},
		{name: "max_rows_to_read", value: n(b.ReadRows)},
		{name: "max_concurrent_queries_for_user", value: n(int64(b.AtOnce))},
		{name: "use_query_cache", value: "0"},
		{name: "use_query_condition_cache", value: "0"},
		{name: "cancel_http_readonly_queries_on_client_close", value: "1"},
		{name: "max_execution_time", value: n(int64(b.Seconds)), most: n(int64(b.Seconds)), change: true},
		{name: "max_result_rows", value: n(b.ResultRows), most: n(b.ResultRows), change: true},
		{name: "max_result_bytes", value: n(b.ResultBytes), most: n(b.ResultBytes), change: true},
		{name: "max_block_size", most: "65536", change: true},
	}
	for _, name := range mayChange {
		all = append(all, setting{name: name, change: true})
	}
	return all
}

// settingsSQL is the SETTINGS clause for those of the settings that a server knows.
func settingsSQL(all []setting, known map[string]bool) string {
	var said []string
	for _, s := range all {
		if !known[s.name] {
			continue
		}
		sql := s.name
		if s.value != "" {
			sql += " = " + s.value
		}
		switch {
		case s.most != "":
			sql += " MIN 1 MAX " + s.most + " CHANGEABLE_IN_READONLY"
		case s.change:
			sql += " CHANGEABLE_IN_READONLY"
		default:
			sql += " READONLY"
		}
		said = append(said, sql)
	}
	return "SETTINGS " + strings.Join(said, ", ")
}
