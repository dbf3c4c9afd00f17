package gpuflight

import "strconv"

// Memset is a memset_event line. DeviceID is -1 and StreamID 0 when the wire's text is not a number.
type Memset struct {
	PID                   uint32
	App, Name, Platform   []byte
	DeviceID              int32
	StreamID              uint64
	StackTrace, UserScope []byte
	ScopeDepth            uint32
	StartNS, EndNS        int64
	APIStartNS, APIExitNS uint64 // 0 unknown
	CorrID                uint32
	Bytes                 uint64
}

var memsetFields = []field[Memset]{
	{name: "pid", kind: KindU32, number: func(m *Memset, v int64) { m.PID = uint32(v) }},
	{name: "app", text: func(m *Memset, v []byte) { m.App = v }},
	{name: "name", text: func(m *Memset, v []byte) { m.Name = v }},
	{name: "platform", text: func(m *Memset, v []byte) { m.Platform = v }},
	{name: "device_id", kind: KindI32, quoted: func(m *Memset, v int64) { m.DeviceID = int32(v) }},
	{name: "stream_id", kind: KindU64, quoted: func(m *Memset, v int64) { m.StreamID = uint64(v) }},
	{name: "stack_trace", text: func(m *Memset, v []byte) { m.StackTrace = v }},
	{name: "user_scope", text: func(m *Memset, v []byte) { m.UserScope = v }},
	{name: "scope_depth", kind: KindU32, number: func(m *Memset, v int64) { m.ScopeDepth = uint32(v) }},
	{name: "start_ns", kind: KindI64, need: true, number: func(m *Memset, v int64) { m.StartNS = v }},
	{name: "end_ns", kind: KindI64, need: true, number: func(m *Memset, v int64) { m.EndNS = v }},
	{name: "api_start_ns", kind: KindU64, number: func(m *Memset, v int64) { m.APIStartNS = uint64(v) }},
	{name: "api_exit_ns", kind: KindU64, number: func(m *Memset, v int64) { m.APIExitNS = uint64(v) }},
	{name: "corr_id", kind: KindU32, need: true, number: func(m *Memset, v int64) { m.CorrID = uint32(v) }},
	{name: "bytes", kind: KindU64, number: func(m *Memset, v int64) { m.Bytes = uint64(v) }},
}

// Memset decodes a memset_event line.
func (d *EventDecoder) Memset(line []byte) (*Memset, error) {
	d.memset = Memset{DeviceID: -1}
	err := decodeEvent(d, line, memsetFields, &d.memset)
	return &d.memset, interval(err, d.memset.StartNS, d.memset.EndNS)
}

// interval checks a start and an end.
func interval(err error, start, end int64) error {
	switch {
	case err != nil:
		return err
	case start < 0:
		return &LineError{ReasonBadTime, "start_ns is before 1970"}
	case end < start:
		return &LineError{ReasonNegativeDuration, "end_ns is before start_ns"}
	}
	return nil
}

// instant checks a time.
func instant(err error, ns int64, name string) error {
	if err == nil && ns < 0 {
		return &LineError{ReasonBadTime, name + " is before 1970"}
	}
	return err
}

// Marker is an nvtx_marker_event line. torch ranges are named torch::<op>@<file>:<line>.
type Marker struct {
	PID               uint32
	App, Name, Domain []byte
	StartNS, EndNS    int64
	DurationNS        uint64
	MarkerID          uint64
}

var markerFields = []field[Marker]{
	{name: "pid", kind: KindU32, number: func(m *Marker, v int64) { m.PID = uint32(v) }},
	{name: "app", text: func(m *Marker, v []byte) { m.App = v }},
	{name: "name", text: func(m *Marker, v []byte) { m.Name = v }},
	{name: "domain", text: func(m *Marker, v []byte) { m.Domain = v }},
	{name: "start_ns", kind: KindI64, need: true, number: func(m *Marker, v int64) { m.StartNS = v }},
	{name: "end_ns", kind: KindI64, need: true, number: func(m *Marker, v int64) { m.EndNS = v }},
	{name: "duration_ns", kind: KindDuration, number: func(m *Marker, v int64) { m.DurationNS = uint64(v) }},
	{name: "marker_id", kind: KindU64, number: func(m *Marker, v int64) { m.MarkerID = uint64(v) }},
}

