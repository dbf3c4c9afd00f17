package gpuflight

// Line is one decoded line. It belongs to its Decoder: everything in it, Batch and all slices included, is valid until the next
// Decode on that Decoder, and the slices that alias the input only as long as the caller leaves the input alone.
type Line struct {
	// Type is TypeUnknown for names this package does not know; such a line is valid JSON and TypeName tells its name.
	Type Type
	// TypeName is the text of "type".
	TypeName []byte
	// SessionID is the text of "session_id", empty when it is absent.
	SessionID []byte
	// BatchID is the sender's number of this batch, 0 when absent (HasBatchID tells) or not a batch. It repeats within a session
	// after a sampler restarts, so it identifies a batch only together with BaseTimeNS.
	BatchID    uint64
	HasBatchID bool
	// BaseTimeNS is what dt_ns counts from, for batch types. It is not an epoch time for AMD activity and isa_source_map rows.
	BaseTimeNS int64
	// Batch holds the rows of a batch type; nil for other types and when Decode returned an error.
	Batch *Batch
	// Raw is the line as passed to Decode.
	Raw []byte
}

// BlankLines returns how many bytes at the beginning of body are whole blank lines, and how many lines these are. A client can send some
// hundred million of them in a few hundred kilobytes, so they are passed over before anything looks at lines.
func BlankLines(body []byte) (size int, lines int64) {
	for i, c := range body {
		switch c {
		case '\n':
			size = i + 1
			lines++
		case ' ', '\t', '\r':
		default:
			return size, lines
		}
	}
	return size, lines
}
