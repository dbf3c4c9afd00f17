//go:build linux && (amd64 || arm64)

package engine

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"
)

// exitDisk is the child's exit code when a file of the engine could not be written, for another reason than a full disk.
const exitDisk = 5

// guardedWritePC is the address of the function that the library is given for write(2); see writes_linux_*.s.
var guardedWritePC uintptr

// errnoLocation is the address of libc's __errno_location, which the function calls.
var errnoLocation uintptr

// guardWrites makes the library wait where it would lose data. The library goes on after a write that failed as if it had been done: on a
// full disk it answers OK to an insert, or replaces good data parts by a merged one, whose files are empty. With the guard a write into a
// file waits until the disk has room, and the process ends at once when a write fails for another reason: what was not acknowledged is sent
// again. It is called once, after the library was loaded and before it runs. anchor is the address of the library's function anchorName.
func guardWrites(handle uintptr, path, anchorName string, anchor uintptr) error {
	where, err := purego.Dlsym(handle, "__errno_location")
	if err != nil {
		return fmt.Errorf("guard its writes: %w", err)
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("guard its writes: %w", err)
	}
	defer file.Close()
	slot, base, err := writeSlot(file, anchorName)
	if err != nil {
		return fmt.Errorf("guard its writes: %w", err)
	}
	at := anchor - base + slot
	size := uintptr(os.Getpagesize())
	page := unsafe.Slice((*byte)(pointer(at&^(size-1))), size)
	if err := unix.Mprotect(page, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return fmt.Errorf("guard its writes: %w", err)
	}
	errnoLocation = where
	*(*uintptr)(pointer(at)) = guardedWritePC
	return nil
}

// pointer is an address within the library, which Go's collector does not know.
func pointer(at uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&at)) }

// writeSlot returns where in the library's memory image the address of write(2) is kept for its calls, and the image's address of the
// function anchorName.
func writeSlot(file *os.File, anchorName string) (slot, anchor uintptr, err error) {
	library, err := elf.NewFile(file)
	if err != nil {
		return 0, 0, err
	}
	symbols, err := library.DynamicSymbols()
	if err != nil {
		return 0, 0, err
	}
	write := uint64(0) // its number in the table of symbols, which begins at 1
	for i, s := range symbols {
		switch s.Name {
		case "write":
			write = uint64(i) + 1
		case anchorName:
			anchor = uintptr(s.Value)
		}
	}
	calls := library.Section(".rela.plt")
	if write == 0 || anchor == 0 || calls == nil {
		return 0, 0, errors.New("it does not call write(2) in a known way")
	}
	raw, err := calls.Data()
	if err != nil {
		return 0, 0, err
	}
	kind := uint64(elf.R_X86_64_JMP_SLOT)
	if library.Machine == elf.EM_AARCH64 {
		kind = uint64(elf.R_AARCH64_JUMP_SLOT)
	}
	for ; len(raw) >= 24; raw = raw[24:] { // Elf64_Rela: offset, info, addend
		if info := library.ByteOrder.Uint64(raw[8:]); info>>32 == write && info&0xffffffff == kind {
			return uintptr(library.ByteOrder.Uint64(raw)), anchor, nil
		}
	}
	return 0, 0, errors.New("it does not call write(2) in a known way")
}
