package telemetry

// Bare is the event without what only AppendJSON looks at.
func (e Event) Bare() Event {
	e.peer, e.plain, e.spelled = 0, nil, nil
	return e
}
