package gpuflight

import "github.com/warpline/warpline/proto/jsonscan"

// MaxDepth is how deep values of a line may nest. The client nests four deep.
const MaxDepth = 512

// rules are encoding/json's. Memory telemetry has others: its peer is written in Python.
var rules = jsonscan.Rules{Depth: MaxDepth}

// skipValue passes the value that begins at b[i], white space before it excluded, and checks its syntax.
func skipValue(b []byte, i int) (end int, ok bool) {
	end, _, _, ok = jsonscan.Value(b, i, &rules)
	return end, ok
}
