package engine

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// archs are the machines whose system calls the filter knows, by Go's name.
var archs = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// Offsets of struct seccomp_data. Arguments are 64 bits wide, and a small one is in the lower half, the first on these machines.
const (
	atNumber = 0
	atArch   = 4
	atArg    = 16
)

// ipprotoTCP is TCP itself and not MPTCP, which Landlock does not check.
const ipprotoTCP = unix.IPPROTO_TCP

// restrictCalls forbids all threads of this process, present and future, the system calls that a database server on loopback never makes
// and that Landlock, or an older kernel's Landlock, allows: connecting to anything (a UNIX socket by its path, a name server), sockets
// other than TCP, running programs, and io_uring, which does the same without the filter seeing it. They fail as if the system forbade
// them. It is the second lock, and the only one for UDP.
func restrictCalls() error {
	arch, ok := archs[runtime.GOARCH]
	if !ok {
		return errors.New("no seccomp filter is written for " + runtime.GOARCH)
	}
	filter := callFilter(arch)
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid new privileges: %w", err)
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	// With the flag either every thread gets the filter or none does.
	r, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("install a seccomp filter: %w", errno)
	}
	if r != 0 {
		return fmt.Errorf("install a seccomp filter: thread %d does not take it", r)
	}
	return nil
}

// callFilter is the filter's program.
func callFilter(arch uint32) []unix.SockFilter {
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	jump := func(op uint16, k uint32, then, otherwise uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, Jt: then, Jf: otherwise, K: k}
	}
	answer := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	refuse := func(e unix.Errno) unix.SockFilter { return answer(unix.SECCOMP_RET_ERRNO | uint32(e)) }
	allow := answer(unix.SECCOMP_RET_ALLOW)

	prog := []unix.SockFilter{
		load(atArch), jump(unix.BPF_JEQ, arch, 1, 0), refuse(unix.EPERM), // a call by another machine's numbers
		load(atNumber), jump(unix.BPF_JGE, 0x40000000, 0, 1), refuse(unix.EPERM), // x32's numbers
	}
	for _, call := range []struct {
		number uint32
		errno  unix.Errno
	}{
		{unix.SYS_CONNECT, unix.EACCES}, {unix.SYS_EXECVE, unix.EACCES}, {unix.SYS_EXECVEAT, unix.EACCES},
		{unix.SYS_IO_URING_SETUP, unix.ENOSYS}, {unix.SYS_PTRACE, unix.EPERM},
	} {
		prog = append(prog, jump(unix.BPF_JEQ, call.number, 0, 1), refuse(call.errno))
	}
	arg := func(n uint32) unix.SockFilter { return load(atArg + 8*n) }
	// With data in its first packet TCP connects without connect().
	for _, call := range []struct{ number, flags uint32 }{{unix.SYS_SENDTO, 3}, {unix.SYS_SENDMSG, 2}, {unix.SYS_SENDMMSG, 3}} {
		prog = append(prog, jump(unix.BPF_JEQ, call.number, 0, 4), arg(call.flags), jump(unix.BPF_JSET, unix.MSG_FASTOPEN, 0, 1),
			refuse(unix.EACCES), allow)
	}
	return append(prog, jump(unix.BPF_JEQ, unix.SYS_SOCKET, 1, 0), allow,
		arg(0), jump(unix.BPF_JEQ, unix.AF_INET, 2, 0), jump(unix.BPF_JEQ, unix.AF_INET6, 1, 0), refuse(unix.EAFNOSUPPORT),
		arg(1), unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf}, jump(unix.BPF_JEQ, unix.SOCK_STREAM, 1, 0),
		refuse(unix.EACCES),
		arg(2), jump(unix.BPF_JEQ, 0, 1, 0), jump(unix.BPF_JEQ, ipprotoTCP, 0, 1), allow, refuse(unix.EPROTONOSUPPORT))
}
