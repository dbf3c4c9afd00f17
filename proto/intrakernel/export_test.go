package intrakernel

// AppendF6 is for tests of numbers.
var AppendF6 = appendF6

// Introsort is for tests of the order of equal items.
func Introsort[T any](items []T, order func(a, b *T) int) { introsort(items, order) }
