package parca

// Part is the rows of one session from one batch. It is read from the body of a part and used again for the next one: what it holds is
// valid until then.
type Part struct {
	Process Process
	// Strings are the texts that rows refer to by index. The first is "".
	Strings []string
	// Stacks are launch stacks, innermost frame first. The first is empty: no stack is known.
	Stacks  []Stack
	PC      []PCRow
	Kernels []KernelRow
	// Refused are rows that are no GPU's, or that cannot be: counted, not kept.
	Refused []Refused
}

// Process is what rows say of the process that launched the kernels. "" is not known.
type Process struct {
	Node, PID, Comm string
	// Labels are the other labels that tell processes apart, sorted by name.
	Labels []Label
}

// Label is a label of a row, as on the wire.
type Label struct{ Name, Value string }

// Stack is a launch stack: how the program came to launch a kernel.
type Stack struct {
	Hi, Lo uint64 // 128-bit hash of the frames, our own: the agent's stacktrace_id is no identity
	Frames []string
}

// PCRow is a row of type gpu_pcsample: how often warps were seen at an instruction for one reason.
type PCRow struct {
	At       int64  // nanoseconds since the epoch
	Samples  uint64 // of the row
	PeriodNS uint64 // nominal nanoseconds a sample, 0 unknown. Samples × PeriodNS fits 64 bits.
	Offset   uint64 // of the instruction in its function, bytes
	// Indexes of Strings: kernel as on the wire, mapping file ("cubin-<16 hex>"), build id, stall reason, opcode.
	Function, Cubin, BuildID, Reason, SASS uint32
	Stack                                  uint32 // index of Stacks
	Device                                 int32  // -1 unknown
}

// KernelRow is a row of type gpu_kernel_time, or its kind among merged rows: a kernel that ran.
type KernelRow struct {
	At         int64 // nanoseconds since the epoch, of the launch
	DurationNS uint64
	StreamID   uint64
	GraphID    uint64 // 0: none
	CorrID     uint32 // 0: unknown, it is told only in graphs
	Function   uint32 // index of Strings
	Stack      uint32 // index of Stacks
	Device     int32  // -1 unknown
}

// Refused counts rows of one reason, type and minute that are not stored.
type Refused struct {
	Reason string
	Detail string
	Type   string // sample type, such as "samples"
	Minute int64  // nanoseconds since the epoch, the start of it
	Rows   uint64
}
