// Package parca reads what Parca's agent sends of GPUs: CUDA program counter samples and kernel times, as Arrow records (schema v2 and v1),
// as offline files, and as OTLP profiles, and what of it travels on: parts, each the rows of one session.
//
// All encodings give the same [Batch]. [Batch.Cut] cuts a batch by process into bodies of parts; [Part.Decode] reads one. It does no I/O.
package parca

// SourceName is what sessions.source and usage.source say.
const SourceName = "parca"

// SessionPrefix begins the id of every session that samples make, CubinPrefix of every session that a cubin is.
const (
	SessionPrefix = "parca:"
	CubinPrefix   = "cubin:"
)
