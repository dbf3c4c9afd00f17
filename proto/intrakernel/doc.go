// Package intrakernel reads what an intra-kernel profiler records on the device (when each warp of one launch entered and left a region of
// the kernel) and writes what the peer's write_trace would: the trace, the summary and the distributions of blocks, byte for byte.
//
//	capture, err := intrakernel.Collect(events, counters, &header) // rings and block filter
//	timeline := capture.Timeline(&header)                          // order and pairing
//	err = timeline.WriteTrace(w)
//	err = timeline.WriteSummary(w)
//	err = timeline.WriteBlocks(create)
//
// ReadTrace makes the same Timeline of a trace that the peer wrote. Nothing here opens a file; readers and writers are given.
//
// # Numbers
//
// Times are unsigned 64-bit ns of the device's clock. A duration becomes a float64 and is multiplied by the scale before anything is added
// up, and sums are made in the peer's order, because a float64 sum depends on it. No product is fused with a sum: each stands in a
// conversion, which the language does not let a compiler fuse through. Numbers are printed with six decimals, correctly rounded.
//
// # Where Warpline differs
//
// In legacy mode the peer writes a mark as "ph":"i,"s":"t"", which is no JSON; here it is "ph":"i","s":"t". Nothing else differs for what
// is accepted. Refused are headers that do not describe the buffers, more than MaxNames names, more than MaxBins bins, and a scale that
// makes a time infinite.
package intrakernel
