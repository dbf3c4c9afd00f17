//go:build !linux || !(amd64 || arm64)

package engine

import (
	"errors"
	"runtime"
)

const exitDisk = 5

func guardWrites(uintptr, string, string, uintptr) error {
	return errors.New("its writes cannot be guarded on " + runtime.GOOS + "/" + runtime.GOARCH + ", and it loses data without on a full disk")
}
