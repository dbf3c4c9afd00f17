//go:build amd64 || arm64

package engine

import (
	"runtime"
	"syscall"
	"unsafe"

	"github.com/ebitengine/purego"
)

// ExitDisk is how a child ends whose disk fails.
const ExitDisk = exitDisk

// GuardedWrite calls what the library is given for write(2).
func GuardedWrite(fd uintptr, data []byte) (int, syscall.Errno) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	libc, err := purego.Dlopen("libc.so.6", purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err == nil {
		errnoLocation, err = purego.Dlsym(libc, "__errno_location")
	}
	if err != nil {
		panic(err)
	}
	n, _, _ := purego.SyscallN(guardedWritePC, fd, uintptr(unsafe.Pointer(&data[0])), uintptr(len(data)))
	if int(n) >= 0 {
		return int(n), 0
	}
	errno, _, _ := purego.SyscallN(errnoLocation)
	return int(n), syscall.Errno(*(*int32)(pointer(errno)))
}
