package parca

import (
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/parca"
	"github.com/warpline/warpline/sink/table"
)

// stackKey is the key of a row of kernel_stacks within a batch; the function is an index in the batch's column.
type stackKey struct {
	hi, lo                    uint64
	session, minute, function uint32
	day                       int32
}

// stackSums is where the rows of a batch of kernel_stacks are.
type stackSums struct {
	rowSums[stackKey]

	function columnTexts
}

func newStackSums(b *table.Batch) *stackSums { return &stackSums{rowSums: newRowSums[stackKey](b)} }

// launched adds the part's kernels up by the stacks that launched them. Kernels without a stack count under content 0, so that the sums are
// those of all kernels. Samples have their stacks in the rows of pc_buckets.
func (f *folding) launched(s *session, p *aggregate.Part, in *parca.Part) {
	if p.Env.NoStacks || len(in.Kernels) == 0 {
		return
	}
	t := &table.KernelStacks
	b := f.Facts(p, t.Table)
	sums := sumsOf(&f.stacks, b, newStackSums)
	sums.function.begin(len(in.Strings))
	tenant, id, day := t.Tenant.Index(b, s.Key.Tenant), t.SessionID.Index(b, s.Key.ID), rows.DayOf(p.Env.ReceivedAt)
	calls, ns := t.Calls.Slice(b), t.KernelNS.Slice(b)
	for i := range in.Kernels {
		r := &in.Kernels[i]
		stack := f.stackOf(s, p, in, r.Stack)
		key := stackKey{
			hi: stack.Hi, lo: stack.Lo, session: s.serial, minute: uint32(r.At / rows.BucketNS),
			function: uint32(sums.function.index(t.Function, b, in.Strings, r.Function)), day: day,
		}
		if at, ok := sums.at[key]; ok {
			(*calls)[at]++
			(*ns)[at] += r.DurationNS
			continue
		}
		sums.add(&key)
		t.Tenant.Append(b, tenant)
		t.SessionID.Append(b, id)
		t.Bucket.Append(b, int64(key.minute)*rows.BucketNS)
		t.BucketS.Append(b, 60)
		t.Function.Append(b, int32(key.function))
		t.ContentHi.Append(b, stack.Hi)
		t.ContentLo.Append(b, stack.Lo)
		t.Calls.Append(b, 1)
		t.KernelNS.Append(b, r.DurationNS)
		t.ReceivedDay.Append(b, day)
	}
}

// stackOf returns a stack of the part, whose frames are written before rows link to them.
func (f *folding) stackOf(s *session, p *aggregate.Part, in *parca.Part, i uint32) *parca.Stack {
	stack := &in.Stacks[i]
	if !f.now.written[i] {
		f.now.written[i] = true
		if stack.Hi != 0 || stack.Lo != 0 {
			f.frames(s, p, stack)
		}
	}
	return stack
}

// maxFrameBytes is where the frames of a stack are cut.
const maxFrameBytes = 64 << 10

// frames writes the content of a stack and the session's link to it, when the session has not done so on this day.
func (f *folding) frames(s *session, p *aggregate.Part, stack *parca.Stack) {
	key, day := xxh3.Uint128{Hi: stack.Hi, Lo: stack.Lo}, rows.DayOf(p.Env.ReceivedAt)
	known := s.written.get(key)
	if known == nil {
		known = s.written.add(key, 0)
	}
	if !s.written.on(known, day) {
		return
	}
	partition := rows.FactDayPartition(p.Env.ReceivedAt, rows.FactDays(p.Env.RetentionDays, p.Env.RollupDays))
	table.SessionStacks.Append(f.Out.Batch(table.SessionStacks.Table, partition), &table.SessionStackRow{
		HeadRow: s.Head(), ContentHi: key.Hi, ContentLo: key.Lo, ReceivedDay: day})
	t := &table.StackFrames
	b := f.Out.Batch(t.Table, partition)
	tenant := t.Tenant.Index(b, s.Key.Tenant)
	add := func(key xxh3.Uint128, text string) {
		t.Tenant.Append(b, tenant)
		t.ContentHi.Append(b, key.Hi)
		t.ContentLo.Append(b, key.Lo)
		t.Frames.Append(b, text)
		t.ReceivedDay.Append(b, day)
	}
	add(xxh3.Uint128{}, "") // the mark, see table.StackFrames
	add(key, frameText(stack.Frames))
}

// frameText is frames a line each.
func frameText(frames []string) string {
	var text strings.Builder
	for i, frame := range frames {
		if text.Len()+len(frame) > maxFrameBytes {
			text.WriteString("\n…")
			break
		}
		if i > 0 {
			text.WriteByte('\n')
		}
		text.WriteString(oneLine.Replace(frame))
	}
	return strings.ToValidUTF8(text.String(), "\uFFFD")
}

// oneLine takes line breaks out of text that is a line of another.
var oneLine = strings.NewReplacer("\n", " ", "\r", " ")
