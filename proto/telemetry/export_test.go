package telemetry

// Bare is the event without what only AppendJSON looks at.
func (e Event) Bare() Event {
	e.peer, e.plain = 0, nil
	return e
}
