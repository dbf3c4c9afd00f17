package kineto

// Reasons for which an element of a trace is refused. They are stored, so they never change.
const (
	BadEvent      = "bad_event"       // no object, or no JSON
	EventTooLarge = "event_too_large" // longer than chrometrace.MaxEvent
	UnknownPhase  = "unknown_phase"   // its ph is missing, or none that traces have
	BadTime       = "bad_time"        // its ts is missing, no number, or no time between 1900 and 2262
	BadDuration   = "bad_duration"    // its dur is no number, below 0 or too long, or it ends before it begins
	BadName       = "bad_name"        // its name, cat, pid, tid or id is an object or a list
	NoBegin       = "no_begin"        // an end without a begin
	TooManyOpen   = "too_many_open"   // a begin when as many wait for their ends as may
)

// Reasons lists them all.
func Reasons() []string {
	return []string{BadEvent, EventTooLarge, UnknownPhase, BadTime, BadDuration, BadName, NoBegin, TooManyOpen}
}
