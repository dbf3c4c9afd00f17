package parca

import "fmt"

// Codes of [Error].
const (
	CodeCorrupt       = "corrupt"        // what announces itself as this format and does not keep to it
	CodeSchema        = "schema"         // a column is missing or has a type that this schema does not have
	CodeTooLarge      = "too_large"      // beyond a bound of this package
	CodeNeedLocations = "need_locations" // a v1 record without its locations
	CodeOldOTLP       = "otlp_version"   // OTLP profiles of another version than 1.10 and 1.11
)

// Error says why an upload can never be accepted. Nothing of it was taken.
type Error struct {
	Code   string // one of the Code constants
	Detail string // plain words, at most a few hundred bytes
}

func (e *Error) Error() string { return e.Code + ": " + e.Detail }

// NeedLocations is what [Batch.DecodeArrow] returns for a record of schema v1: stacks come in a second record.
type NeedLocations struct{}

func (*NeedLocations) Error() string {
	return CodeNeedLocations + ": this record has schema v1, whose stacks come in a second record; send both, or a .padata file"
}

func corrupt(format string, args ...any) *Error {
	return &Error{Code: CodeCorrupt, Detail: fmt.Sprintf(format, args...)}
}
