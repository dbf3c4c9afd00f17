package telemetry

import "strings"

// CollectorOf tells what a collector watches: backend is cuda, rocm, mps or cpu, framework pytorch or tensorflow. Both families of
// names, stormlog and the gpumemprof and tfmemprof of before, give the same pair. "" is what the name does not say: the CPU tracker
// belongs to no framework, the TensorFlow tracker does not tell its device, and of an unknown collector nothing is known.
func CollectorOf(name string) (backend, framework string) {
	if name == "stormlog.tensorflow.memory_tracker" || name == "tfmemprof.memory_tracker" {
		return "", "tensorflow"
	}
	rest, ok := strings.CutPrefix(name, "stormlog.")
	if !ok {
		if rest, ok = strings.CutPrefix(name, "gpumemprof."); !ok {
			return "", ""
		}
	}
	switch rest {
	case "cuda_tracker":
		return "cuda", "pytorch"
	case "rocm_tracker":
		return "rocm", "pytorch"
	case "mps_tracker":
		return "mps", "pytorch"
	case "cpu_tracker":
		return "cpu", ""
	}
	return "", ""
}

// Source is CollectorOf of the event's collector; where that leaves the backend open, metadata.backend fills it in if it is one of the
// four, and a processor's event (device -1) of TensorFlow is cpu. It does not allocate.
func (e *Event) Source() (backend, framework string) {
	backend, framework = CollectorOf(string(e.Collector))
	if backend != "" {
		return backend, framework
	}
	if len(e.Metadata) > 2 {
		members(e.Metadata, func(key []byte, _ bool, t token) {
			if string(key) != "backend" {
				return
			}
			backend = ""
			if t.kind == kString {
				b := strip(e.Metadata[t.start+1 : t.end-1])
				for _, name := range [...]string{"cuda", "rocm", "mps", "cpu"} {
					if equalFold(b, name) {
						backend = name
					}
				}
			}
		})
	}
	if backend == "" && framework == "tensorflow" && e.DeviceID == -1 {
		backend = "cpu"
	}
	return backend, framework
}
