package engine

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// takeTerminal moves this process's stdin to another descriptor and puts a pseudo-terminal of its
// own in its place. clickhouse-local with a pipe there decides that it is a batch job and
// terminates on the first error of any connection: a client that resets a half-sent request would
// take the whole engine down. With a terminal it logs such errors, as a server does.
//
// It returns the former stdin and the terminal's other side, whose closing hangs the terminal up.
func takeTerminal() (stdin, master *os.File, err error) {
	fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, nil, fmt.Errorf("keep stdin: %w", err)
	}
	stdin = os.NewFile(uintptr(fd), "stdin")
	m, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return stdin, nil, fmt.Errorf("open /dev/ptmx: %w", err)
	}
	master = os.NewFile(uintptr(m), "/dev/ptmx")
	if err := unix.IoctlSetPointerInt(m, unix.TIOCSPTLCK, 0); err != nil {
		return stdin, master, fmt.Errorf("unlock the terminal: %w", err)
	}
	n, err := unix.IoctlGetInt(m, unix.TIOCGPTN)
	if err != nil {
		return stdin, master, fmt.Errorf("name the terminal: %w", err)
	}
	slave, err := unix.Open("/dev/pts/"+strconv.Itoa(n), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return stdin, master, fmt.Errorf("open the terminal: %w", err)
	}
	defer unix.Close(slave)
	if err := unix.Dup3(slave, 0, 0); err != nil {
		return stdin, master, fmt.Errorf("put the terminal in place of stdin: %w", err)
	}
	return stdin, master, nil
}
