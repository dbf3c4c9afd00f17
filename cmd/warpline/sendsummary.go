package main

import (
	"encoding/json"
	"path/filepath"

	"github.com/warpline/warpline/proto/telemetry"
)

// What a sink's manifest or a bundle says of a session as a whole is sent as a document of no events, behind the events.

// summaryFile is such a document of what is said in the file at path; ok is false for what is not a summary, which the peer passes over
// too.
func summaryFile(path string, said json.RawMessage) (f telemetryFile, ok bool) {
	s, err := telemetry.ReadSummary(said)
	if err != nil {
		return f, false
	}
	body, err := json.Marshal(map[string]any{"telemetry_events": []int{}, "session_summary": said})
	if err != nil {
		return f, false
	}
	return telemetryFile{path: path, format: "json", size: int64(len(body)), body: body, summary: s}, true
}

// sinkSummaries are the sessions of a sink's manifest. Before version 2 it had none.
func (m *sinkManifest) sinkSummaries(dir string) (files []telemetryFile) {
	var version float64
	var sessions []json.RawMessage
	if json.Unmarshal(m.Version, &version) != nil || version < 2 || json.Unmarshal(m.Sessions, &sessions) != nil {
		return nil
	}
	for _, said := range sessions {
		if f, ok := summaryFile(filepath.Join(dir, "manifest.json"), said); ok {
			files = append(files, f)
		}
	}
	return files
}

// bundleSummary is the session of an out-of-memory bundle; there is none in those of older trackers.
func bundleSummary(dir string) (files []telemetryFile) {
	for _, name := range []string{"manifest.json", "metadata.json"} {
		var m struct {
			Session json.RawMessage `json:"session"`
			ID      json.RawMessage `json:"session_id"`
			Status  json.RawMessage `json:"session_status"`
		}
		path := filepath.Join(dir, name)
		if readSmall(path, &m) != nil {
			continue
		}
		if f, ok := summaryFile(path, m.Session); ok {
			return []telemetryFile{f}
		}
		if m.ID == nil || m.Status == nil {
			continue
		}
		said, err := json.Marshal(map[string]any{"session_id": m.ID, "status": m.Status, "started_at_ns": 0, "host": "unknown",
			"source": "stormlog.diagnose"})
		if err != nil {
			continue
		}
		if f, ok := summaryFile(path, said); ok {
			return []telemetryFile{f}
		}
	}
	return nil
}
