// Package gpuflight decodes the lines GPU Flight clients write: newline-delimited JSON, one object a line, most of the bytes in
// columnar batches of integers. It does no I/O and knows nothing of tenants, windows or storage.
//
// Decoder.Decode reads one line. Rows of a batch land in a flat row-major buffer with one fixed place per known column, whatever
// order the wire used, so a reader indexes with constants:
//
//	line, err := dec.Decode(raw)
//	for r := range line.Batch.Rows() {
//		row := line.Batch.Row(r)
//		id, ns := uint32(row[gpuflight.KernelID]), row[gpuflight.KernelDurationNS]
//	}
//
// # What is accepted
//
// JSON is checked as encoding/json checks it, with these differences, all deliberate: the line must be an object; values may nest
// MaxDepth deep; and where a key stands twice, the first one counts (so that Peek can stop early and still agree with Decode).
// Keys may come in any order, white space may stand between tokens, unknown keys and columns change nothing (EventDecoder and
// ExtraColumns hand them out). Bytes that are not UTF-8 are legal inside strings, because the client cuts names at 255 bytes; text
// handed out has each such byte replaced by U+FFFD.
//
// # What is refused
//
// A line that is not JSON, or lacks what its type needs, is refused whole with a *LineError. A row that has the wrong number of
// cells, or a cell its column cannot hold, is refused alone: it is listed in Batch.BadRows and its neighbours stay.
//
// # What an event is
//
// Limits, quotas and the books of gateway and worker count events: one row of a batch, or one line that is not a batch.
// CountEvents is the only definition.
package gpuflight
