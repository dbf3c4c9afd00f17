package service

// Unreachable is the error of what cannot be reached now, and may be later: NATS, ClickHouse, a service that has not started. Its text is
// that of the error in it.
type Unreachable struct{ Err error }

// Error is the text of the error in it.
func (u Unreachable) Error() string { return u.Err.Error() }

// Unwrap returns the error in it.
func (u Unreachable) Unwrap() error { return u.Err }
