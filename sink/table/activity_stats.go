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
	t := DefineRollup("sync_stats_data", "tenant, session_id, function_id, sync_type_id", true)
	return syncStatsTable{
		Table:      t,
		Head:       t.Head(),
		BucketHead: t.BucketHead(),
		FunctionID: t.U32("function_id", Codec(Rising), Note("id of the call stack in function_dict, 0 none")),
		SyncTypeID: t.U8("sync_type_id"),
		Calls:      t.U64("calls", Sum),
		TotalNS:    t.U64("total_ns", Sum, Codec(amounts)),
		MaxNS:      t.U64("max_ns", Most, Codec(amounts)),
		FactTail:   t.FactTail(),
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
	t := DefineRollup("memcpy_stats_data", "tenant, session_id, copy_kind_id", true)
	return memcpyStatsTable{
		Table:      t,
		Head:       t.Head(),
		BucketHead: t.BucketHead(),
		CopyKindID: t.U32("copy_kind_id", Note("its meaning depends on the session's vendor")),
		Calls:      t.U64("calls", Sum),
		Bytes:      t.U64("bytes", Sum, Codec(amounts)),
		TotalNS:    t.U64("total_ns", Sum, Codec(amounts)),
		MinNS:      t.U64("min_ns", Least, Codec(amounts)),
		MaxNS:      t.U64("max_ns", Most, Codec(amounts)),
		FactTail:   t.FactTail(),
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
	t := DefineRollup("pm_stats_data", "tenant, session_id, device_id, metric_id, scope_name_id", true)
	return pmStatsTable{
		Table:       t,
		Head:        t.Head(),
		BucketHead:  t.BucketHead(),
		DeviceID:    t.I32("device_id"),
		MetricID:    t.U32("metric_id", Note("id in metric_dict")),
		ScopeNameID: t.U32("scope_name_id", Note("id in scope_name_dict, 0 none")),
		Samples:     t.U64("samples", Sum),
		SumParts: t.Hist("sum_parts", SumMap, Codec("T64, ZSTD(3)"),
			Note("digits by power of ten; powers from 1000 on are those of negative values, plus 2000")),
		MinValue: t.F64("min_value", Least),
		MaxValue: t.F64("max_value", Most),
		FactTail: t.FactTail(),
	}
}()

// NegativePart is added to the power of ten of negative values in SumParts of PMStats.
const NegativePart = 2000
