package table

type pCBucketsTable struct {
	*Table
	Head
	BucketHead
	Cubin       DictCol
	BuildID     DictCol
	Function    DictCol
	Demangled   DictCol
	PCOffset    U64Col
	SASS        DictCol
	StallReason DictCol
	PeriodNS    U64Col
	DeviceID    I32Col
	ContentID
	Samples U64Col
	GPUNS   U64Col
	Hits    U64Col
	FactTail
}

// PCBuckets adds up program counter samples whose rows name everything themselves, by place, opcode, stall reason, period, launch stack
// and minute. It is a table beside [PCSamples] because a sort key cannot get columns later.
var PCBuckets = func() pCBucketsTable {
	t := DefineRollup("pc_buckets_data", "tenant, session_id, build_id, cubin, function, pc_offset, stall_reason, sass, period_ns, "+
		"device_id, content_hi, content_lo", true)
	return pCBucketsTable{
		Table:       t,
		Head:        t.Head(),
		BucketHead:  t.BucketHead(Codec("GCD, ZSTD(1)")),
		Cubin:       t.Dict("cubin", Note("cubin-<16 hex of its CRC>")),
		BuildID:     t.Dict("build_id"),
		Function:    t.Dict("function", Note("as on the wire: mangled, at most 127 characters")),
		Demangled:   t.Dict("demangled", Most),
		PCOffset:    t.U64("pc_offset", Codec(Rising)),
		SASS:        t.Dict("sass", Note("opcode, '' when the client does not say")),
		StallReason: t.Dict("stall_reason", Note("full wire name")),
		PeriodNS:    t.U64("period_ns", Note("nominal nanoseconds a sample, 0 unknown")),
		DeviceID:    t.I32("device_id", Note("-1 unknown")),
		ContentID:   t.contentID(),
		Samples:     t.U64("samples", Sum),
		GPUNS:       t.U64("gpu_ns", Sum, Note("an estimate: samples × period_ns")),
		Hits:        t.U64("hits", Sum, Codec("ZSTD(3)"), Note("wire rows added")),
		FactTail:    t.FactTail(),
	}
}()

// StackNotKept is the low half of the content of samples whose key keeps launch stacks out; the high half is 0. Samples without a stack
// have 0 in both.
const StackNotKept = 1

type pCCubinsTable struct {
	*Table
	Head
	BucketHead
	BuildID DictCol
	Cubin   DictCol
	Samples U64Col
	FactTail
}

// PCCubins adds up samples by cubin and minute: what cubins a tenant's samples name, and since when, for all views that look for lines and
// for who renews them. It has some rows for each thousand of [PCBuckets].
var PCCubins = func() pCCubinsTable {
	t := DefineRollup("pc_cubins_data", "tenant, session_id, build_id, cubin", true)
	return pCCubinsTable{
		Table:      t,
		Head:       t.Head(),
		BucketHead: t.BucketHead(Codec("GCD, ZSTD(1)")),
		BuildID:    t.Dict("build_id"),
		Cubin:      t.Dict("cubin", Note("cubin-<16 hex of its CRC>")),
		Samples:    t.U64("samples", Sum, Note("of all reasons")),
		FactTail:   t.FactTail(),
	}
}()

type kernelStacksTable struct {
	*Table
	Head
	BucketHead
	Function DictCol
	ContentID
	Calls    U64Col
	KernelNS U64Col
	FactTail
}

// KernelStacks adds up kernels by the stack that launched them.
var KernelStacks = func() kernelStacksTable {
	t := DefineRollup("kernel_stacks_data", "tenant, session_id, function, content_hi, content_lo", true)
	return kernelStacksTable{
		Table:      t,
		Head:       t.Head(),
		BucketHead: t.BucketHead(Codec("GCD, ZSTD(1)")),
		Function:   t.Dict("function", Note("as on the wire")),
		ContentID:  t.contentID(),
		Calls:      t.U64("calls", Sum, Note("kernels")),
		KernelNS:   t.U64("kernel_ns", Sum, Note("their durations, measured")),
		FactTail:   t.FactTail(),
	}
}()

// SessionStackRow is a row of SessionStacks.
type SessionStackRow struct {
	HeadRow
	ContentHi   uint64
	ContentLo   uint64
	ReceivedDay int32
}

// SessionStacks says which launch stacks a session has.
var SessionStacks = DefineRows(Define("session_stacks_data", Fact, "tenant, session_id, content_hi, content_lo").LastCounts(),
	func(c *Binder[SessionStackRow], r *SessionStackRow) {
		c.Head(&r.HeadRow)
		c.contentID(&r.ContentHi, &r.ContentLo)
		c.FactTail(&r.ReceivedDay)
	})

type stackFramesTable struct {
	*Table
	Tenant DictCol
	ContentID
	Frames StrCol
	FactTail
}

