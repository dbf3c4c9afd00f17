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
	t := aggregate("pc_samples_data", "tenant, session_id, cubin, build_id, function_id, function, pc_offset, metric_id, stall_reason, scope_id, scope, device_id", true)
	return pCSamplesTable{
		Table:       t,
		Head:        t.head(),
		BucketHead:  t.bucketHead(codec("GCD, ZSTD(1)")),
		Cubin:       t.dict("cubin"),
		BuildID:     t.dict("build_id"),
		Function:    t.dict("function", note("without its @file, '' while it is not known")),
		FunctionID:  t.u32("function_id", codec(rising), note("id in function_dict")),
		PCOffset:    t.u64("pc_offset", codec(rising)),
		StallReason: t.dict("stall_reason", note("full wire name")),
		MetricID:    t.u32("metric_id", note("id in metric_dict while the name is not known, else 0")),
		PeriodNS:    t.u64("period_ns", most),
		Scope:       t.dict("scope"),
		ScopeID:     t.u32("scope_id"),
		DeviceID:    t.i32("device_id", note("-1 unknown")),
		File:        t.dict("file", most),
		FileID:      t.u32("file_id", most, codec(rising)),
		Line:        t.u32("line", most, codec(regular)),
		Samples:     t.u64("samples", sum),
		GPUNS:       t.u64("gpu_ns", sum),
		Hits:        t.u64("hits", sum, codec("ZSTD(3)"), note("wire rows added")),
		FactTail:    t.factTail(),
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
	t := aggregate("profile_metrics_data", "tenant, session_id, function_id, function, pc_offset, metric_id, metric_name, scope_id, scope, device_id", true)
	return profileMetricsTable{
		Table:       t,
		Head:        t.head(),
		BucketHead:  t.bucketHead(),
		Function:    t.dict("function"),
		FunctionID:  t.u32("function_id", codec(rising), note("id in function_dict")),
		PCOffset:    t.u64("pc_offset", codec(rising)),
		MetricName:  t.dict("metric_name"),
		MetricID:    t.u32("metric_id", note("id in metric_dict while the name is not known, else 0")),
		Scope:       t.dict("scope"),
		ScopeID:     t.u32("scope_id"),
		DeviceID:    t.i32("device_id", note("-1 unknown")),
		File:        t.dict("file", most),
		FileID:      t.u32("file_id", most, codec(rising)),
		Line:        t.u32("line", most, codec(regular)),
		MetricValue: t.u64("metric_value", sum),
		Hits:        t.u64("hits", sum, codec("ZSTD(3)"), note("wire rows added")),
		FactTail:    t.factTail(),
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
	t := aggregate("source_map_data", "tenant, session_id, function_id, function, pc_offset, file_id, file, line", false)
	return sourceMapTable{
		Table:      t,
		Head:       t.head(),
		Function:   t.dict("function"),
		FunctionID: t.u32("function_id", codec(rising), note("id in function_dict")),
		PCOffset:   t.u64("pc_offset", codec(rising)),
		File:       t.dict("file"),
		FileID:     t.u32("file_id", note("id in source_file_dict")),
		Line:       t.u32("line"),
		Hits:       t.u64("hits", sum, codec("ZSTD(3)")),
		FactTail:   t.factTail(),
	}
}()
