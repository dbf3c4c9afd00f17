package table

type kernelStatsTable struct {
	*Table
	Head
	BucketHead
	KernelID     U32Col
	Scope        DictCol
	Kernel       DictCol
	Calls        U64Col
	TotalNS      U64Col
	MinNS        U64Col
	MaxNS        U64Col
	DurationHist HistCol
	FactTail
}

// KernelStats adds up kernels by name, scope and minute.
var KernelStats = func() kernelStatsTable {
	t := aggregate("kernel_stats_data", "tenant, session_id, kernel_id, scope", true)
	return kernelStatsTable{
		Table:        t,
		Head:         t.head(),
		BucketHead:   t.bucketHead(),
		KernelID:     t.u32("kernel_id", codec(rising)),
		Scope:        t.dict("scope"),
		Kernel:       t.dict("kernel", most, codec("ZSTD(9)")),
		Calls:        t.u64("calls", sum),
		TotalNS:      t.u64("total_ns", sum, codec(amounts)),
		MinNS:        t.u64("min_ns", least, codec(amounts)),
		MaxNS:        t.u64("max_ns", most, codec(amounts)),
		DurationHist: t.hist("duration_hist", sumMap, note("buckets of package hist")),
		FactTail:     t.factTail(),
	}
}()
