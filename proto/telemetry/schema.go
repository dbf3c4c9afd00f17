package telemetry

import _ "embed"

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema (2020-12) of a record of schema versions 2 to 4. It is laxer than the rules, as the peer's own is; its
// $comment says where. The bytes are the caller's.
func Schema() []byte { return append([]byte(nil), schema...) }
