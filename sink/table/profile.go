package table

type pCSamplesTable struct {
	*Table
	Head
	BucketHead
	Cubin       DictCol
	BuildID     DictCol
	Function    DictCol
	FunctionID  U32Col
	PCOffset    U64Col
	StallReason DictCol
	MetricID    U32Col
	PeriodNS    U64Col
	Scope       DictCol
	ScopeID     U32Col
	DeviceID    I32Col
	File        DictCol
	FileID      U32Col
	Line        U32Col
	Samples     U64Col
	GPUNS       U64Col
	Hits        U64Col
	FactTail
}

// PCSamples adds up program counter samples by place, stall reason and minute.
var PCSamples = func() pCSamplesTable {
	t := DefineRollup("pc_samples_data", "tenant, session_id, cubin, build_id, function_id, function, pc_offset, metric_id, "+
		"stall_reason, scope_id, scope, device_id", true)
	return pCSamplesTable{
		Table:       t,
		Head:        t.Head(),
		BucketHead:  t.BucketHead(Codec("GCD, ZSTD(1)")),
		Cubin:       t.Dict("cubin"),
		BuildID:     t.Dict("build_id"),
		Function:    t.Dict("function", Note("without its @file, '' while it is not known")),
		FunctionID:  t.U32("function_id", Codec(Rising), Note("id in function_dict")),
		PCOffset:    t.U64("pc_offset", Codec(offsets)),
		StallReason: t.Dict("stall_reason", Codec("ZSTD(9)"), Note("full wire name")),
		MetricID:    t.U32("metric_id", Codec(same), Note("id in metric_dict while the name is not known, else 0")),
		PeriodNS:    t.U64("period_ns", Most, Codec(same)),
		Scope:       t.Dict("scope"),
		ScopeID:     t.U32("scope_id", Codec(same)),
		DeviceID:    t.I32("device_id", Codec(same), Note("-1 unknown")),
		File:        t.Dict("file", Most),
		FileID:      t.U32("file_id", Most, Codec(Rising)),
		Line:        t.U32("line", Most, Codec(lines)),
		Samples:     t.U64("samples", Sum),
		GPUNS:       t.U64("gpu_ns", Sum, Codec(same), Note("an estimate: samples × period")),
		Hits:        t.U64("hits", Sum, Codec("ZSTD(3)"), Note("wire rows added")),
		FactTail:    t.FactTail(),
	}
}()

type profileMetricsTable struct {
	*Table
	Head
	BucketHead
	Function    DictCol
	FunctionID  U32Col
	PCOffset    U64Col
	MetricName  DictCol
	MetricID    U32Col
	Scope       DictCol
	ScopeID     U32Col
	DeviceID    I32Col
	File        DictCol
	FileID      U32Col
	Line        U32Col
	MetricValue U64Col
	Hits        U64Col
	FactTail
}

// ProfileMetrics adds up instruction metrics by place and minute.
var ProfileMetrics = func() profileMetricsTable {
	t := DefineRollup("profile_metrics_data", "tenant, session_id, function_id, function, pc_offset, metric_id, metric_name, "+
		"scope_id, scope, device_id", true)
	return profileMetricsTable{
		Table:       t,
		Head:        t.Head(),
		BucketHead:  t.BucketHead(),
		Function:    t.Dict("function"),
		FunctionID:  t.U32("function_id", Codec(Rising), Note("id in function_dict")),
		PCOffset:    t.U64("pc_offset", Codec(Rising)),
		MetricName:  t.Dict("metric_name"),
		MetricID:    t.U32("metric_id", Note("id in metric_dict while the name is not known, else 0")),
		Scope:       t.Dict("scope"),
		ScopeID:     t.U32("scope_id"),
		DeviceID:    t.I32("device_id", Note("-1 unknown")),
		File:        t.Dict("file", Most),
		FileID:      t.U32("file_id", Most, Codec(Rising)),
		Line:        t.U32("line", Most, Codec(regular)),
		MetricValue: t.U64("metric_value", Sum),
		Hits:        t.U64("hits", Sum, Codec("ZSTD(3)"), Note("wire rows added")),
		FactTail:    t.FactTail(),
	}
}()

type sourceMapTable struct {
	*Table
	Head
	Function   DictCol
	FunctionID U32Col
	PCOffset   U64Col
	File       DictCol
	FileID     U32Col
	Line       U32Col
	Hits       U64Col
	FactTail
}

// SourceMap says which line an instruction came from.
var SourceMap = func() sourceMapTable {
	t := DefineRollup("source_map_data", "tenant, session_id, function_id, function, pc_offset, file_id, file, line", false)
	return sourceMapTable{
		Table:      t,
		Head:       t.Head(),
		Function:   t.Dict("function"),
		FunctionID: t.U32("function_id", Codec(Rising), Note("id in function_dict")),
		PCOffset:   t.U64("pc_offset", Codec(Rising)),
		File:       t.Dict("file"),
		FileID:     t.U32("file_id", Note("id in source_file_dict")),
		Line:       t.U32("line"),
		Hits:       t.U64("hits", Sum, Codec("ZSTD(3)")),
		FactTail:   t.FactTail(),
	}
}()
