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
	Field string // its flag, without dashes before it
	Why   string
}

// Error names the limit as flags, files and JSON do.
func (e *LimitError) Error() string { return e.Field + ": " + e.Why }

// number is a limit by its name, as a number.
type number struct {
	field string
	value float64
}

// numbers are all limits that are numbers: the larger, the more a tenant may.
func (l *Limits) numbers() []number {
	return []number{
		{"limit-events-per-second", l.EventsPerSecond}, {"limit-bytes-per-second", l.BytesPerSecond},
		{"limit-raw-bytes-per-second", l.RawBytesPerSecond},
		{"limit-requests-per-second", l.RequestsPerSecond}, {"limit-burst-seconds", l.BurstSeconds}, {"limit-body", float64(l.MaxBodyBytes)},
		{"limit-raw-body", float64(l.MaxRawBytes)}, {"limit-ratio", l.MaxRatio}, {"limit-line", float64(l.MaxLineBytes)},
		{"retention-days", float64(l.RetentionDays)}, {"rollup-days", float64(l.RollupDays)}, {"limit-cubin", float64(l.MaxCubinBytes)},
		{"limit-uploads-at-once", float64(l.UploadsAtOnce)}, {"limit-names", float64(l.Names)}, {"limit-name-length", float64(l.NameBytes)},
		{"limit-open-scopes", float64(l.OpenScopes)}, {"limit-active-sessions", float64(l.ActiveSessions)},
		{"limit-pending-bytes", float64(l.PendingBytes)},
		{"limit-past", l.PastSeconds}, {"limit-future", l.FutureSeconds},
		{"quota-events-per-day", l.EventsPerDay}, {"quota-bytes-per-day", l.BytesPerDay}, {"quota-trickle", l.QuotaTrickle},
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
		return &LimitError{"quota-trickle", fmt.Sprintf("%v: use a share from 0 to 1", l.QuotaTrickle)}
	case p != "" && p != QuotaHold && p != QuotaDrop:
		return &LimitError{"quota-policy", fmt.Sprintf("%.40q: use hold or drop", p)}
	case l.RawRows != "" && l.RawRows != RawOn && l.RawRows != RawOff:
		return &LimitError{"raw-rows", fmt.Sprintf("%.40q: use on or off", l.RawRows)}
	case l.RetentionDays > MaxDays:
		return &LimitError{"retention-days", fmt.Sprintf("%d: use at most %d days", l.RetentionDays, MaxDays)}
	case l.RollupDays > MaxDays:
		return &LimitError{"rollup-days", fmt.Sprintf("%d: use at most %d days", l.RollupDays, MaxDays)}
	case l.MaxCubinBytes > stream.MaxCubinBytes:
		return &LimitError{"limit-cubin", fmt.Sprintf("%d: a cubin is at most %d", l.MaxCubinBytes, stream.MaxCubinBytes)}
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
