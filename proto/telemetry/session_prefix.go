package telemetry

// SessionPrefix begins the ids of sessions of memory telemetry. The gateway makes them, from what identifies a process or from what a record
// calls its session.
const SessionPrefix = "mem:"
