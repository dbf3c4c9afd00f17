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
	t := DefineRollup("kernel_stats_data", "tenant, session_id, kernel_id, scope", true)
	return kernelStatsTable{
		Table:        t,
		Head:         t.Head(),
		BucketHead:   t.BucketHead(),
		KernelID:     t.U32("kernel_id", Codec(Rising)),
		Scope:        t.Dict("scope"),
		Kernel:       t.Dict("kernel", Most, Codec("ZSTD(9)")),
		Calls:        t.U64("calls", Sum),
		TotalNS:      t.U64("total_ns", Sum, Codec(amounts)),
		MinNS:        t.U64("min_ns", Least, Codec(amounts)),
		MaxNS:        t.U64("max_ns", Most, Codec(amounts)),
		DurationHist: t.Hist("duration_hist", SumMap, Note("buckets of package hist")),
		FactTail:     t.FactTail(),
	}
}()
