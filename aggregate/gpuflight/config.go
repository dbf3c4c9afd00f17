package gpuflight

// launchConfig is what a session remembers of a launch configuration that it has written.
type launchConfig struct {
	id    uint32
	scope int32 // index into session.scopeNames
}
