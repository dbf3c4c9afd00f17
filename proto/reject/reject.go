// Package reject has the reasons of refusals that do not belong to a format: what the gateway and the workers refuse in any format. A
// format's own reasons stand in its package under proto.
package reject

// Reasons that an upload, a line or a part is refused. They are stored in the rejects table and label counters, so they are snake_case,
// never change, and are all listed here.
const (
	SessionMissing  = "session_missing"   // no session id, an empty one, or one that cannot be printed
	SessionReserved = "session_reserved"  // a session id that begins like the ids that another source makes
	TooManySessions = "too_many_sessions" // the upload has records of more sessions than an upload may have
	LineTooLong     = "line_too_long"     // longer than the limit for its kind
	TornGzip        = "torn_gzip"         // the compressed body ends or breaks in the middle
	BodyTooLarge    = "body_too_large"    // more bytes than the tenant may send in one body
	RatioExceeded   = "ratio_exceeded"    // expands beyond the allowed ratio
	DictionaryFull  = "dictionary_full"   // the session has as many names as it may
	SessionDeleted  = "session_deleted"   // its session was deleted; nothing of it is kept
	Poison          = "poison"            // folding its part failed again and again; nothing of the part is stored
	ScopeOverflow   = "scope_overflow"    // the session has as many open scopes as it may
	TooOld          = "too_old"           // the event's time is further before its receipt than the tenant may send
	InFuture        = "in_future"         // the event's time is further after its receipt than the tenant may send
)

// Reasons lists all constants.
func Reasons() []string {
	return []string{
		SessionMissing, SessionReserved, TooManySessions, LineTooLong, TornGzip, BodyTooLarge, RatioExceeded, DictionaryFull,
		SessionDeleted,
		Poison, ScopeOverflow, TooOld, InFuture,
	}
}
