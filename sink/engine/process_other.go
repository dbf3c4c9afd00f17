//go:build !linux

package engine

import (
	"os"
	"os/exec"
	"syscall"
)

// selfPath is the file this program was started from.
func selfPath() (string, error) { return os.Executable() }

// isolate gives the child a process group of its own, so that a terminal's Ctrl-C reaches the parent alone. When its stdin closes it knows
// that the parent died.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