// absentDuration cannot be on the wire: durations end at 2^63-1.
const absentDuration = ^uint64(0)

// Marker decodes an nvtx_marker_event line. A duration that is absent is the difference of the times.
func (d *EventDecoder) Marker(line []byte) (*Marker, error) {
	m := &d.marker
	*m = Marker{DurationNS: absentDuration}
	err := interval(decodeEvent(d, line, markerFields, m), m.StartNS, m.EndNS)
	if m.DurationNS == absentDuration {
		m.DurationNS = uint64(m.EndNS - m.StartNS)
	}
	return m, err
}

// GraphLaunch is a graph_launch_event line.
type GraphLaunch struct {
	PID            uint32
	App            []byte
	StartNS, EndNS int64
	DurationNS     uint64
	GraphID        uint64
	DeviceID       int32
	StreamID       uint64
	CorrID         uint32
	ExecKey        []byte // "0x…", empty where the client does not know it
}

var graphLaunchFields = []field[GraphLaunch]{
	{name: "pid", kind: KindU32, number: func(g *GraphLaunch, v int64) { g.PID = uint32(v) }},
	{name: "app", text: func(g *GraphLaunch, v []byte) { g.App = v }},
	{name: "start_ns", kind: KindI64, need: true, number: func(g *GraphLaunch, v int64) { g.StartNS = v }},
	{name: "end_ns", kind: KindI64, need: true, number: func(g *GraphLaunch, v int64) { g.EndNS = v }},
	{name: "duration_ns", kind: KindDuration, number: func(g *GraphLaunch, v int64) { g.DurationNS = uint64(v) }},
	{name: "graph_id", kind: KindU64, need: true, number: func(g *GraphLaunch, v int64) { g.GraphID = uint64(v) }},
	{name: "device_id", kind: KindI32, number: func(g *GraphLaunch, v int64) { g.DeviceID = int32(v) }},
	{name: "stream_id", kind: KindU64, number: func(g *GraphLaunch, v int64) { g.StreamID = uint64(v) }},
	{name: "corr_id", kind: KindU32, need: true, number: func(g *GraphLaunch, v int64) { g.CorrID = uint32(v) }},
	{name: "graph_exec_key", text: func(g *GraphLaunch, v []byte) { g.ExecKey = v }},
}

// GraphLaunch decodes a graph_launch_event line. A duration that is absent is the difference of the times.
func (d *EventDecoder) GraphLaunch(line []byte) (*GraphLaunch, error) {
	g := &d.graph
	*g = GraphLaunch{DurationNS: absentDuration}
	err := interval(decodeEvent(d, line, graphLaunchFields, g), g.StartNS, g.EndNS)
	if g.DurationNS == absentDuration {
		g.DurationNS = uint64(g.EndNS - g.StartNS)
	}
	return g, err
}

// GraphNode is a graph_node_definition line. The client writes all of them again in each segment.
type GraphNode struct {
	ExecKey                           []byte
	NodeIndex, NodeType, Dependencies uint32
}

var graphNodeFields = []field[GraphNode]{
	{name: "graph_exec_key", need: true, text: func(g *GraphNode, v []byte) { g.ExecKey = v }},
	{name: "node_index", kind: KindU32, need: true, number: func(g *GraphNode, v int64) { g.NodeIndex = uint32(v) }},
	{name: "node_type", kind: KindU32, number: func(g *GraphNode, v int64) { g.NodeType = uint32(v) }},
	{name: "dependency_count", kind: KindU32, number: func(g *GraphNode, v int64) { g.Dependencies = uint32(v) }},
}

