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
	t := Define("graphs_data", Raw, "tenant, session_id, started_at")
	return graphsTable{
		Table:        t,
		Head:         t.Head(),
		StartedAt:    t.Time("started_at", Codec(Spread)),
		DurationNS:   t.U64("duration_ns"),
		GraphID:      t.U64("graph_id"),
		DeviceID:     t.I32("device_id"),
		StreamID:     t.U64("stream_id", Codec("ZSTD(3)")),
		CorrID:       t.U32("corr_id", Codec(Rising)),
		GraphExecKey: t.Dict("graph_exec_key", Note("joins graph_nodes, '' unknown")),
		PID:          t.U32("pid"),
		App:          t.Dict("app"),
		RawTail:      t.RawTail(),
	}
}()

// GraphNodeRow is a row of GraphNodes.
type GraphNodeRow struct {
	HeadRow
	GraphExecKey    []byte
	NodeIndex       uint32
	NodeType        uint32
	DependencyCount uint32
	ReceivedDay     int32
}

// GraphNodes holds what graphs are made of. Clients send it again and again; of several rows for one node the one of the latest chunk
// counts.
var GraphNodes = DefineRows(Define("graph_nodes_data", Fact, "tenant, session_id, graph_exec_key, node_index").LastCounts(),
	func(c *Binder[GraphNodeRow], r *GraphNodeRow) {
		c.Head(&r.HeadRow)
		c.DictBytes("graph_exec_key", &r.GraphExecKey)
		c.U32("node_index", &r.NodeIndex, Codec(Rising))
		c.U32("node_type", &r.NodeType, Note("the driver's number of the kind of node"))
		c.U32("dependency_count", &r.DependencyCount)
		c.FactTail(&r.ReceivedDay)
	})
