//go:build !linux

package engine

import (
	"errors"
	"os"
)

func confine(childConfig, string, *os.File, *os.File) error {
	return errors.New("this system has no Landlock")
}

func takeStage() (stdin, master *os.File, confined bool) { return nil, nil, false }

func restrictCalls() error { return errors.New("this system has no seccomp") }
