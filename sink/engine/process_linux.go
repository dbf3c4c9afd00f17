package engine

import (
	"os/exec"
	"syscall"
)

// selfPath is this very program, even when its file was replaced or removed since it started.
func selfPath() (string, error) { return "/proc/self/exe", nil }

// isolate gives the child a process group of its own, so that a terminal's Ctrl-C reaches the
// parent alone, which drains before it ends the engine. The signal at the parent's death is the
// second safety beside stdin; it follows the thread that started the child, which is why that
// thread lives as long as the child (see Engine.run).
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
