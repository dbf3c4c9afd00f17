package parca

import (
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/parca"
	"github.com/warpline/warpline/sink/table"
)

// stackKey is the key of a row of pc_stacks within a batch; texts are indexes in the batch's columns.
type stackKey struct {
	hi, lo                            uint64
	session, minute, function, reason uint32
	day                               int32
}

// stackSums is where the rows of a batch of pc_stacks are.
type stackSums struct {
	rowSums[stackKey]

	function, reason columnTexts
	tenant, id       int32 // of the part's session
}

func (f *folding) stacksOf(b *table.Batch) *stackSums {
	at := slices.IndexFunc(f.stacks, func(s *stackSums) bool { return s.b == b })
	if at < 0 {
		if len(f.stacks) >= maxBatches {
			f.stacks = nil
		}
		at = len(f.stacks)
		f.stacks = append(f.stacks, &stackSums{rowSums: rowSums[stackKey]{b: b, rows: b.Rows(), at: map[stackKey]int32{}}})
	}
	f.stacks[at].begin()
	return f.stacks[at]
}

// launched adds the part's samples and kernels up by the stacks that launched them. Rows without a stack count under content 0, so that the
// sums are those of all rows.
func (f *folding) launched(s *session, p *aggregate.Part, in *parca.Part) {
	if p.Env.NoStacks || len(in.PC)+len(in.Kernels) == 0 {
		return
	}
	t := &table.PCStacks
	b := f.Facts(p, t.Table)
	sums := f.stacksOf(b)
	for _, c := range []*columnTexts{&sums.function, &sums.reason} {
		c.begin(len(in.Strings))
	}
	sums.tenant, sums.id = t.Tenant.Index(b, s.Key.Tenant), t.SessionID.Index(b, s.Key.ID)
	day := rows.DayOf(p.Env.ReceivedAt)
	for i := range in.PC {
		r := &in.PC[i]
		stack := f.stackOf(s, p, in, r.Stack)
		at := sums.row(&stackKey{
			hi: stack.Hi, lo: stack.Lo, session: s.serial, minute: uint32(r.At / rows.BucketNS),
			function: uint32(sums.function.index(t.Function, b, in.Strings, r.Function)),
			reason:   uint32(sums.reason.index(t.StallReason, b, in.Strings, r.Reason)),
			day:      day,
		})
		(*t.Samples.Slice(b))[at] += r.Samples
		(*t.GPUNS.Slice(b))[at] += r.Samples * r.PeriodNS
	}
	reason := uint32(t.StallReason.Index(b, ""))
	for i := range in.Kernels {
		r := &in.Kernels[i]
		stack := f.stackOf(s, p, in, r.Stack)
		at := sums.row(&stackKey{
			hi: stack.Hi, lo: stack.Lo, session: s.serial, minute: uint32(r.At / rows.BucketNS),
			function: uint32(sums.function.index(t.Function, b, in.Strings, r.Function)), reason: reason, day: day,
		})
		(*t.Calls.Slice(b))[at]++
		(*t.KernelNS.Slice(b))[at] += r.DurationNS
	}
}

// row returns the number of a key's row, and appends one when it is new.
func (s *stackSums) row(key *stackKey) int32 {
	if at, ok := s.at[*key]; ok {
		return at
	}
	at := s.add(key)
	t, b := &table.PCStacks, s.b
	t.Tenant.Append(b, s.tenant)
	t.SessionID.Append(b, s.id)
	t.Bucket.Append(b, int64(key.minute)*rows.BucketNS)
	t.BucketS.Append(b, 60)
	t.Function.Append(b, int32(key.function))
	t.StallReason.Append(b, int32(key.reason))
	t.ContentHi.Append(b, key.hi)
	t.ContentLo.Append(b, key.lo)
	t.Samples.Append(b, 0)
	t.GPUNS.Append(b, 0)
	t.Calls.Append(b, 0)
	t.KernelNS.Append(b, 0)
	t.ReceivedDay.Append(b, key.day)
	return at
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

// frames writes the content of a stack, when the session has not done so on this day.
func (f *folding) frames(s *session, p *aggregate.Part, stack *parca.Stack) {
	key, day := xxh3.Uint128{Hi: stack.Hi, Lo: stack.Lo}, rows.DayOf(p.Env.ReceivedAt)
	known := s.written.get(key)
	if known == nil {
		known = s.written.add(key, 0)
	}
	if !s.written.on(known, day) {
		return
	}
	t := &table.StackFrames
	b := f.Out.Batch(t.Table, rows.FactDayPartition(p.Env.ReceivedAt, rows.FactDays(p.Env.RetentionDays, p.Env.RollupDays)))
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
