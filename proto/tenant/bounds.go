package tenant

import (
	"fmt"
	"math"
	"unicode"
	"unicode/utf8"

	"github.com/warpline/warpline/proto/stream"
)

// LimitError says which limit cannot be so.
type LimitError struct {
	Field string // its name in JSON
	Why   string
}

// Error names the limit as JSON does.
func (e *LimitError) Error() string { return "limits." + e.Field + ": " + e.Why }

// number is a limit by its name in JSON, as a number.
type number struct {
	field string
	value float64
}

// numbers are all limits that are numbers: the larger, the more a tenant may.
func (l *Limits) numbers() []number {
	return []number{
		{"events_per_second", l.EventsPerSecond}, {"bytes_per_second", l.BytesPerSecond}, {"raw_bytes_per_second", l.RawBytesPerSecond},
		{"requests_per_second", l.RequestsPerSecond}, {"burst_seconds", l.BurstSeconds}, {"max_body_bytes", float64(l.MaxBodyBytes)},
		{"max_raw_bytes", float64(l.MaxRawBytes)}, {"max_ratio", l.MaxRatio}, {"max_line_bytes", float64(l.MaxLineBytes)},
		{"retention_days", float64(l.RetentionDays)}, {"rollup_days", float64(l.RollupDays)}, {"max_cubin_bytes", float64(l.MaxCubinBytes)},
		{"uploads_at_once", float64(l.UploadsAtOnce)}, {"names", float64(l.Names)}, {"name_length", float64(l.NameBytes)},
		{"open_scopes", float64(l.OpenScopes)}, {"active_sessions", float64(l.ActiveSessions)},
		{"pending_bytes", float64(l.PendingBytes)},
		{"past_seconds", l.PastSeconds}, {"future_seconds", l.FutureSeconds}, {"quota_events_per_day", l.EventsPerDay},
		{"quota_bytes_per_day", l.BytesPerDay},
		{"quota_trickle", l.QuotaTrickle},
	}
}

// Check returns a *LimitError when l cannot be anybody's limits.
func (l Limits) Check() error {
	for _, n := range l.numbers() {
		if !(n.value >= 0) || math.IsInf(n.value, 0) {
			return &LimitError{n.field, fmt.Sprintf("%v: use a positive number, or 0 for the default", n.value)}
		}
	}
	switch p := l.QuotaPolicy; {
	case l.QuotaTrickle > 1:
		return &LimitError{"quota_trickle", fmt.Sprintf("%v: use a share from 0 to 1", l.QuotaTrickle)}
	case p != "" && p != QuotaHold && p != QuotaDrop:
		return &LimitError{"quota_policy", fmt.Sprintf("%q: use hold or drop", p)}
	case l.MaxCubinBytes > stream.MaxCubinBytes:
		return &LimitError{"max_cubin_bytes", fmt.Sprintf("%d: a cubin is at most %d", l.MaxCubinBytes, stream.MaxCubinBytes)}
	}
	return nil
}

// Above returns a *LimitError for a limit of l that is above the same of a tenant, whose zeros are no bounds. A zero of l is the tenant's
// own, and above nothing.
func (l Limits) Above(of Limits) error {
	most := of.numbers()
	for i, n := range l.numbers() {
		if m := most[i].value; m != 0 && n.value > m {
			return &LimitError{n.field, fmt.Sprintf("%v is above the tenant's %v", n.value, m)}
		}
	}
	return nil
}

// MaxNoteBytes bounds a note.
const MaxNoteBytes = 500

// CheckNote returns an error that says the rule when text cannot be a note, which others see in a terminal.
func CheckNote(text string) error {
	if len(text) > MaxNoteBytes || !utf8.ValidString(text) {
		return fmt.Errorf("note: use at most %d bytes of UTF-8", MaxNoteBytes)
	}
	for _, r := range text {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("note: %q cannot be printed: use letters, digits, signs and spaces", r)
		}
	}
	return nil
}
