package telemetry

// Code says why something was refused, for programs. The set is closed: Codes lists it.
type Code string

// Reasons for refusing one record.
const (
	MissingFields     Code = "missing_fields"      // required keys are not there
	UnknownFields     Code = "unknown_fields"      // keys that the schema version does not have
	UnsupportedSchema Code = "unsupported_schema"  // schema_version is an integer, and none that the peer knows
	NotInteger        Code = "not_integer"         // also 2.0, 1e3, true and null where null is not allowed
	NotString         Code = "not_string"          //
	BlankString       Code = "blank_string"        // null, empty or white space only
	NotObject         Code = "not_object"          // metadata, or its memory_capabilities
	NotBoolean        Code = "not_boolean"         // a capability; 0 and 1 are not booleans either
	NotNull           Code = "not_null"            // a counter that the collector cannot measure by its own word
	BelowMinimum      Code = "below_minimum"       // an integer under the least value of its field
	AboveTotal        Code = "above_total"         // used or free is more than total
	RankOutsideWorld  Code = "rank_outside_world"  // rank or local_rank is not below world_size
	LegacyRefused     Code = "legacy_refused"      // no schema_version, and conversion was not wanted
	TimestampMissing  Code = "timestamp_missing"   // a legacy record without a usable time
	NotFinite         Code = "not_finite"          // a legacy number that is NaN, infinite or past a double
	IntegerRange      Code = "integer_range"       // beyond 64 bits; the peer would take it
	NonASCIIDigits    Code = "non_ascii_digits"    // a legacy device number in digits of another script
	EventNotObject    Code = "event_not_object"    // an element of the list is not an object
	RecordTooLarge    Code = "record_too_large"    // longer than Options.MaxRecordBytes
	TooDeep           Code = "too_deep"            // nested deeper than MaxDepth
	IntegerTooLong    Code = "integer_too_long"    // more digits than MaxDigits
	OtherSession      Code = "other_session"       // a record that is not of the session that its document is of
	BadSummary        Code = "bad_summary"         // a document's session_summary
	BadAlert          Code = "bad_alert"           // an element of the alerts beside a document's events
	BadUTF8           Code = "bad_utf8"            //
	BadJSON           Code = "bad_json"            // a line, or a whole document
	MalformedRow      Code = "malformed_row"       // a row of a CSV file: quotes that do not close, or more cells than columns
	NotContainer      Code = "not_container"       // a document that is neither object nor array
	NoEvents          Code = "no_events"           // an object without events that is not an event
	EventsNotList     Code = "events_not_list"     // the named key holds no list
	EventsKeyRepeated Code = "events_key_repeated" // in one pass only: the list came twice, and the first was already given out
)

// Codes returns every code there is, those of records first.
func Codes() []Code {
	return []Code{
		MissingFields, UnknownFields, UnsupportedSchema, NotInteger, NotString, BlankString, NotObject, NotBoolean, NotNull,
		BelowMinimum, AboveTotal, RankOutsideWorld, LegacyRefused, TimestampMissing, NotFinite, IntegerRange, NonASCIIDigits, EventNotObject,
		RecordTooLarge,
		TooDeep, IntegerTooLong, OtherSession, BadUTF8, BadJSON, MalformedRow, NotContainer, NoEvents, EventsNotList, EventsKeyRepeated,
		BadSummary, BadAlert,
	}
}

// Refusal is why a record was not taken. It is immutable.
type Refusal struct {
	Code Code
	// Field is the key that the rule is about; "" where it is about several or about none.
	Field string
	// Message is the peer's sentence, byte for byte, where the peer has one. It may quote keys of the record, so it can be as long
	// as the record; lone surrogates in it are spelled in three bytes each, as AppendString expects them.
	Message string
}

// Error returns the message.
func (r *Refusal) Error() string { return r.Message }

// DocumentError says that a document cannot be read as events. Records given out before it stand.
type DocumentError struct {
	Code Code
	// Message is the peer loader's sentence, with the peer's idea of place: characters, not bytes.
	Message string
}

// Error returns the message.
func (e *DocumentError) Error() string { return e.Message }

func refuse(c Code, f field, tail string) *Refusal {
	return &Refusal{Code: c, Field: names[f], Message: names[f] + tail}
}

func notInteger(f field) *Refusal { return refuse(NotInteger, f, " must be an integer") }
