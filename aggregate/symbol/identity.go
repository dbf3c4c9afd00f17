package symbol

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// machineCUDA is e_machine of cubins.
const machineCUDA = 190

// IsCubin reports whether a file that begins with these bytes is a cubin; 20 bytes are enough.
func IsCubin(first []byte) bool {
	return len(first) >= 20 && string(first[:6]) == "\x7fELF\x02\x01" && binary.LittleEndian.Uint16(first[18:]) == machineCUDA
}

// BuildID returns the id that Parca's agent gives a file: 32 hex digits that follow from its first and last 4096 bytes and its size. The
// build id of a cubin in samples is that of the whole cubin, so that of stripped bytes is of no use.
func BuildID(elf []byte) string {
	const edge = 4096
	n := min(edge, len(elf))
	h := sha256.New()
	h.Write(elf[:n])
	h.Write(elf[len(elf)-n:])
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(elf)))
	h.Write(size[:])
	return hex.EncodeToString(h.Sum(nil)[:16])
}
