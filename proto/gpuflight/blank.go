package gpuflight

// BlankLines returns how many bytes at the beginning of body are whole blank lines, and how many lines these are. A client can send some
// hundred million of them in a few hundred kilobytes, so they are passed over before anything looks at lines.
func BlankLines(body []byte) (size int, lines int64) {
	for i, c := range body {
		switch c {
		case '\n':
			size = i + 1
			lines++
		case ' ', '\t', '\r':
		default:
			return size, lines
		}
	}
	return size, lines
}
