package table

type syncStatsTable struct {
	*Table
	Head
	BucketHead
	FunctionID U32Col
	SyncTypeID U8Col
	Calls      U64Col
	TotalNS    U64Col
	MaxNS      U64Col
	FactTail
}

// SyncStats adds up Syncs by call stack, type and minute.
var SyncStats = func() syncStatsTable {
	t := aggregate("sync_stats_data", "tenant, session_id, function_id, sync_type_id", true)
	return syncStatsTable{
		Table:      t,
		Head:       t.head(),
		BucketHead: t.bucketHead(),
		FunctionID: t.u32("function_id", codec(rising), note("id of the call stack in function_dict, 0 none")),
		SyncTypeID: t.u8("sync_type_id"),
		Calls:      t.u64("calls", sum),
		TotalNS:    t.u64("total_ns", sum, codec(amounts)),
		MaxNS:      t.u64("max_ns", most, codec(amounts)),
		FactTail:   t.factTail(),
	}
}()

type memcpyStatsTable struct {
	*Table
	Head
	BucketHead
	CopyKindID U32Col
	Calls      U64Col
	Bytes      U64Col
	TotalNS    U64Col
	MinNS      U64Col
	MaxNS      U64Col
	FactTail
}

// MemcpyStats adds up Memcpys by kind and minute.
var MemcpyStats = func() memcpyStatsTable {
	t := aggregate("memcpy_stats_data", "tenant, session_id, copy_kind_id", true)
	return memcpyStatsTable{
		Table:      t,
		Head:       t.head(),
		BucketHead: t.bucketHead(),
		CopyKindID: t.u32("copy_kind_id", note("its meaning depends on the session's vendor")),
		Calls:      t.u64("calls", sum),
		Bytes:      t.u64("bytes", sum, codec(amounts)),
		TotalNS:    t.u64("total_ns", sum, codec(amounts)),
		MinNS:      t.u64("min_ns", least, codec(amounts)),
		MaxNS:      t.u64("max_ns", most, codec(amounts)),
		FactTail:   t.factTail(),
	}
}()

type pmStatsTable struct {
	*Table
	Head
	BucketHead
	DeviceID    I32Col
	MetricID    U32Col
	ScopeNameID U32Col
	Samples     U64Col
	SumParts    HistCol
	MinValue    F64Col
	MaxValue    F64Col
	FactTail
}

// PMStats adds up PMSamples by device, metric, scope and minute.
//
// SumParts is the sum in parts that add up exactly in any order, which floating-point sums do not: each value is a whole number of at
// most nine digits times a power of ten, and the numbers of one power are added under key = power, or under power + NegativePart when
// they are below zero. Values with more than nine significant digits are rounded to nine; the client writes six.
var PMStats = func() pmStatsTable {
	t := aggregate("pm_stats_data", "tenant, session_id, device_id, metric_id, scope_name_id", true)
	return pmStatsTable{
		Table:       t,
		Head:        t.head(),
		BucketHead:  t.bucketHead(),
		DeviceID:    t.i32("device_id"),
		MetricID:    t.u32("metric_id", note("id in metric_dict")),
		ScopeNameID: t.u32("scope_name_id", note("id in scope_name_dict, 0 none")),
		Samples:     t.u64("samples", sum),
		SumParts:    t.hist("sum_parts", sumMap, codec("T64, ZSTD(3)"), note("digits by power of ten; powers from 1000 on are those of negative values, plus 2000")),
		MinValue:    t.f64("min_value", least),
		MaxValue:    t.f64("max_value", most),
		FactTail:    t.factTail(),
	}
}()

// NegativePart is added to the power of ten of negative values in SumParts of PMStats.
const NegativePart = 2000
