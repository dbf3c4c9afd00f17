package telemetry

// Bare is the event without what only AppendJSON looks at.
func (e Event) Bare() Event {
	e.peer, e.plain, e.spelled, e.of = 0, nil, nil, nil
	return e
}
