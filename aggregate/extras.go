package aggregate

import (
	"strings"

	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
)

// extras keeps what a line has beyond what this version knows, and counts it: unknown is how much there is, extras as much of it as is
// kept. Of a tenant without raw rows it is only counted.
func (f *folder) extras(s *session, p *part, l *gpuflight.Line, extras []gpuflight.Extra, unknown int) {
	f.metrics.unknownColumns.Add(float64(unknown))
	if s.noRaw || len(extras) == 0 {
		return
	}
	t := &table.ExtraFields
	b := f.out.batch(t.Table, p.raw)
	for i := range extras {
		e := &extras[i]
		t.Tenant.AppendString(b, s.key.tenant)
		t.SessionID.AppendString(b, s.key.id)
		t.At.Append(b, max(l.BaseTimeNS, 0))
		t.Type.AppendString(b, l.Type.String())
		t.BatchID.Append(b, l.BatchID)
		t.Field.AppendString(b, clip(string(e.Name)))
		t.Reason.AppendString(b, extraReason(e))
		t.Rows.Append(b, uint64(e.Rows))
		t.Values.Append(b, strings.ToValidUTF8(string(e.Value), "\uFFFD"))
		t.ReceivedAt.Append(b, p.env.ReceivedAt)
	}
	f.out.saw(p.env.ReceivedAt)
}

// extraReason is why an extra is kept.
func extraReason(e *gpuflight.Extra) string {
	if e.Bad {
		return gpuflight.ReasonBadValue
	}
	return "unknown"
}

// leftovers keeps what a line that is read whatever it holds had and its row has not. The line is stored all the same: a session whose
// job_start has one odd field must not lose its name and its devices.
func (f *folder) leftovers(s *session, p *part, l *gpuflight.Line) {
	if left := gpuflight.LeftoversOf(l); len(left.Extras) > 0 {
		f.metrics.badFields.Add(float64(left.Bad))
		f.extras(s, p, l, left.Extras, left.Unknown)
	}
}
