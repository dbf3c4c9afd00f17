// Package flows works out where viewers draw the arrows of a trace in Chrome's JSON, and where they were meant to be: by the rules of
// Perfetto's trace processor v58, in its own arithmetic, and of chrome://tracing (catapult). It does no I/O. Numbers such as P4 are those
// of the rules in docs/traces.md.
package flows
