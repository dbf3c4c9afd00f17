package table

type graphsTable struct {
	*Table
	Head
	StartedAt    TimeCol
	DurationNS   U64Col
	GraphID      U64Col
	DeviceID     I32Col
	StreamID     U64Col
	CorrID       U32Col
	GraphExecKey DictCol
	PID          U32Col
	App          DictCol
	RawTail
}

// Graphs holds one row for each time a graph was launched.
var Graphs = func() graphsTable {
	t := define("graphs_data", Raw, "tenant, session_id, started_at")
	return graphsTable{
		Table:        t,
		Head:         t.head(),
		StartedAt:    t.time("started_at", codec(spread)),
		DurationNS:   t.u64("duration_ns"),
		GraphID:      t.u64("graph_id"),
		DeviceID:     t.i32("device_id"),
		StreamID:     t.u64("stream_id", codec("ZSTD(3)")),
		CorrID:       t.u32("corr_id", codec(rising)),
		GraphExecKey: t.dict("graph_exec_key", note("joins graph_nodes, '' unknown")),
		PID:          t.u32("pid"),
		App:          t.dict("app"),
		RawTail:      t.rawTail(),
	}
}()

type graphNodesTable struct {
	*Table
	Head
	GraphExecKey    DictCol
	NodeIndex       U32Col
	NodeType        U32Col
	DependencyCount U32Col
	FactTail
}

// GraphNodes holds what graphs are made of. Clients say it again and again; of several rows for one node the latest chunk counts.
var GraphNodes = func() graphNodesTable {
	t := define("graph_nodes_data", Fact, "tenant, session_id, graph_exec_key, node_index")
	t.Engine = "ReplacingMergeTree(chunk)"
	return graphNodesTable{
		Table:           t,
		Head:            t.head(),
		GraphExecKey:    t.dict("graph_exec_key"),
		NodeIndex:       t.u32("node_index", codec(rising)),
		NodeType:        t.u32("node_type", note("the driver's number of the kind of node")),
		DependencyCount: t.u32("dependency_count"),
		FactTail:        t.factTail(),
	}
}()
