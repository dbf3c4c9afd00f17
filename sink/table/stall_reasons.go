package table

// StallReason explains one stall reason of program counter samples. The view stall_reasons shows them.
type StallReason struct {
	Name    string // as on the wire
	Kind    string // one of ReasonStall and the others
	Group   string // coarse group of causes, for one column in a report
	Meaning string // one sentence
	Remedy  string // what usually helps; '' where nothing is known
	Doc     string // where to read more
}

// The kinds of stall reasons, as the column reason_kind has them. Only ReasonStall counts towards the samples of a place: the
// not-issued variants count the same samples a second time, and the pseudo reasons count something else.
const (
	ReasonStall          = "stall"
	ReasonStallNotIssued = "stall_not_issued"
	ReasonSampleCount    = "sample_count"
	ReasonDataDropped    = "data_dropped"
	ReasonUnresolved     = "unresolved"
)

const (
	stallPrefix    = "smsp__pcsamp_warps_issue_stalled_"
	notIssued      = "_not_issued"
	sampleCount    = "smsp__pcsamp_sample_count"
	samplesDropped = "smsp__pcsamp_samples_data_dropped"
	stallDoc       = "https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#statistical-sampler"
)

// reasonKindSQL classifies the stall reason whose full name, as it came, the SQL expression name gives. Reasons not known yet keep their
// kind by their prefix, so that new hardware does not need a new table.
func reasonKindSQL(name string) string {
	return "multiIf(" + name + " = " + Quote(sampleCount) + ", " + Quote(ReasonSampleCount) + ", " +
		name + " = " + Quote(samplesDropped) + ", " + Quote(ReasonDataDropped) + ", " +
		legacyReasonSQL(name) + ", " + Quote(ReasonStall) + ", " +
		"NOT startsWith(" + name + ", " + Quote(stallPrefix) + "), " + Quote(ReasonUnresolved) + ", " +
		"endsWith(" + name + ", " + Quote(notIssued) + "), " + Quote(ReasonStallNotIssued) + ", " + Quote(ReasonStall) + ")"
}

// StallReasons returns all that have an explanation: 19 causes, their not-issued variants, 12 causes of the old interface and 2 pseudo
// reasons.
func StallReasons() []StallReason {
	base := []StallReason{
		{"barrier", "", "sync", "The warp has reached a block-wide barrier and waits for the slower warps of its block.",
			"Even out the work between barriers, or use smaller blocks.", ""},
		{"branch_resolving", "", "instruction fetch", "The warp waits until a branch target is computed and its program counter is " +
			"settled.", "Use fewer branches, above all short and divergent ones.", ""},
		{"dispatch_stall", "", "other",
			"The instruction was ready, but the dispatcher held it back because of a conflict in the hardware.",
			"Rarely worth pursuing: look at the other reasons first.", ""},
		{"drain", "", "memory throttle", "The warp has exited, and its last stores have still to leave.",
			"Coalesce the stores at the end of the kernel.", ""},
		{"imc_miss", "", "constant", "The instruction needs a constant that was not in the immediate constant cache.",
			"Let the threads of a warp read the same constant.", ""},
		{"lg_throttle", "", "memory throttle", "The queue for local and global memory instructions is full.",
			"Issue fewer and wider memory accesses; avoid register spills.", ""},
		{"long_scoreboard", "", "memory dependency", "The warp waits for data from global, local, texture or surface memory.",
			"Improve locality, load earlier, or keep more warps resident.", ""},
		{"math_pipe_throttle", "", "pipe busy", "The arithmetic pipe that the instruction needs is busy.",
			"Mix in instructions that use other pipes; good use of the hardware may look like this.", ""},
		{"membar", "", "sync", "The warp waits for a memory fence to complete.", "Use fewer fences, or fences of a narrower scope.", ""},
		{"mio_throttle", "", "pipe busy", "The queue shared by shared memory, special functions and the like is full.",
			"Spread such instructions out, or widen shared memory accesses.", ""},
		{"misc", "", "other", "A reason that the hardware does not tell apart.", "", ""},
		{"no_instructions", "", "instruction fetch",
			"The next instruction was not there yet: a miss in the instruction cache, or a jump.", "Make loops smaller and unroll less.",
			""},
		{"not_selected", "", "not selected", "The warp was ready, but the scheduler picked another.",
			"Nothing to cure: more warps are ready than can issue.", ""},
		{"selected", "", "none", "The warp was picked and issued an instruction.", "This is useful work.", ""},
		{"short_scoreboard", "", "execution dependency", "The warp waits for shared memory, a special function or another result of " +
			"short latency.", "Avoid bank conflicts and slow special functions.", ""},
		{"sleeping", "", "sleeping", "All threads of the warp sleep or have yielded.", "Avoid loops that wait with nanosleep.", ""},
		{"tex_throttle", "", "texture", "The queue for texture instructions is full.", "Keep fewer texture accesses in flight.", ""},
		{"wait", "", "execution dependency", "The compiler fixed a number of cycles to wait for an earlier result.",
			"Give the compiler more independent instructions to place between.", ""},
		{"warpgroup_arrive", "", "sync", "The warp waits for its warpgroup's matrix operation to start or to be in step (Hopper and " +
			"later).", "Pipeline the matrix operations deeper.", ""},
	}
	all := make([]StallReason, 0, 2*len(base)+2)
	for _, r := range base {
		r.Name, r.Kind, r.Doc = stallPrefix+r.Name, ReasonStall, stallDoc
		all = append(all, r)
		r.Name, r.Kind = r.Name+notIssued, ReasonStallNotIssued
		r.Meaning += " Counted only while the scheduler issued nothing at all, that is when it cost time."
		all = append(all, r)
	}
	return append(append(all, legacyReasons...),
		StallReason{sampleCount, ReasonSampleCount, "", "The number of samples taken at this place, whatever the reason. A " +
			"cross-check for the sum of the stalls.", "", stallDoc},
		StallReason{samplesDropped, ReasonDataDropped, "", "Samples that the hardware lost.",
			"Sample less often, or fetch the samples more often.", stallDoc})
}