// GraphNode decodes a graph_node_definition line.
func (d *EventDecoder) GraphNode(line []byte) (*GraphNode, error) {
	d.node = GraphNode{}
	err := decodeEvent(d, line, graphNodeFields, &d.node)
	return &d.node, err
}

// PMConfig is a pm_sampling_config line.
type PMConfig struct {
	TimeNS     int64
	DeviceID   int32
	IntervalUS uint64
	MaxSamples uint64
	Preset     []byte
	Metrics    []string
}

var pmConfigFields = []field[PMConfig]{
	{name: "ts_ns", kind: KindI64, need: true, number: func(c *PMConfig, v int64) { c.TimeNS = v }},
	{name: "device_id", kind: KindI32, number: func(c *PMConfig, v int64) { c.DeviceID = int32(v) }},
	{name: "interval_us", kind: KindU64, number: func(c *PMConfig, v int64) { c.IntervalUS = uint64(v) }},
	{name: "max_samples", kind: KindU64, number: func(c *PMConfig, v int64) { c.MaxSamples = uint64(v) }},
	{name: "preset", text: func(c *PMConfig, v []byte) { c.Preset = v }},
	{name: "metrics", list: func(c *PMConfig, v []string) { c.Metrics = v }},
}

// PMConfig decodes a pm_sampling_config line.
func (d *EventDecoder) PMConfig(line []byte) (*PMConfig, error) {
	d.pmConfig = PMConfig{}
	err := decodeEvent(d, line, pmConfigFields, &d.pmConfig)
	return &d.pmConfig, instant(err, d.pmConfig.TimeNS, "ts_ns")
}

// SassSetup is a sass_config line: which instruction metrics a device counts, and which it could not.
type SassSetup struct {
	TimeNS              int64
	DeviceID            int32
	Configured, Skipped []string
}

var sassFields = []field[SassSetup]{
	{name: "ts_ns", kind: KindI64, need: true, number: func(c *SassSetup, v int64) { c.TimeNS = v }},
	{name: "device_id", kind: KindI32, number: func(c *SassSetup, v int64) { c.DeviceID = int32(v) }},
	{name: "configured_metrics", list: func(c *SassSetup, v []string) { c.Configured = v }},
	{name: "skipped_metrics", list: func(c *SassSetup, v []string) { c.Skipped = v }},
}

// SassSetup decodes a sass_config line.
func (d *EventDecoder) SassSetup(line []byte) (*SassSetup, error) {
	d.sass = SassSetup{}
	err := decodeEvent(d, line, sassFields, &d.sass)
	return &d.sass, instant(err, d.sass.TimeNS, "ts_ns")
}

// Signature is an execution_signature line: passes of one analysis whose signatures for a scope are equal ran the same kernels there.
type Signature struct {
	TimeNS          int64
	Scope           []byte // a path, empty for all of the program
	Signature       uint64
	LaunchCount     uint64
	DistinctKernels uint64

	text []byte
}

var signatureFields = []field[Signature]{
	{name: "ts_ns", kind: KindI64, need: true, number: func(s *Signature, v int64) { s.TimeNS = v }},
	{name: "scope_name", text: func(s *Signature, v []byte) { s.Scope = v }},
	{name: "signature", need: true, text: func(s *Signature, v []byte) { s.text = v }},
	{name: "launch_count", kind: KindU64, number: func(s *Signature, v int64) { s.LaunchCount = uint64(v) }},
	{name: "distinct_kernels", kind: KindU64, number: func(s *Signature, v int64) { s.DistinctKernels = uint64(v) }},
}

// Signature decodes an execution_signature line.
func (d *EventDecoder) Signature(line []byte) (*Signature, error) {
	s := &d.signature
	*s = Signature{}
	if err := decodeEvent(d, line, signatureFields, s); err != nil {
		return s, err
	}
	var err error
	if s.Signature, err = strconv.ParseUint(string(s.text), 10, 64); err != nil {
		return s, &LineError{ReasonBadValue, "signature is not an unsigned 64-bit integer in a string"}
	}
	return s, instant(nil, s.TimeNS, "ts_ns")
}
