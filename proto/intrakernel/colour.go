package intrakernel

// colours are the names of colours that the peer gives to regions, in its order: those that chrome://tracing knows, two of them twice with
// another spelling.
var colours = [...]string{
	"thread_state_uninterruptible", "thread_state_iowait", "thread_state_running", "thread_state_runnable", "thread_state_sleeping",
	"thread_state_unknown", "background_memory_dump", "light_memory_dump", "detailed_memory_dump", "vsync_highlight_color", "generic_work",
	"good", "bad", "terrible", "black", "grey", "white", "yellow", "olive", "rail_response", "rail_animation", "rail_idle", "rail_load",
	"startup", "heap_dump_stack_frame", "heap_dump_object_type", "heap_dump_child_node_arrow", "cq_build_running", "cq_build_passed",
	"cq_build_failed", "cq_build_abandoned", "cq_build_attempt_runnig", "cq_build_attempt_passed", "cq_build_attempt_failed", "rail_animate",
	"cq_build_attempt_running",
}

// colourOf is the name of a region's colour.
func colourOf(region uint16) string { return colours[int(region)%len(colours)] }

// colourIndex is the lowest region id with that colour, -1 for no colour of the peer's.
func colourIndex(name []byte) int {
	for i, c := range colours {
		if c == string(name) {
			return i
		}
	}
	return -1
}
