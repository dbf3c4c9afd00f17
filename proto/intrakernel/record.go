package intrakernel

import "encoding/binary"

// RecordSize is the length of a record in the device's buffer.
const RecordSize = 16

// Type says what a record marks. Every value but Begin and End is an instant.
type Type uint16

// The types that the device writes.
const (
	Begin Type = 0
	End   Type = 1
	Mark  Type = 2
)

// rank is the place of a type among records of the same time and region.
func (t Type) rank() uint8 {
	switch t {
	case Begin:
		return 0
	case Mark:
		return 1
	}
	return 2
}

// Record is what a warp wrote: when it passed a point of the kernel.
type Record struct {
	// TS is the device's globaltimer in ns.
	TS uint64
	// Region is the id that the kernel gave.
	Region uint16
	// Type is what the point is.
	Type Type
	// Block is blockIdx.x modulo 65536.
	Block uint16
	// Place holds the warp in its lower 6 bits and the SM in its upper 10, both modulo that. The device ORs the upper bits of a block
	// above 65535 into it, so that warp and SM of such a block are not what they were.
	Place uint16
}

// Warp is the number of the warp in its block, 0 to 63.
func (r *Record) Warp() uint16 { return r.Place & 63 }

// SM is the number of the multiprocessor, modulo 1024.
func (r *Record) SM() uint16 { return r.Place >> 6 }

// DecodeRecord reads the first RecordSize bytes of b, of which there must be so many.
func DecodeRecord(b []byte) Record {
	_ = b[RecordSize-1]
	return Record{TS: binary.LittleEndian.Uint64(b), Region: binary.LittleEndian.Uint16(b[8:]), Type: Type(binary.LittleEndian.Uint16(b[10:])),
		Block: binary.LittleEndian.Uint16(b[12:]), Place: binary.LittleEndian.Uint16(b[14:])}
}

// AppendRecord appends the RecordSize bytes of r.
func AppendRecord(b []byte, r Record) []byte {
	b = binary.LittleEndian.AppendUint64(b, r.TS)
	b = binary.LittleEndian.AppendUint16(b, r.Region)
	b = binary.LittleEndian.AppendUint16(b, uint16(r.Type))
	b = binary.LittleEndian.AppendUint16(b, r.Block)
	return binary.LittleEndian.AppendUint16(b, r.Place)
}
