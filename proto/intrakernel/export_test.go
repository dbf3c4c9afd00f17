package intrakernel

// AppendF6 is for tests of numbers.
var AppendF6 = appendF6
