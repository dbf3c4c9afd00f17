package main

import (
	"encoding/json"
	"io"
)

// newEncoder writes JSON for people and programs: < and > of kernel names stay as they are.
func newEncoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc
}
