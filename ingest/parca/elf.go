package parca

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
)

// headBytes is how much of a file it takes to know whether it is a cubin: the header of an ELF file of 64 bits.
const headBytes = 64

// isCubin reports whether a file that begins so is an ELF file of CUDA's machine.
func isCubin(head []byte) bool {
	const machine, cuda = 18, 190
	return len(head) >= headBytes && string(head[:4]) == "\x7fELF" && head[4] == 2 && head[5] == 1 &&
		binary.LittleEndian.Uint16(head[machine:]) == cuda
}

// isWhole reports whether a cubin has its code: the agent uploads stripped ones, whose sections of code have no bytes. Of a damaged one it
// says false; what is wrong with it is found when it is read.
func isWhole(from io.ReaderAt, size int64, head []byte) (bool, error) {
	const sectionBytes, progbits, executable = 64, 1, 4
	at, each, n := binary.LittleEndian.Uint64(head[40:]), binary.LittleEndian.Uint16(head[58:]), binary.LittleEndian.Uint16(head[60:])
	total := uint64(n) * sectionBytes
	if each != sectionBytes || at > uint64(size) || total > uint64(size)-at {
		return false, nil
	}
	table := make([]byte, total) // at most 4 MiB, and not more than the file has
	if _, err := from.ReadAt(table, int64(at)); err != nil && err != io.EOF {
		return false, fmt.Errorf("read spooled body: %w", err)
	}
	for ; len(table) >= sectionBytes; table = table[sectionBytes:] {
		kind, flags := binary.LittleEndian.Uint32(table[4:]), binary.LittleEndian.Uint64(table[8:])
		if kind == progbits && flags&executable != 0 && binary.LittleEndian.Uint64(table[32:]) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// fileID is a whole file's build id, as the agent makes it: a hash of its first and last 4 KiB and its length.
func fileID(from io.ReaderAt, size int64) (string, error) {
	const some = 4096
	h := sha256.New()
	for _, at := range []int64{0, max(0, size-some)} {
		if _, err := io.Copy(h, io.NewSectionReader(from, at, min(some, size))); err != nil {
			return "", fmt.Errorf("read spooled body: %w", err)
		}
	}
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(size))
	h.Write(length[:])
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}
