// Package kineto says what the events of a Chrome trace mean, as PyTorch's profiler (Kineto) and others write them, and cuts a trace into
// parts that travel from the gateway to the worker.
//
// Survey reads a trace once, for what may stand behind the events: the base of times, ranks, devices, names of threads. Cutter reads it
// again, event by event: begins and ends become slices, times become nanoseconds since 1970, and the events come out as parts, which decode
// by themselves. Both hold a bounded amount of memory, however long the trace is.
package kineto
