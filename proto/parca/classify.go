package parca

import (
	"math"
	"math/bits"
	"time"
)

// Reasons of refusal that a part counts rows by.
const (
	ReasonNotGPU       = "not_gpu"
	ReasonBadValue     = "bad_value"
	ReasonMergedCounts = "merged_counts"
)

// class is what rows of a sample type are.
type class uint8

const (
	classOther class = iota
	classPC
	classKernel
	classMerged
)

func classOf(sampleType string) class {
	switch sampleType {
	case "gpu_pcsample":
		return classPC
	case "gpu_kernel_time":
		return classKernel
	case "gpu_time":
		return classMerged
	}
	return classOther
}

// verdict is what becomes of a row: kept, or refused for a reason.
type verdict uint8

const (
	keepPC verdict = iota
	keepKernel
	refuseOther
	refuseMerged
	refuseNoValue
	refuseNegative
	refuseTime
	refuseLong
	refuseTooMuch
	refusePeriod
	refuseNoStack
	refuseNotSent
	refuseLeaf
	refuseNoName
	refuseView
	refuseNumber
)

// refusals is the reason and detail of each verdict.
var refusals = [...]struct{ reason, detail string }{
	refuseOther: {ReasonNotGPU, ""},
	refuseMerged: {ReasonMergedCounts, "gpu_time of gpu_view pc_sample: counts and times are mixed; " +
		"run parca-agent without --merge-gpu-profiles"},
	refuseNoValue:  {ReasonBadValue, "the value is missing"},
	refuseNegative: {ReasonBadValue, "the value is below 0"},
	refuseTime:     {ReasonBadValue, "the time is missing, or not between 1970 and 2262"},
	refuseLong:     {ReasonBadValue, "the kernel ends after 2262"},
	refuseTooMuch:  {ReasonBadValue, "samples times period do not fit 64 bits"},
	refusePeriod:   {ReasonBadValue, "the period is below 0"},
	refuseNoStack:  {ReasonBadValue, "the stack is missing"},
	refuseNotSent:  {ReasonBadValue, "the stack was not among the locations"},
	refuseLeaf:     {ReasonBadValue, "the innermost frame is none of a GPU"},
	refuseNoName:   {ReasonBadValue, "the kernel has no name"},
	refuseView:     {ReasonBadValue, "gpu_time without a gpu_view that is known"},
	refuseNumber:   {ReasonBadValue, "cuda_stream, cuda_graph or cuda_id is no number"},
}

// latest is the last time that is taken: buckets of a day end before DateTime64(9) does.
const latest = math.MaxInt64 - int64(48*time.Hour)

// judge says what becomes of a row.
func (b *Batch) judge(r *row) verdict {
	h, s := &b.heads[r.head], &b.sets[r.set]
	pc := false
	switch classOf(b.texts.all[h.sampleType]) {
	case classOther:
		return refuseOther
	case classPC:
		pc = true
	case classMerged:
		switch b.texts.all[s.view] {
		case "kernel_time":
		case "pc_sample":
			return refuseMerged
		default:
			return refuseView
		}
	}
	switch {
	case r.bad == noValue:
		return refuseNoValue
	case r.value < 0:
		return refuseNegative
	case r.bad == noTime, r.at <= 0, r.at > latest:
		return refuseTime
	}
	st := &b.stacks[r.stack]
	switch {
	case st.missing:
		return refuseNotSent
	case st.from == st.to:
		return refuseNoStack
	}
	leaf := &b.locs[b.held2[st.from]]
	kind := b.texts.all[leaf.kind]
	if pc && kind != "cuda-pc" || !pc && kind != "cuda" {
		return refuseLeaf
	}
	if b.kernelName(leaf) == 0 {
		return refuseNoName
	}
	if !pc {
		switch {
		case s.bad:
			return refuseNumber
		case r.value > latest-r.at:
			return refuseLong
		}
		return keepKernel
	}
	if h.period < 0 {
		return refusePeriod
	}
	if hi, _ := bits.Mul64(uint64(r.value), uint64(h.period)); hi != 0 {
		return refuseTooMuch
	}
	return keepPC
}

// kernelName is the text of the innermost function of a location.
func (b *Batch) kernelName(l *location) uint32 {
	if l.from == l.to {
		return 0
	}
	return b.lines[l.from].function
}

// finish makes ready to cut: which session each row is of, and the launch stacks. After it, nothing can fail.
func (b *Batch) finish() error {
	for i := range b.rows {
		r := &b.rows[i]
		b.sessions[b.procs[b.sets[r.set].proc].session].rows++
		st := &b.stacks[r.stack]
		if st.known || st.from == st.to || classOf(b.texts.all[b.heads[r.head].sampleType]) == classOther {
			continue
		}
		if _, err := b.launchOf(st); err != nil {
			return err
		}
	}
	return nil
}
