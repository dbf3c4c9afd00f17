package service

import (
	"os"
	"runtime"
	"sync"
)

// Processors is how many processors this process has, whatever ShareProcessors has made of Go's own number.
var Processors = sync.OnceValue(func() int { return runtime.GOMAXPROCS(0) })

// Lanes is how many lanes the sink of a process with all roles has, unless somebody says.
func Lanes() int { return lanesFor(Processors()) }

// lanesFor is two, so that two inserts run at once, and one where the other processor is the roles': then inserts are half as many and
// twice as large, and ClickHouse has less to do and to merge.
func lanesFor(processors int) int { return min(2, max(1, processors-1)) }

// ShareProcessors has Go run more goroutines at once than there are processors, unless the environment says how many with Go's own
// variable. Go gives each goroutine 10 ms and has one line for each processor, so beside a tenant's large uploads, which are decompressed,
// cut and folded, each step of a small one would wait behind all of them: some 100 ms in all on two cores. The kernel shares processors in
// shorter turns, and lets who has waited go first.
func ShareProcessors() {
	n := Processors()
	if _, set := os.LookupEnv("GOMAXPROCS"); !set {
		runtime.GOMAXPROCS(threadsFor(n))
	}
}

// threadsFor is how many goroutines run at once on so many processors. Of many processors, one is soon free.
func threadsFor(processors int) int { return min(3*processors, processors+16) }