// StackFrames holds launch stacks, once per content.
var StackFrames = func() stackFramesTable {
	t := defineContent("stack_frames_data", "session_stacks_data", "")
	return stackFramesTable{
		Table:     t,
		Tenant:    t.Dict("tenant"),
		ContentID: t.contentID(),
		Frames:    t.Str("frames", Codec("ZSTD(3)"), Note("a line each, innermost first")),
		FactTail:  t.FactTail(),
	}
}()

// CubinRow is a row of Cubins.
type CubinRow struct {
	HeadRow
	BuildID     string
	Whole       uint8
	Status      string
	Detail      string
	SM          uint32
	SizeBytes   uint64
	Functions   uint32
	Lines       uint32
	UploadedAt  int64
	ReceivedDay int32
}

// Cubins holds the cubins that were uploaded, each as it was read.
var Cubins = DefineRows(Define("cubins_data", Fact, "tenant, session_id, build_id, whole").LastCounts(),
	func(c *Binder[CubinRow], r *CubinRow) {
		c.Head(&r.HeadRow)
		c.Dict("build_id", &r.BuildID)
		c.U8("whole", &r.Whole, Note("1 a cubin as the driver loads it, 0 stripped by the agent"))
		c.Dict("status", &r.Status, Note("ok, no_lineinfo, corrupt"))
		c.Dict("detail", &r.Detail, Note("what is wrong with it"))
		c.U32("sm", &r.SM, Note("121 is sm_121; 0 unknown"))
		c.U64("size_bytes", &r.SizeBytes, Note("of the upload"))
		c.U32("functions", &r.Functions)
		c.U32("lines", &r.Lines, Note("rows of cubin_lines"))
		c.Time("uploaded_at", &r.UploadedAt)
		c.FactTail(&r.ReceivedDay)
	})

// CubinFunctionRow is a row of CubinFunctions.
type CubinFunctionRow struct {
	HeadRow
	BuildID     string
	Whole       uint8
	Function    string
	SizeBytes   uint64
	ReceivedDay int32
}

// CubinFunctions holds the functions of cubins.
var CubinFunctions = DefineRows(Define("cubin_functions_data", Fact, "tenant, session_id, build_id, whole, function").LastCounts(),
	func(c *Binder[CubinFunctionRow], r *CubinFunctionRow) {
		c.Head(&r.HeadRow)
		c.Dict("build_id", &r.BuildID)
		c.U8("whole", &r.Whole)
		c.Dict("function", &r.Function, plain, Note("mangled, whole"))
		c.U64("size_bytes", &r.SizeBytes)
		c.FactTail(&r.ReceivedDay)
	})

// CubinLineRow is a row of CubinLines.
type CubinLineRow struct {
	HeadRow
	BuildID     string
	Whole       uint8
	Function    string
	PCFrom      uint64
	PCTo        uint64
	File        string
	Line        uint32
	InlineChain string
	ReceivedDay int32
}

// CubinLines holds which line the instructions of cubins come from: a row for each range of instructions of a function that have one line.
var CubinLines = DefineRows(Define("cubin_lines_data", Fact, "tenant, session_id, build_id, whole, function, pc_from").LastCounts(),
	func(c *Binder[CubinLineRow], r *CubinLineRow) {
		c.Head(&r.HeadRow)
		c.Dict("build_id", &r.BuildID)
		c.U8("whole", &r.Whole)
		c.Dict("function", &r.Function, plain)
		c.U64("pc_from", &r.PCFrom, Codec(Rising), Note("offset in the function, bytes"))
		c.U64("pc_to", &r.PCTo, Codec(Rising),
			Note("the first offset after the range, at most 65536 after pc_from: longer ranges are several rows"))
		c.Dict("file", &r.File, plain, Note("of the innermost frame"))
		c.U32("line", &r.Line, Note("of the innermost frame"))
		c.Dict("inline_chain", &r.InlineChain, plain, Note("frames, a line each, innermost first; '' where nothing is inlined"))
		c.FactTail(&r.ReceivedDay)
	})

// SessionLabelRow is a row of SessionLabels.
type SessionLabelRow struct {
	HeadRow
	Label       string
	Value       string
	Rows        uint64
	ReceivedDay int32
}

// SessionLabels holds what clients say of a session by labels.
var SessionLabels = DefineRows(DefineRollup("session_labels_data", "tenant, session_id, label, value", false),
	func(c *Binder[SessionLabelRow], r *SessionLabelRow) {
		c.Head(&r.HeadRow)
		c.Dict("label", &r.Label)
		c.Dict("value", &r.Value, plain, Note("'(other)' stands for values beyond those that are kept of a session"))
		c.U64("rows", &r.Rows, Sum, Note("rows folded into '(other)', else 0"))
		c.FactTail(&r.ReceivedDay)
	})
