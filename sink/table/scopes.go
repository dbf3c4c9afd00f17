package table

type scopesTable struct {
	*Table
	Head
	InstanceID U64Col
	Name       DictCol
	NameID     U32Col
	Path       DictCol
	Depth      U32Col
	StartedAt  TimeCol
	DurationNS U64Col
	Matched    U8Col
	Repeat     U32Col
	Warmup     U32Col
	Continued  U8Col
	Cut        U8Col
	RawTail
}

// Scopes holds one row for each scope that was entered.
var Scopes = func() scopesTable {
	t := define("scopes_data", Raw, "tenant, session_id, started_at")
	return scopesTable{
		Table:      t,
		Head:       t.head(),
		InstanceID: t.u64("instance_id", codec(rising)),
		Name:       t.dict("name"),
		NameID:     t.u32("name_id", note("id in scope_name_dict")),
		Path:       t.dict("path", note("names from the outermost scope on")),
		Depth:      t.u32("depth"),
		StartedAt:  t.time("started_at", codec(spread)),
		DurationNS: t.u64("duration_ns", codec("ZSTD(3)"), note("ended_at less started_at")),
		Matched:    t.u8("matched", note("1 when both ends were seen")),
		Repeat:     t.u32("repeat"),
		Warmup:     t.u32("warmup"),
		Continued:  t.u8("continued", note("1 when it began in an earlier segment of the run")),
		Cut:        t.u8("cut", note("1 when it goes on in the next segment")),
		RawTail:    t.rawTail(),
	}
}()

type scopeStatsTable struct {
	*Table
	Head
	BucketHead
	NameID         U32Col
	Scope          DictCol
	Calls          U64Col
	TotalNS        U64Col
	MinNS          U64Col
	MaxNS          U64Col
	DurationHist   HistCol
	UnmatchedBegin U64Col
	UnmatchedEnd   U64Col
	ChildNS        U64Col
	FactTail
}

// ScopeStats adds up scopes by name and minute. MinNS of a row without calls is NoMin.
var ScopeStats = func() scopeStatsTable {
	t := aggregate("scope_stats_data", "tenant, session_id, name_id", true)
	return scopeStatsTable{
		Table:          t,
		Head:           t.head(),
		BucketHead:     t.bucketHead(),
		NameID:         t.u32("name_id", codec(rising)),
		Scope:          t.dict("scope", most),
		Calls:          t.u64("calls", sum),
		TotalNS:        t.u64("total_ns", sum),
		MinNS:          t.u64("min_ns", least, note("the largest UInt64 where calls is 0")),
		MaxNS:          t.u64("max_ns", most),
		DurationHist:   t.hist("duration_hist", sumMap),
		UnmatchedBegin: t.u64("unmatched_begin", sum),
		UnmatchedEnd:   t.u64("unmatched_end", sum),
		ChildNS:        t.u64("child_ns", sum, note("time of direct children, part of total_ns")),
		FactTail:       t.factTail(),
	}
}()
