package trace

import "github.com/warpline/warpline/sink/table"

type slicesTable struct {
	*table.Table
	table.Head
	StartedAt   table.TimeCol
	DurationNS  table.U64Col
	Phase       table.DictCol
	Kind        table.DictCol
	Category    table.DictCol
	Name        table.DictCol
	PID         table.DictCol
	TID         table.DictCol
	Track       table.DictCol
	DeviceID    table.I32Col
	StreamID    table.I64Col
	Correlation table.U64Col
	ExternalID  table.U64Col
	Args        table.StrCol
	table.RawTail
}

// Slices holds one row for each slice and each instant of a trace.
var Slices = func() slicesTable {
	t := table.Define("trace_slices_data", table.Raw, "tenant, session_id, started_at")
	return slicesTable{
		Table:      t,
		Head:       t.Head(),
		StartedAt:  t.Time("started_at", table.Codec(table.Spread)),
		DurationNS: t.U64("duration_ns", table.Note("0 of an instant, and of a begin that never ended")),
		Phase: t.Dict("phase", table.Note("X; BE, a begin with its end, B without; be and b the same of asynchronous ones; i, n and R "+
			"instants: of a thread, asynchronous, other marks")),
		Kind: t.Dict("kind", table.Note("by the category: kernel, memcpy, memset, sync, runtime, driver, op, annotation, gpu_annotation, "+
			"python, overhead, memory, or ''")),
		Category: t.Dict("category", table.Note("cat, as it stands")),
		Name:     t.Dict("name"),
		PID:      t.Dict("pid", table.Note("as text: 7 and \"7\" are one")),
		TID:      t.Dict("tid", table.Note("as pid")),
		Track:    t.Dict("track", table.Note("name of the thread, '' unknown")),
		DeviceID: t.I32("device_id", table.Note("-1 unknown, and of slices of the host")),
		StreamID: t.I64("stream_id", table.Note("-1 unknown, and of slices of the host that name none")),
		Correlation: t.U64("correlation", table.Codec("Delta, T64, ZSTD(1)"),
			table.Note("what a launch and what it launched have in common, 0 none")),
		ExternalID: t.U64("external_id", table.Codec("Delta, T64, ZSTD(1)"),
			table.Note("External id: of the op; in old files the correlation; 0 none")),
		Args:    t.Str("args", table.Codec("ZSTD(3)"), table.Note("JSON without needless space, '' none")),
		RawTail: t.RawTail(),
	}
}()

type countersTable struct {
	*table.Table
	table.Head
	At       table.TimeCol
	Category table.DictCol
	Name     table.DictCol
	PID      table.DictCol
	TID      table.DictCol
	Series   table.DictCol
	Value    table.F64Col
	table.RawTail
}

// Counters holds one row for each value of a counter.
var Counters = func() countersTable {
	t := table.Define("trace_counters_data", table.Raw, "tenant, session_id, name, series, at")
	return countersTable{
		Table:    t,
		Head:     t.Head(),
		At:       t.Time("at", table.Codec(table.Spread)),
		Category: t.Dict("category"),
		Name:     t.Dict("name"),
		PID:      t.Dict("pid"),
		TID:      t.Dict("tid"),
		Series:   t.Dict("series", table.Note("which of the counter's values")),
		Value:    t.F64("value"),
		RawTail:  t.RawTail(),
	}
}()
