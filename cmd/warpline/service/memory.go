package service

import (
	"os"
	"runtime/debug"
)

// softMemoryBytes is what the roles of one process aim to stay under together. Most of it is what JetStream keeps of the last ten
// seconds of both streams; the collector gives that back first. On two cores at full load, columnar rows: 0.94 GB resident at
// 1.40 M rows/s, against 1.77 GB at 1.62 M rows/s without a bound.
const softMemoryBytes = 900 << 20

// BoundMemory sets the aims of this process's collector, unless the environment says otherwise with Go's own variables.
func BoundMemory() {
	if _, set := os.LookupEnv("GOMEMLIMIT"); !set {
		debug.SetMemoryLimit(softMemoryBytes)
	}
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(50)
	}
}
