package gpuflight

// Reasons a line, a row or a body is refused. They are stored in the rejects table and label counters, so they are snake_case,
// never change, and are all listed here.
const (
	ReasonBadJSON          = "bad_json"          // not one JSON object: syntax, nan, a torn or trailing piece
	ReasonUnknownType      = "unknown_type"      // no type this package knows
	ReasonNotYet           = "not_yet"           // a known type that nothing stores yet
	ReasonMissingField     = "missing_field"     // a key the type cannot do without
	ReasonMissingColumn    = "missing_column"    // a column the batch type cannot do without
	ReasonRaggedRow        = "ragged_row"        // more or fewer cells than columns
	ReasonBadValue         = "bad_value"         // a value of the wrong JSON kind, or not an integer where one is due
	ReasonOutOfRange       = "out_of_range"      // a number its column or field cannot hold
	ReasonNegativeDuration = "negative_duration" // a duration below zero
	ReasonBadTime          = "bad_time"          // base + offset is before 1970 or beyond what int64 nanoseconds hold
	ReasonSessionMissing   = "session_missing"   // no session_id, or an empty one
	ReasonSessionMismatch  = "session_mismatch"  // the line's session is not the window's
	ReasonLineTooLong      = "line_too_long"     // longer than the limit for its kind
	ReasonTornGzip         = "torn_gzip"         // the compressed body ends or breaks in the middle
	ReasonBodyTooLarge     = "body_too_large"    // more bytes than the tenant may send in one body
	ReasonRatioExceeded    = "ratio_exceeded"    // expands beyond the allowed ratio
	ReasonDictionaryFull   = "dictionary_full"   // the session has as many names as it may
	ReasonSessionDeleted   = "session_deleted"   // its session was deleted; nothing of it is kept
	ReasonPoison           = "poison"            // folding its part failed again and again; nothing of the part is stored
	ReasonScopeOverflow    = "scope_overflow"    // the session has as many open scopes as it may

	ReasonArtifactTooLarge = "artifact_too_large" // code or source text beyond what a function, a file, a part or a session may have
)

// Reasons lists all Reason constants.
func Reasons() []string {
	return []string{
		ReasonBadJSON, ReasonUnknownType, ReasonNotYet, ReasonMissingField, ReasonMissingColumn, ReasonRaggedRow, ReasonBadValue, ReasonOutOfRange, ReasonNegativeDuration,
		ReasonBadTime, ReasonSessionMissing, ReasonSessionMismatch, ReasonLineTooLong, ReasonTornGzip, ReasonBodyTooLarge, ReasonRatioExceeded, ReasonDictionaryFull,
		ReasonSessionDeleted, ReasonPoison, ReasonScopeOverflow, ReasonArtifactTooLarge,
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
