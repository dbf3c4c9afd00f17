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
	t := Define("scopes_data", Raw, "tenant, session_id, started_at")
	return scopesTable{
		Table:      t,
		Head:       t.Head(),
		InstanceID: t.U64("instance_id", Codec("Delta, ZSTD(3)")),
		Name:       t.Dict("name", Codec("ZSTD(3)"), Note(restNote)),
		NameID:     t.U32("name_id", Codec("ZSTD(3)"), Note("id in scope_name_dict")),
		Path:       t.Dict("path", Codec("ZSTD(3)"), Note("names from the outermost scope on")),
		Depth:      t.U32("depth"),
		StartedAt:  t.Time("started_at", Codec(near)),
		DurationNS: t.U64("duration_ns", Codec("T64, Delta(1), ZSTD(1)"), Note("ended_at less started_at")),
		Matched:    t.U8("matched", Note("1 when both ends were seen")),
		Repeat:     t.U32("repeat"),
		Warmup:     t.U32("warmup"),
		Continued:  t.U8("continued", Note("1 when it began in an earlier segment of the run")),
		Cut:        t.U8("cut", Note("1 when it goes on in the next segment")),
		RawTail:    t.RawTail(),
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
	t := DefineRollup("scope_stats_data", "tenant, session_id, name_id", true)
	return scopeStatsTable{
		Table:          t,
		Head:           t.Head(),
		BucketHead:     t.BucketHead(),
		NameID:         t.U32("name_id", Codec(Rising)),
		Scope:          t.Dict("scope", Most, Note(restNote)),
		Calls:          t.U64("calls", Sum),
		TotalNS:        t.U64("total_ns", Sum, Codec("ZSTD(3)")),
		MinNS:          t.U64("min_ns", Least, Codec("ZSTD(3)"), Note("the largest UInt64 where calls is 0")),
		MaxNS:          t.U64("max_ns", Most, Codec("ZSTD(3)")),
		DurationHist:   t.Hist("duration_hist", SumMap),
		UnmatchedBegin: t.U64("unmatched_begin", Sum),
		UnmatchedEnd:   t.U64("unmatched_end", Sum),
		ChildNS:        t.U64("child_ns", Sum, Note("time of direct children, part of total_ns")),
		FactTail:       t.FactTail(),
	}
}()
