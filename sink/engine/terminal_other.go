//go:build !linux

package engine

import (
	"errors"
	"os"
)

// takeTerminal is not written for this system; the engine then runs as a batch job, which ends
// when a client resets a half-sent request, and is started again by its supervisor.
func takeTerminal() (stdin, master *os.File, err error) {
	return os.Stdin, nil, errors.New("no pseudo-terminal on this system")
}
