package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is the kernel's unit of CPU time in /proc, 100 on every Linux that Go runs on.
const ticksPerSecond = 100

type procStat struct {
	parent int
	cpu    time.Duration
	bytes  int64 // resident
	files  int64 // of them those that are also in files: code, above all
}

func readProc(pid int) (p procStat, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return p, err
	}
	// The name, in parentheses, may hold anything; what follows the last one is regular. Fields from there: state, ppid, …
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 22 {
		return p, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(f))
	}
	n := func(i int) int64 { v, _ := strconv.ParseInt(f[i], 10, 64); return v }
	p = procStat{parent: int(n(1)), cpu: time.Duration(n(11)+n(12)) * time.Second / ticksPerSecond, bytes: n(21) * int64(os.Getpagesize())}
	if b, err = os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid)); err == nil {
		if f = strings.Fields(string(b)); len(f) > 2 { // size, resident, shared, …
			p.files = n(2) * int64(os.Getpagesize())
		}
	}
	return p, nil
}

// processUsage adds up a process and its descendants.
func processUsage(pid int) (u usage, err error) {
	own, err := readProc(pid)
	if err != nil {
		return u, err
	}
	u.ownBytes, u.ownCPU, u.fileBytes = own.bytes, own.cpu, own.files
	for _, c := range descendants(pid) {
		if p, err := readProc(c); err == nil {
			u.childBytes += p.bytes
			u.fileBytes += p.files
			u.childCPU += p.cpu
		}
	}
	return u, nil
}

// descendants reads the lists of children that the kernel keeps per thread: far cheaper than reading every process.
func descendants(pid int) (all []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, l := range lists {
		b, err := os.ReadFile(l)
		if err != nil {
			continue
		}
		for _, s := range strings.Fields(string(b)) {
			if c, err := strconv.Atoi(s); err == nil {
				all = append(append(all, c), descendants(c)...)
			}
		}
	}
	return all
}

// machineMemory returns the bytes of memory of this machine, 0 when they cannot be read.
func machineMemory() int64 {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "MemTotal:" {
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}
