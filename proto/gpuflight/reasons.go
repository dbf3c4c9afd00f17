package gpuflight

// Reasons a line or a row of GPU Flight is refused. They are stored in the rejects table and label counters, so they are snake_case,
// never change, and are all listed here; those of every source are in proto/reject.
const (
	ReasonBadJSON          = "bad_json"          // not one JSON object: syntax, nan, a torn or trailing piece
	ReasonUnknownType      = "unknown_type"      // not a type this package knows
	ReasonNotYet           = "not_yet"           // a known type that nothing stores yet
	ReasonMissingField     = "missing_field"     // a key the type cannot do without
	ReasonMissingColumn    = "missing_column"    // a column the batch type cannot do without
	ReasonRaggedRow        = "ragged_row"        // more or fewer cells than columns
	ReasonBadValue         = "bad_value"         // a value of the wrong JSON kind, or not an integer where one is due
	ReasonOutOfRange       = "out_of_range"      // a number its column or field cannot hold
	ReasonNegativeDuration = "negative_duration" // a duration below zero
	ReasonBadTime          = "bad_time"          // base + offset is before 1970 or beyond what int64 nanoseconds hold
	ReasonSessionMismatch  = "session_mismatch"  // the line's session is not the window's

	ReasonArtifactTooLarge = "artifact_too_large" // code or source text beyond what a function, a file, a part or a session may have
)

// Reasons lists all Reason constants.
func Reasons() []string {
	return []string{
		ReasonBadJSON, ReasonUnknownType, ReasonNotYet, ReasonMissingField, ReasonMissingColumn, ReasonRaggedRow, ReasonBadValue,
		ReasonOutOfRange, ReasonNegativeDuration, ReasonBadTime, ReasonSessionMismatch, ReasonArtifactTooLarge,
	}
}

// LineError says why a whole line was refused.
type LineError struct {
	// Reason is one of the Reason constants.
	Reason string
	// Detail names the field, column or place, in words. It never quotes the sender's values.
	Detail string
}

// Error renders "reason: detail".
func (e *LineError) Error() string {
	if e.Detail == "" {
		return e.Reason
	}
	return e.Reason + ": " + e.Detail
}
