package intrakernel

import (
	"errors"
	"fmt"
)

// The inputs that an Error can be about.
const (
	InHeader   = "input"
	InEvents   = "events"
	InCounters = "counters"
	InTrace    = "trace"
)

// Error says which of the inputs cannot be used, and why: the field, the number and what to do.
type Error struct {
	// In is one of InHeader, InEvents, InCounters and InTrace.
	In   string
	Text string
	// Err is what reading ended with, nil if the content is at fault.
	Err error
}

// Error is In and Text.
func (e *Error) Error() string { return e.In + ": " + e.Text }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// ErrTooMany is what Error.Err is for a capture that has more records than Header.Most.
var ErrTooMany = errors.New("too many records")

// tooMany is the error of a capture that goes on after so many records.
func tooMany(in string, most int) error {
	return &Error{In: in, Err: ErrTooMany, Text: fmt.Sprintf("more than %d records are kept: give a block_filter in the input, or record less",
		most)}
}

// most is how many records may be kept.
func (h *Header) most() int {
	if h.Most > 0 {
		return min(h.Most, maxRecords)
	}
	return maxRecords
}

func wrong(in, format string, args ...any) error {
	return &Error{In: in, Text: fmt.Sprintf(format, args...)}
}
