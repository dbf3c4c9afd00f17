package main

import (
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
)

// Formats of files of Parca's agent, beside those of telemetry: a file of its offline mode, and a cubin.
const (
	formatPadata = "padata"
	formatCubin  = "cubin"
)

// route is where a file is posted.
func (c *sendCmd) route(f telemetryFile) string {
	switch f.format {
	case formatPadata:
		return "/api/v1/parca"
	case formatCubin:
		if id := buildIDOf(f.path); id != "" {
			return "/api/v1/cubins?" + url.Values{"build_id": {id}}.Encode()
		}
		return "/api/v1/cubins"
	}
	return "/api/v1/telemetry?" + c.query(f)
}

var buildIDName = regexp.MustCompile(`^[0-9a-f]{32}$`)

// buildIDOf is the build id that the name of a cubin says, as <build id>.cubin: a stripped one does not have it otherwise.
func buildIDOf(path string) string {
	name, _, _ := strings.Cut(filepath.Base(path), ".")
	if buildIDName.MatchString(name) {
		return name
	}
	return ""
}
