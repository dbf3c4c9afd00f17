//go:build !linux

package bench

import "errors"

func processUsage(int) (usage, error) {
	return usage{}, errors.New("memory and CPU of processes are measured on Linux only")
}

func machineMemory() int64 { return 0 }
