package gpuflight

import (
	"bytes"
	"unicode/utf8"

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
	b := f.Out.Batch(table.ExtraFields.Table, p.Raw)
	for i := range extras {
		e := &extras[i]
		values := e.Value
		if !utf8.Valid(values) {
			values = bytes.ToValidUTF8(values, []byte("\uFFFD"))
		}
		f.extraRow = table.ExtraFieldRow{
			HeadRow:    s.Head(),
			At:         max(l.BaseTimeNS, 0),
			Type:       l.Type.String(),
			BatchID:    l.BatchID,
			Field:      rows.ClipBytes(e.Name),
			Reason:     extraReason(e),
			Rows:       uint64(e.Rows),
			Values:     values,
			ReceivedAt: p.Env.ReceivedAt,
		}
		table.ExtraFields.Append(b, &f.extraRow)
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
