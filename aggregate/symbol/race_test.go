//go:build race

package symbol_test

// slower is how much more time the race detector takes.
const slower = 4
