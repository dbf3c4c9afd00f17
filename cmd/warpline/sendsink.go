package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/warpline/warpline/proto/telemetry"
)

// A sink is the folder that a tracker appends its events to while it runs: segments, a record a line, and a manifest that says which
// session each is of. Segments are sent while they are still written; what was sent before counts once.

// sinkFormat is how a sink's manifest names itself.
const sinkFormat = "stormlog.append_only_telemetry_sink"

// maxSessionHint is how long a session may be that the gateway takes as a default.
const maxSessionHint = 256

var segmentName = regexp.MustCompile(`^segment-[0-9]+\.jsonl$`)

// sinkManifest is what manifest.json says, as far as it matters here. Odd entries are passed over, as the peer does.
type sinkManifest struct {
	Format   string          `json:"format"`
	Version  json.RawMessage `json:"schema_version"`
	Sessions json.RawMessage `json:"sessions"`
	Segments []any           `json:"segments"`
}

// sinkIn returns the segments of the sink that dir is, and what its manifest says of their sessions; ok is false if it is none. A manifest
// that names a segment outside its folder is refused.
func sinkIn(dir string) (files []telemetryFile, ok bool, err error) {
	var m sinkManifest
	if err := readSmall(filepath.Join(dir, "manifest.json"), &m); err != nil || m.Format != sinkFormat {
		m = sinkManifest{} // unreadable or not there: the segments tell
	}
	sessions := map[string]string{}
	names := []string{}
	for _, s := range m.Segments {
		entry, _ := s.(map[string]any)
		name, _ := entry["filename"].(string)
		if name == "" {
			continue
		}
		if !filepath.IsLocal(name) || strings.ContainsAny(name, `/\`) || name == "." {
			return nil, true, fmt.Errorf("%s names the segment %q, which is a path: only files beside it are sent",
				filepath.Join(dir, "manifest.json"), name)
		}
		names = append(names, name)
		if id, _ := entry["session_id"].(string); len(id) <= maxSessionHint && !telemetry.Blank(id) {
			sessions[name] = id
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, false, err
	}
	for _, e := range entries {
		if segmentName.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	if m.Format == "" && len(names) == 0 {
		return nil, false, nil
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		path := filepath.Join(dir, name)
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a sink that is full deletes the oldest
		}
		if err != nil {
			return nil, true, err
		}
		if info.Mode().IsRegular() && info.Size() > 0 {
			files = append(files, telemetryFile{path: path, format: "sink", size: info.Size(), session: sessions[name]})
		}
	}
	return append(files, m.sinkSummaries(dir)...), true, nil
}
