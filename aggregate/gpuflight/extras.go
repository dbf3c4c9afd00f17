package gpuflight

import (
	"strings"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
)

// extras keeps the fields of a line that this version does not know, and counts them: unknown is how many there are, extras those that are
// kept. For a tenant without raw rows they are only counted.
func (f *folding) extras(s *session, p *aggregate.Part, l *gpuflight.Line, extras []gpuflight.Extra, unknown int) {
	f.CountUnknown(unknown)
	if s.NoRaw || len(extras) == 0 {
		return
	}
	t := &table.ExtraFields
	b := f.Out.Batch(t.Table, p.Raw)
	for i := range extras {
		e := &extras[i]
		t.Tenant.AppendString(b, s.Key.Tenant)
		t.SessionID.AppendString(b, s.Key.ID)
		t.At.Append(b, max(l.BaseTimeNS, 0))
		t.Type.AppendString(b, l.Type.String())
		t.BatchID.Append(b, l.BatchID)
		t.Field.AppendString(b, rows.Clip(string(e.Name)))
		t.Reason.AppendString(b, extraReason(e))
		t.Rows.Append(b, uint64(e.Rows))
		t.Values.Append(b, strings.ToValidUTF8(string(e.Value), "\uFFFD"))
		t.ReceivedAt.Append(b, p.Env.ReceivedAt)
	}
	f.Out.Saw(p.Env.ReceivedAt)
}

// extraReason is why an extra is kept.
func extraReason(e *gpuflight.Extra) string {
	if e.Bad {
		return gpuflight.ReasonBadValue
	}
	return "unknown"
}

// leftovers keeps what a line has and its rows do not: keys of newer clients, and values that did not fit. Such lines are stored all the
// same, since a session whose job_start has one odd field must not lose its name and its devices.
func (f *folding) leftovers(s *session, p *aggregate.Part, l *gpuflight.Line) {
	if left := gpuflight.LeftoversOf(l); len(left.Extras) > 0 {
		f.CountBad(left.Bad)
		f.extras(s, p, l, left.Extras, left.Unknown)
	}
}

// detailLeftovers keeps what a kernel_detail has beyond a launch configuration, once with each configuration: a kernel costs a few bytes,
// and its details are nearly always the same as those of others.
func (f *folding) detailLeftovers(s *session, p *aggregate.Part, line []byte) {
	f.leftovers(s, p, &gpuflight.Line{Type: gpuflight.KernelDetail, Raw: line})
}
