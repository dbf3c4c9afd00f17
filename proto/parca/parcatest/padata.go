package parcatest

import (
	"encoding/binary"

	"github.com/warpline/warpline/proto/parca"
)

// Padata encodes batches as the agent's offline files, of schema v2.
func Padata(batches ...[]parca.WireRow) []byte {
	b := padataHead(len(batches))
	for _, rows := range batches {
		b = appendSized(b, ArrowPlain(rows))
	}
	return b
}

// PadataV1 is Padata of the old schema: each batch is two streams.
func PadataV1(batches ...[]parca.WireRow) []byte {
	b := padataHead(len(batches))
	for _, rows := range batches {
		samples, locations := ArrowV1(rows)
		b = appendSized(appendSized(b, samples), locations)
	}
	return b
}

func padataHead(batches int) []byte {
	return binary.BigEndian.AppendUint16([]byte{0xA6, 0xE7, 0xCC, 0xCA, 0, 0}, uint16(batches))
}

func appendSized(b, ipc []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(ipc))), ipc...)
}
