package gpuflight

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/zeebo/xxh3"
)

func typeName(t gpuflight.Type) string {
	if t == gpuflight.TypeUnknown {
		return ""
	}
	return t.String()
}

// refused reports whether a line that is refused, known by its hash, was refused before: the same bad line again is not a second reject. A
// replay of it is told that it is refused still. It is remembered apart from lines that are stored, since it may be taken one day.
func (s *session) refused(p *aggregate.Part, h xxh3.Uint128) bool {
	h.Lo = ^h.Lo
	return !s.lines.Add(h) && p.Env.Replays() == ""
}

// rejectLine stores a line that does not decode.
func (f *folding) rejectLine(s *session, p *aggregate.Part, l *gpuflight.Line, line []byte, n uint64, err error) {
	t := gpuflight.TypeUnknown
	if l != nil {
		t = l.Type
	}
	if s.refused(p, f.lineHash(t, p, line)) {
		p.Duplicate(n)
		return
	}
	f.refuseLine(s, p, t, line, n, err)
}

// refuse stores a line of one event that was taken for new and does not decode after all.
func (f *folding) refuse(s *session, p *aggregate.Part, l *gpuflight.Line, err error) {
	f.refuseLine(s, p, l.Type, l.Raw, 1, err)
}

// refuseLine stores a line that is known to be new and does not decode.
func (f *folding) refuseLine(s *session, p *aggregate.Part, t gpuflight.Type, line []byte, n uint64, err error) {
	r := aggregate.Reject{Reason: gpuflight.ReasonBadJSON, Detail: err.Error(), Events: n, Payload: line}
	var bad *gpuflight.LineError
	if errors.As(err, &bad) {
		r.Reason, r.Detail = bad.Reason, bad.Detail
	}
	r.Type = typeName(t)
	f.Reject(p, r)
}

// rejectRow rejects one row of a batch for a reason that only the fold can see. raw may be nil: then the line is the payload.
func (f *folding) rejectRow(s *session, p *aggregate.Part, line *gpuflight.Line, reason, detail string, raw []byte) {
	r := aggregate.Reject{Reason: reason, Detail: detail, Type: typeName(line.Type), Events: 1, Payload: raw}
	if raw == nil {
		r.Bytes, r.Ref = uint64(len(line.Raw)), p.Ref()
		r.Payload = line.Raw[:min(len(line.Raw), 512)]
	}
	f.Reject(p, r)
}

func (f *folding) badTime(s *session, p *aggregate.Part, line *gpuflight.Line) {
	f.rejectRow(s, p, line, gpuflight.ReasonBadTime, "base_time_ns + dt_ns is before 1970 or after 2262", nil)
}

// quote makes client text safe to put into a detail.
func quote(text []byte) string {
	return strconv.Quote(strings.ToValidUTF8(string(text[:min(len(text), 80)]), "\uFFFD"))
}

// detailHash identifies a configuration by its fields. Its input is made so that it never equals a hash of the fast path. So a
// configuration that is written in two ways is stored twice, which is harmless.
func detailHash(d *gpuflight.Detail) xxh3.Uint128 {
	return xxh3.HashString128(fmt.Sprintf("%+v", *d))
}
