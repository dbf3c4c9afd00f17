package trace

import "slices"

// layer is a kind of events. Its SQL returns one column: the text of an event. In it {db} is the database and {own} the condition that a
// row is of the session.
type layer struct {
	name    string
	sources []string // that have it; none: all but those of not
	not     []string
	sql     string
}

func (l *layer) of(source string) bool {
	if len(l.sources) > 0 {
		return slices.Contains(l.sources, source)
	}
	return !slices.Contains(l.not, source)
}

// event is SQL for the text of an event. pid and tid are SQL for JSON, name and category for text, at for nanoseconds since 1970, args and
// more for what follows, ” for nothing.
func event(phase, name, category, at, pid, tid, args, more string) string {
	return "concat('{\"ph\":\"" + phase + "\",\"name\":', toJSONString(" + name + "), ',\"cat\":', toJSONString(" + category +
		"), ',\"ts\":', " + micros(at) + ", ',\"pid\":', " + pid + ", ',\"tid\":', " + tid + ", " + args + more + ", '}')"
}

// slice is an event with a length.
func slice(name, category, pid, tid, args string) string {
	return event("X", name, category, "toUnixTimestamp64Nano(started_at)", pid, tid, args, ", ',\"dur\":', "+micros("duration_ns"))
}

// counter is an event with numbers.
func counter(name, at, pid, args string) string {
	return event("C", name, "''", "toUnixTimestamp64Nano("+at+")", pid, "0", args, "")
}

// micros is SQL for nanoseconds as decimal text in microseconds: no digit is lost.
func micros(ns string) string {
	return "toString(intDiv(" + ns + ", 1000)), '.', leftPad(toString(" + ns + " % 1000), 3, '0')"
}

// given is SQL for a process or thread as the trace gave it: a number if it is one.
func given(column string) string {
	return "if(match(" + column + ", '^(0|[1-9][0-9]{0,8})$'), toString(" + column + "), toJSONString(toString(" + column + ")))"
}

// What rows of GPU Flight and Parca are drawn on.
const (
	gpu    = `toJSONString(if(device_id < 0, 'GPU', concat('GPU ', toString(device_id))))`
	noGPU  = `'"GPU"'` // of rows that do not say which
	stream = `toJSONString(concat('stream ', toString(stream_id)))`
	host   = `'"host"'`
	whole  = `if(args = '', '', concat(',"args":', args))`
)

// object is SQL for arguments: columns with their types.
func object(columns, types string) string {
	return "concat(',\"args\":', toJSONString(CAST(tuple(" + columns + "), 'Tuple(" + types + ")')))"
}

// traces and captures are sources whose own tables have all that is drawn.
const (
	traces   = "trace"
	captures = "intra-kernel"
)

