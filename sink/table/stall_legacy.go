package table

// legacyReasons are the stall reasons of CUPTI's old activity interface, which older clients write. They have words of their own, and no
// variant that counts a sample twice.
var legacyReasons = []StallReason{
	{"NONE", ReasonStall, "none", "The warp issued an instruction.", "This is useful work.", legacyDoc},
	{"INST_FETCH", ReasonStall, "instruction fetch", "The next instruction was not there yet.", "Make loops smaller and unroll less.", legacyDoc},
	{"EXEC_DEPENDENCY", ReasonStall, "execution dependency", "The warp waits for the result of an earlier instruction.", "Give the compiler more independent instructions to place between.", legacyDoc},
	{"MEM_DEPENDENCY", ReasonStall, "memory dependency", "The warp waits for data from memory.", "Improve locality, load earlier, or keep more warps resident.", legacyDoc},
	{"TEXTURE", ReasonStall, "texture", "The texture unit is busy or its queue is full.", "Keep fewer texture accesses in flight.", legacyDoc},
	{"SYNC", ReasonStall, "sync", "The warp waits for other warps at a barrier.", "Even out the work between barriers, or use smaller blocks.", legacyDoc},
	{"CONST_MEM_DEPENDENCY", ReasonStall, "constant", "The warp waits for a constant that was not in its cache.", "Let the threads of a warp read the same constant.", legacyDoc},
	{"PIPE_BUSY", ReasonStall, "pipe busy", "The pipe that the instruction needs is busy.", "Mix in instructions that use other pipes.", legacyDoc},
	{"MEM_THROTTLE", ReasonStall, "memory throttle", "Too many memory operations are on their way.", "Issue fewer and wider memory accesses.", legacyDoc},
	{"NOT_SELECTED", ReasonStall, "not selected", "The warp was ready, but the scheduler picked another.", "Nothing to cure: more warps are ready than can issue.", legacyDoc},
	{"OTHER", ReasonStall, "other", "A reason that the hardware does not tell apart.", "", legacyDoc},
	{"SLEEPING", ReasonStall, "sleeping", "All threads of the warp sleep or have yielded.", "Avoid loops that wait with nanosleep.", legacyDoc},
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