// legacyReasons are the stall reasons of CUPTI's old activity interface, which older clients write. They have names of their own, and none
// of them counts a sample twice.
var legacyReasons = []StallReason{
	{"NONE", ReasonStall, "none", "The warp issued an instruction.", "This is useful work.", legacyDoc},
	{"INST_FETCH", ReasonStall, "instruction fetch", "The next instruction was not there yet.", "Make loops smaller and unroll less.",
		legacyDoc},
	{"EXEC_DEPENDENCY", ReasonStall, "execution dependency", "The warp waits for the result of an earlier instruction.",
		"Give the compiler more independent instructions to place between.", legacyDoc},
	{"MEM_DEPENDENCY", ReasonStall, "memory dependency", "The warp waits for data from memory.",
		"Improve locality, load earlier, or keep more warps resident.", legacyDoc},
	{"TEXTURE", ReasonStall, "texture", "The texture unit is busy or its queue is full.", "Keep fewer texture accesses in flight.",
		legacyDoc},
	{"SYNC", ReasonStall, "sync", "The warp waits for other warps at a barrier.",
		"Even out the work between barriers, or use smaller blocks.", legacyDoc},
	{"CONST_MEM_DEPENDENCY", ReasonStall, "constant", "The warp waits for a constant that was not in its cache.",
		"Let the threads of a warp read the same constant.", legacyDoc},
	{"PIPE_BUSY", ReasonStall, "pipe busy", "The pipe that the instruction needs is busy.", "Mix in instructions that use other pipes.",
		legacyDoc},
	{"MEM_THROTTLE", ReasonStall, "memory throttle", "Too many memory operations are on their way.",
		"Issue fewer and wider memory accesses.", legacyDoc},
	{"NOT_SELECTED", ReasonStall, "not selected", "The warp was ready, but the scheduler picked another.",
		"Nothing to cure: more warps are ready than can issue.", legacyDoc},
	{"OTHER", ReasonStall, "other", "A reason that the hardware does not tell apart.", "", legacyDoc},
	{"SLEEPING", ReasonStall, "sleeping", "All threads of the warp sleep or have yielded.", "Avoid loops that wait with nanosleep.",
		legacyDoc},
}

const legacyDoc = "https://docs.nvidia.com/cupti/index.html"

// legacyReasonSQL is whether the SQL expression name holds one of legacyReasons.
func legacyReasonSQL(name string) string {
	list := ""
	for i := range legacyReasons {
		if i > 0 {
			list += ", "
		}
		list += Quote(legacyReasons[i].Name)
	}
	return name + " IN (" + list + ")"
}
