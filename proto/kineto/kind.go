package kineto

// Kind is what an event is to a profiler of GPUs. Its category decides: pid 0 is the first GPU as well as a process of its own.
type Kind uint8

// The kinds. They are stored in parts, so they stay as they are.
const (
	Other Kind = iota
	Kernel
	Memcpy
	Memset
	// Sync is a wait for the GPU as the GPU's row shows it.
	Sync
	// Runtime and Driver are calls on the host: launches among them.
	Runtime
	Driver
	Op
	Annotation
	GPUAnnotation
	Python
	Overhead
	// Memory is an allocation or a release, an instant.
	Memory
	kinds
)

var kindNames = [kinds]string{"", "kernel", "memcpy", "memset", "sync", "runtime", "driver", "op", "annotation", "gpu_annotation", "python",
	"overhead", "memory"}

// String is how the kind is called in tables; "" is none of them.
func (k Kind) String() string {
	if k >= kinds {
		return ""
	}
	return kindNames[k]
}

// KindOf is the kind of a slice of a category. The names of 2021 begin with capitals.
func KindOf(category []byte) Kind {
	switch string(category) {
	case "kernel", "Kernel":
		return Kernel
	case "gpu_memcpy", "Memcpy":
		return Memcpy
	case "gpu_memset", "Memset":
		return Memset
	case "cuda_sync", "xpu_sync":
		return Sync
	case "cuda_runtime", "Runtime", "xpu_runtime", "mtia_runtime", "glow_runtime", "privateuse1_runtime":
		return Runtime
	case "cuda_driver", "xpu_driver", "privateuse1_driver":
		return Driver
	case "cpu_op", "Operator":
		return Op
	case "user_annotation":
		return Annotation
	case "gpu_user_annotation":
		return GPUAnnotation
	case "python_function":
		return Python
	case "overhead":
		return Overhead
	}
	return Other
}

// onGPU reports whether rows of the kind have the GPU's number as pid and the stream's as tid.
func (k Kind) onGPU() bool { return k == Kernel || k == Memcpy || k == Memset || k == GPUAnnotation }

// Phase is what an event is to a viewer.
type Phase uint8

// The phases. They are stored in parts, so they stay as they are.
const (
	// Complete is X, a slice.
	Complete Phase = iota
	// Paired is a begin with its end, AsyncPaired one of b with e or of S with F.
	Paired
	AsyncPaired
	// Open is a begin that never ended, AsyncOpen a b or S.
	Open
	AsyncOpen
	// Instant is i or I, AsyncInstant n, T or p, Mark anything else that has a time and no length.
	Instant
	AsyncInstant
	Mark
	// Counter is C.
	Counter
	// FlowStart, FlowStep and FlowEnd are s, t and f.
	FlowStart
	FlowStep
	FlowEnd
	phases
)

var phaseNames = [phases]string{"X", "BE", "be", "B", "b", "i", "n", "R", "C", "s", "t", "f"}

// String is how the phase is called in tables.
func (p Phase) String() string {
	if p >= phases {
		return ""
	}
	return phaseNames[p]
}

// Slice reports whether the event is a row of slices: it is neither a counter nor the end of an arrow.
func (p Phase) Slice() bool { return p < Counter }
