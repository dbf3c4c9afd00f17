package parca

import (
	"slices"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/proto/parca"
	"github.com/warpline/warpline/proto/reject"
)

// outside takes the rows out of a part whose times are not within the tenant's limits, and puts them with what is refused of it.
func outside(p *aggregate.Part, in *parca.Part) {
	if !p.Bounded() {
		return
	}
	var old, future uint64
	within := func(at int64) bool {
		switch p.Outside(at) {
		case reject.TooOld:
			old++
		case reject.InFuture:
			future++
		default:
			return true
		}
		return false
	}
	refuse := func(kind string) {
		for reason, n := range map[string]*uint64{reject.TooOld: &old, reject.InFuture: &future} {
			if *n > 0 {
				in.Refused = append(in.Refused, parca.Refused{Reason: reason, Detail: "rows that are " + p.OutsideWords(reason), Type: kind, Rows: *n})
			}
			*n = 0
		}
	}
	in.PC = slices.DeleteFunc(in.PC, func(r parca.PCRow) bool { return !within(r.At) })
	refuse("gpu_pcsample")
	in.Kernels = slices.DeleteFunc(in.Kernels, func(r parca.KernelRow) bool { return !within(r.At) })
	refuse("gpu_kernel_time")
}
