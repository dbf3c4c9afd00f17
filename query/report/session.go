package report

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/warpline/warpline/proto/telemetry"
)

// SessionBegins is the condition that column holds the session id that asked names, with the arguments of its placeholders. asked is the
// whole id, its beginning, or what a report shows of it ("mem:sim-ho…5:-:0"). Memory telemetry and captures of kernels are found without
// their "mem:" and "ikp:" as well, since those who named them did not write a prefix.
func SessionBegins(column, asked string) (condition string, args []any) {
	head, tail, shortened := strings.Cut(asked, "…")
	one := fmt.Sprintf("startsWith(toString(%s), ?)", column)
	condition = "(" + one + " OR " + one + " OR " + one + " OR " + one + ")"
	args = []any{head, telemetry.SessionPrefix + head, capturePrefix + head, tracePrefix + head}
	if shortened {
		condition, args = condition+fmt.Sprintf(" AND endsWith(toString(%s), ?)", column), append(args, tail)
	}
	return condition, args
}

// capturePrefix begins the ids of captures of intra-kernel profilers, and tracePrefix those of traces.
const capturePrefix, tracePrefix = "ikp:", "trace:"

var uuid = regexp.MustCompile(`(?i)^(mem:)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// short is enough of a session's id to distinguish it from others, and to ask for it.
func short(id string) string { return shortIDs([]string{id})[id] }

// firstOfUUID is the first group of a UUID, which is enough, or all of any other id.
func firstOfUUID(id string) string {
	if uuid.MatchString(id) {
		return id[:strings.IndexByte(id, '-')]
	}
	return id
}
