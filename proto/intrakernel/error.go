package intrakernel

import "fmt"

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

func wrong(in, format string, args ...any) error {
	return &Error{In: in, Text: fmt.Sprintf(format, args...)}
}
