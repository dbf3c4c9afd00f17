//go:build !race

package symbol_test

const slower = 1 // see race_test.go