var layers = []layer{
	{name: "slices", sources: []string{traces}, sql: "SELECT multiIf(" +
		"phase IN ('X', 'BE'), " + slice("name", "category", given("pid"), given("tid"), whole) + ", " +
		"phase = 'B', " + event("B", "name", "category", "toUnixTimestamp64Nano(started_at)", given("pid"), given("tid"), whole, "") + ", " +
		"phase = 'be', concat(" + async("b", "0", whole) + ", ',\\n', " + async("e", "duration_ns", "''") + "), " +
		"phase = 'b', " + async("b", "0", whole) + ", " +
		event("i", "name", "category", "toUnixTimestamp64Nano(started_at)", given("pid"), given("tid"), whole, ", ',\"s\":\"t\"'") +
		") FROM {db}.trace_slices WHERE {own}"},
	{name: "counters", sources: []string{traces}, sql: "SELECT " + event("C", "name", "category", "toUnixTimestamp64Nano(at)", given("pid"),
		given("tid"), "concat(',\"args\":{', toJSONString(series), ':', toString(value), '}')", "") +
		" FROM {db}.trace_counters WHERE {own} AND isFinite(value)"},
	{name: "threads", sources: []string{traces}, sql: "SELECT concat('{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":', " + given("pid") +
		", ',\"tid\":', " + given("tid") + ", ',\"args\":{\"name\":', toJSONString(any(track)), '}}') FROM {db}.trace_slices " +
		"WHERE {own} AND track != '' GROUP BY pid, tid"},
	{name: "processes", sources: []string{traces}, sql: "SELECT concat('{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":', " + given("pid") +
		", ',\"args\":{\"name\":', toJSONString(concat('GPU ', toString(max(device_id)))), '}}') FROM {db}.trace_slices " +
		"WHERE {own} AND kind IN ('kernel', 'memcpy', 'memset') GROUP BY pid HAVING min(device_id) = max(device_id) AND max(device_id) >= 0"},
	// Launches are told by correlation; other arrows as the trace has them.
	{name: "arrows", sources: []string{traces}, sql: "SELECT concat('{\"ph\":', toJSONString(phase), ',\"bp\":\"e\",\"id\":', " +
		"toString(flow_id), ',\"name\":', toJSONString(name), ',\"cat\":', toJSONString(category), ',\"ts\":', " +
		micros("toUnixTimestamp64Nano(at)") + ", ',\"pid\":', " + given("pid") + ", ',\"tid\":', " + given("tid") +
		", '}') FROM {db}.trace_flow_ends WHERE {own}"},

	{name: "kernels", not: []string{traces, captures}, sql: "SELECT " + slice("k.kernel", "'kernel'", gpu, stream,
		"concat(',\"args\":{\"grid\":', toJSONString(toString(k.grid)), ',\"block\":', toJSONString(toString(k.block)), ',\"registers\":', "+
			"toString(k.registers), ',\"dynamic shared memory\":', toString(k.dyn_shared_bytes), ',\"corr_id\":', toString(k.corr_id), "+
			"',\"scope\":', toJSONString(toString(k.scope)), if(s.shares = '', '', concat(',\"stalls\":', s.shares)), '}')") +
		" FROM (SELECT * FROM {db}.kernels WHERE {own}) AS k ANY LEFT JOIN (" + stalls + ") AS s ON toString(k.kernel) = s.function"},
	{name: "copies", not: []string{traces, captures}, sql: "SELECT " + slice("concat('Memcpy ', copy_kind)", "'gpu_memcpy'", noGPU, stream,
		object("bytes, corr_id", "bytes UInt64, corr_id UInt32")) + " FROM {db}.memcpys WHERE {own}"},
	{name: "memsets", not: []string{traces, captures}, sql: "SELECT " + slice("if(name = '', 'Memset', toString(name))", "'gpu_memset'", gpu,
		stream, object("bytes, corr_id", "bytes UInt64, corr_id UInt32")) + " FROM {db}.memsets WHERE {own}"},
	{name: "waits", not: []string{traces, captures}, sql: "SELECT " + slice("if(sync_type = '', 'wait', toString(sync_type))", "'wait'", noGPU,
		stream, object("event_id, corr_id", "event_id UInt32, corr_id UInt32")) + " FROM {db}.syncs WHERE {own}"},
	{name: "scopes", not: []string{traces, captures}, sql: "SELECT " + slice("name", "'scope'", host, `'"scopes"'`,
		object("toString(path), repeat, warmup", "path String, repeat UInt32, warmup UInt32")) + " FROM {db}.scopes WHERE {own}"},
	{name: "markers", not: []string{traces, captures}, sql: "SELECT if(duration_ns > 0, " + slice("name", "'marker'", host, `'"markers"'`,
		object("toString(domain)", "domain String")) + ", " + event("i", "name", "'marker'", "toUnixTimestamp64Nano(started_at)", host,
		`'"markers"'`, object("toString(domain)", "domain String"), ", ',\"s\":\"t\"'") + ") FROM {db}.markers WHERE {own}"},
	{name: "allocations", not: []string{traces, captures}, sql: "SELECT " + event("i", "memory_op", "'allocation'",
		"toUnixTimestamp64Nano(started_at)", host, `'"allocations"'`, object("bytes, toString(memory_kind)", "bytes UInt64, kind String"),
		", ',\"s\":\"t\"'") + " FROM {db}.allocations WHERE {own}"},
	{name: "device metrics", not: []string{traces, captures}, sql: "SELECT " + counter("'device'", "at", gpu,
		object("gpu_util_pct, power_w, temp_c", "busy_pct Float32, power_w Float32, temp_c Float32")) + " FROM {db}.device_metrics WHERE {own}"},
	{name: "device memory", not: []string{traces, captures}, sql: "SELECT " + counter("'memory'", "at", gpu,
		object("used_bytes", "used_bytes UInt64")) + " FROM {db}.device_metrics WHERE {own}"},
	{name: "host metrics", not: []string{traces, captures}, sql: "SELECT " + counter("'host'", "at", host,
		object("cpu_pct, ram_used_bytes", "cpu_pct Float32, ram_used_bytes UInt64")) + " FROM {db}.host_metrics WHERE {own}"},

	{name: "memory samples", sources: []string{"telemetry"}, sql: "SELECT " + counter("'memory'", "at", gpu,
		object("allocated_bytes, reserved_bytes, used_bytes", "allocated_bytes Int64, reserved_bytes Int64, used_bytes Int64")) +
		" FROM {db}.memory_samples WHERE {own}"},

	{name: "regions", sources: []string{captures}, sql: "SELECT " + slice("name", "kernel", sm, warp, object("block, warp, region",
		"block UInt32, warp UInt16, region UInt32")) + " FROM {db}.regions WHERE {own}"},
	{name: "region marks", sources: []string{captures}, sql: "SELECT " + event("i", "name", "kernel", "toUnixTimestamp64Nano(at)", sm, warp,
		object("block, warp, region", "block UInt32, warp UInt16, region UInt32"), ", ',\"s\":\"t\"'") + " FROM {db}.region_marks WHERE {own}"},
}

// SMs are processes, warps threads.
const (
	sm   = `toJSONString(concat('sm ', toString(sm)))`
	warp = `toJSONString(concat('block ', toString(block), ' warp ', toString(warp)))`
)

// async is an end of an asynchronous slice, later by some nanoseconds than it starts. Its id is made of what tells slices apart.
func async(phase, later, args string) string {
	return event(phase, "name", "category", "(toUnixTimestamp64Nano(started_at) + "+later+")", given("pid"), given("tid"), args,
		", ',\"id\":\"', hex(cityHash64(name, pid, tid, started_at, duration_ns, args)), '\"'")
}

// stalls are what samples of a kernel's instructions waited for, as shares.
const stalls = "SELECT function, toJSONString(mapApply((k, v) -> (k, round(v / greatest(total, 1), 4)), reasons)) AS shares FROM (" +
	"SELECT toString(function) AS function, sumMap(map(toString(stall_reason), samples)) AS reasons, sum(samples) AS total " +
	"FROM {db}.kernel_stalls WHERE {own} GROUP BY function)"
