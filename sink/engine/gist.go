package engine

import (
	"regexp"
	"strings"
)

var (
	// chatter is what clickhouse-local prints while all is well, and stack traces and addresses, which do not help an operator.
	chatter = regexp.MustCompile(`^(Logging |.*ClickHouse local version|Query id: |Ok\.$|\d+ rows? in set|\d+\. ` +
		`)|<(Warning|Information|Debug|Trace)> |<Fatal> \w+: (\d+\. |#|Address: |Stack trace: |Sent by |\(version )`)
	// stamp is the beginning of each line of ClickHouse's own log, and shown the rest of a line after its message.
	stamp = regexp.MustCompile(`^\d{4}\.\d\d\.\d\d \S+ \[ \d+ \] \{[^}]*\} `)
	shown = regexp.MustCompile(`,? Stack trace \(when copying.*`)
)

// gistLines is how many lines of a log an error text gets.
const gistLines = 3

// gist is what a child's log says of its end, in one line: the last lines that mean something, without traces.
func gist(log string) string {
	var lines []string
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		if line == "" || chatter.MatchString(line) {
			continue
		}
		line = shown.ReplaceAllString(stamp.ReplaceAllString(line, ""), "")
		if len(lines) == 0 || lines[len(lines)-1] != line { // ClickHouse says it to its log and to the console
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-gistLines):], " | ")
}
