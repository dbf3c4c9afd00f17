package parca

import (
	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/parca"
	"github.com/warpline/warpline/sink/table"
)

// Samples are added up in the rows of the open chunk themselves: a row of pc_buckets is found by its key, and the numbers of it grow until
// the chunk is published. Nothing is held back: the agent adds five seconds up before it sends, so there is little to gain.

// bucketKey is the key of a row of pc_buckets within a batch; texts are indexes in the batch's columns.
type bucketKey struct {
	offset, period, hi, lo                                uint64
	session, minute, function, cubin, build, reason, sass uint32
	device, day                                           int32
}

// bucketSums is where the rows of a batch of pc_buckets are.
type bucketSums struct {
	rowSums[bucketKey]

	function, demangled, cubin, build, reason, sass columnTexts
}

func newBucketSums(b *table.Batch) *bucketSums {
	return &bucketSums{rowSums: newRowSums[bucketKey](b)}
}

// samples adds the part's samples up.
func (f *folding) samples(s *session, p *aggregate.Part, in *parca.Part) {
	if len(in.PC) == 0 {
		return
	}
	t := &table.PCBuckets
	b := f.Facts(p, t.Table)
	sums := sumsOf(&f.buckets, b, newBucketSums)
	n := len(in.Strings)
	for _, c := range []*columnTexts{&sums.function, &sums.demangled, &sums.cubin, &sums.build, &sums.reason, &sums.sass} {
		c.begin(n)
	}
	tenant, id, day := t.Tenant.Index(b, s.Key.Tenant), t.SessionID.Index(b, s.Key.ID), rows.DayOf(p.Env.ReceivedAt)
	samples, ns, hits := t.Samples.Slice(b), t.GPUNS.Slice(b), t.Hits.Slice(b)
	stalled, none := uint64(0), parca.Stack{}
	if p.Env.NoStacks {
		none.Lo = table.StackNotKept
	}
	for i := range in.PC {
		r := &in.PC[i]
		stack := &none
		if !p.Env.NoStacks {
			stack = f.stackOf(s, p, in, r.Stack)
		}
		if f.now.stall(in.Strings, r.Reason) {
			stalled += r.Samples
		}
		minute := r.At / rows.BucketNS
		key := bucketKey{
			offset: r.Offset, period: r.PeriodNS, session: s.serial, minute: uint32(minute),
			function: uint32(sums.function.index(t.Function, b, in.Strings, r.Function)),
			cubin:    uint32(sums.cubin.index(t.Cubin, b, in.Strings, r.Cubin)),
			build:    uint32(sums.build.index(t.BuildID, b, in.Strings, r.BuildID)),
			reason:   uint32(sums.reason.index(t.StallReason, b, in.Strings, r.Reason)),
			sass:     uint32(sums.sass.index(t.SASS, b, in.Strings, r.SASS)),
			device:   r.Device, day: day, hi: stack.Hi, lo: stack.Lo,
		}
		if at, ok := sums.at[key]; ok {
			(*samples)[at] += r.Samples
			(*ns)[at] += r.Samples * r.PeriodNS
			(*hits)[at]++
			continue
		}
		sums.add(&key)
		t.Tenant.Append(b, tenant)
		t.SessionID.Append(b, id)
		t.Bucket.Append(b, minute*rows.BucketNS)
		t.BucketS.Append(b, 60)
		t.Cubin.Append(b, int32(key.cubin))
		t.BuildID.Append(b, int32(key.build))
		t.Function.Append(b, int32(key.function))
		t.Demangled.Append(b, f.demangledIndex(sums, in.Strings, r.Function))
		t.PCOffset.Append(b, r.Offset)
		t.SASS.Append(b, int32(key.sass))
		t.StallReason.Append(b, int32(key.reason))
		t.PeriodNS.Append(b, r.PeriodNS)
		t.DeviceID.Append(b, r.Device)
		t.ContentHi.Append(b, stack.Hi)
		t.ContentLo.Append(b, stack.Lo)
		t.Samples.Append(b, r.Samples)
		t.GPUNS.Append(b, r.Samples*r.PeriodNS)
		t.Hits.Append(b, 1)
		t.ReceivedDay.Append(b, day)
	}
	s.Delta.Samples += stalled
	f.cubinSamples(s, p, in)
}

// demangledIndex returns the index of a function's readable name.
func (f *folding) demangledIndex(sums *bucketSums, texts []string, i uint32) int32 {
	if at := sums.demangled.of[i]; at != 0 {
		return at - 1
	}
	at := table.PCBuckets.Demangled.Index(sums.b, f.demangled.of(texts[i]))
	sums.demangled.of[i] = at + 1
	return at
}
