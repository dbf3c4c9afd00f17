package main

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/warpline/warpline/cmd/warpline/replay"
	"github.com/warpline/warpline/proto/telemetry"
)

// telemetryFile is a file of memory telemetry, or the folder of an out-of-memory bundle, that is to be sent.
type telemetryFile struct {
	path   string
	format string // as the gateway calls it
	size   int64
	gzip   bool
	// session is that of a sink's segment, for records that name none; "" is unknown.
	session string
	body    []byte                    // what to send of it, nil for the file itself
	summary *telemetry.SessionSummary // body says this of a session, and holds no events
}

// findAll finds what there is to send at a path: GPU Flight sessions, memory telemetry, or both.
func findAll(name string, o telemetry.Options) ([]replay.Session, []telemetryFile, error) {
	info, err := os.Stat(name)
	if err != nil || !info.IsDir() {
		base := filepath.Base(name)
		if err == nil && (segmentName.MatchString(base) || base == "manifest.json") {
			if files, ok, err := sinkIn(filepath.Dir(name)); err != nil || ok && base == "manifest.json" {
				return nil, files, err
			} else if i := slices.IndexFunc(files, func(f telemetryFile) bool { return filepath.Base(f.path) == base }); i >= 0 {
				return nil, files[i : i+1], nil
			}
		}
		if of, ok := captureIn(filepath.Dir(name)); err == nil && ok && slices.ContainsFunc(captureFields, func(f [2]string) bool {
			return strings.TrimSuffix(base, ".gz") == f[1]
		}) {
			return nil, []telemetryFile{of}, nil
		}
		if err == nil {
			if f, ok := telemetryAt(name, info.Size(), true, o); ok {
				files := []telemetryFile{f}
				if f.format == "oom" {
					files = append(files, bundleSummary(f.path)...)
				}
				return nil, files, nil
			}
		}
		sessions, err := replay.Open(name)
		return sessions, nil, err
	}
	files, err := telemetryIn(name, o)
	if err != nil {
		return nil, nil, err
	}
	if len(files) == 0 {
		sessions, err := replay.Open(name)
		return sessions, nil, err
	}
	abs, err := filepath.Abs(name)
	if err != nil {
		return nil, nil, err
	}
	sessions, err := replay.Folders(os.DirFS(name), filepath.Base(abs))
	return sessions, files, err
}

// telemetryIn walks a folder. Of files nobody has named only those are telemetry whose first record would be taken.
func telemetryIn(dir string, o telemetry.Options) (found []telemetryFile, err error) {
	err = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && e.Name() == ".tmp":
			return fs.SkipDir
		case e.IsDir():
			if size, ok := isBundle(name); ok {
				found = append(append(found, telemetryFile{path: name, format: "oom", size: size}), bundleSummary(name)...)
				return fs.SkipDir
			}
			if f, ok := captureIn(name); ok { // a trace beside it is of the same launch
				found = append(found, f)
				return fs.SkipDir
			}
			segments, ok, err := sinkIn(name)
			found = append(found, segments...)
			if err != nil || ok {
				return cmp.Or(err, fs.SkipDir)
			}
			return nil
		case !e.Type().IsRegular() || strings.HasPrefix(e.Name(), "."):
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if f, ok := telemetryAt(name, info.Size(), false, o); ok {
			found = append(found, f)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for telemetry in %s: %w", dir, err)
	}
	return found, nil
}

// bundleManifest is what names an out-of-memory bundle.
type bundleManifest struct {
	Name    string          `json:"bundle_name"`
	Created string          `json:"created_at_utc"`
	Reason  string          `json:"reason"`
	Session json.RawMessage `json:"session"` // of newer trackers: an object
}

// isBundle reports whether dir is an out-of-memory bundle, and the size of its events.
func isBundle(dir string) (size int64, ok bool) {
	var m bundleManifest
	events, err := os.Stat(filepath.Join(dir, "events.json"))
	if err != nil || readSmall(filepath.Join(dir, "manifest.json"), &m) != nil || m.Name == "" {
		return 0, false
	}
	return events.Size(), true
}

// telemetryFormat is what a file's name says: the format as the gateway calls it, or "" if it names none, and whether it is packed.
func telemetryFormat(name string) (format string, zipped bool) {
	plain, zipped := strings.CutSuffix(name, ".gz")
	switch filepath.Ext(strings.TrimSuffix(plain, ".zst")) {
	case ".padata":
		return formatPadata, zipped
	case ".cubin":
		return formatCubin, zipped
	case ".csv":
		return "csv", zipped
	case ".ndjson", ".jsonl":
		return "ndjson", zipped
	case ".json", ".chrome_trace": // Proton's name for JSON
		return "json", zipped
	}
	return "", zipped
}

// telemetryAt looks what a file is. asked says that somebody has named it: then it is telemetry if its name says so and it is not
// something else, and if it cannot be read the gateway says why.
func telemetryAt(name string, size int64, asked bool, o telemetry.Options) (telemetryFile, bool) {
	f := telemetryFile{path: name, size: size}
	f.format, f.gzip = telemetryFormat(name)
	switch f.format {
	case "csv":
		return f, asked || f.firstIsTaken(o)
	case "ndjson": // GPU Flight's logs have these names too
		return f, f.firstIsTaken(o)
	case formatPadata, formatCubin:
		return f, true
	case "":
		return f, false
	}
	if dir := filepath.Dir(name); filepath.Base(name) == "events.json" {
		if size, ok := isBundle(dir); ok {
			return telemetryFile{path: dir, format: "oom", size: size}, true
		}
	}
	if f.isRegions() {
		f.format = formatRegions
		return f, true
	}
	if f.isTrace() {
		f.format = formatTrace
		return f, true
	}
	if f.isTrack(o) {
		f.format = "tf"
		return f, true
	}
	return f, asked || f.firstIsTaken(o)
}

// open opens the file and unpacks it.
func (f *telemetryFile) open() (io.Reader, io.Closer, error) {
	file, err := os.Open(f.path)
	if err != nil {
		return nil, nil, err
	}
	if !f.gzip {
		return file, file, nil
	}
	z, err := gzip.NewReader(bufio.NewReader(file))
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return z, file, nil
}

// firstIsTaken reports whether the file's first record is acceptable, or at least calls itself telemetry: then the gateway says what is
// wrong with it.
func (f *telemetryFile) firstIsTaken(o telemetry.Options) bool {
	in, file, err := f.open()
	if err != nil {
		return false
	}
	defer file.Close()
	var records telemetry.Reader
	o.Lines = f.format == "ndjson"
	if f.format == "csv" {
		t, err := telemetry.NewTable(in, o)
		if err != nil {
			return false
		}
		records = t
	} else {
		records = telemetry.NewDecoder(in, o)
	}
	r, err := records.Next()
	return err == nil && (r.Event != nil || f.format != "csv" && callsItselfTelemetry(r.Raw))
}

// callsItselfTelemetry reports whether a refused record has the names that every version since 2 has.
func callsItselfTelemetry(raw []byte) bool {
	var names object
	if json.Unmarshal(raw, &names) != nil {
		return false
	}
	_, version := names["schema_version"]
	_, event := names["event_type"]
	_, at := names["timestamp_ns"]
	return version && (event || at)
}

// isTrack reports whether the file is a TensorFlow tracker's: an object with the lists memory_usage and timestamps.
func (f *telemetryFile) isTrack(o telemetry.Options) bool {
	in, file, err := f.open()
	if err != nil {
		return false
	}
	defer file.Close()
	head := bufio.NewReader(in)
	for {
		c, err := head.ReadByte()
		if err != nil || c != ' ' && c != '\n' && c != '\r' && c != '\t' && c != '{' {
			return false
		}
		if c == '{' {
			head.UnreadByte()
			break
		}
	}
	_, err = telemetry.NewTrack(head, o)
	var de *telemetry.DocumentError
	return err == nil || errors.As(err, &de) && de.Code != telemetry.NoEvents
}

// maxSmallFile bounds the descriptions in a bundle; maxBundleEvents its events, of which a tracker keeps 10 000.
const (
	maxSmallFile    = 4 << 20
	maxBundleEvents = 256 << 20
)

func readBounded(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s is longer than %d bytes", name, limit)
	}
	return b, err
}

func readSmall(name string, v any) error {
	b, err := readBounded(name, maxSmallFile)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

type object = map[string]json.RawMessage

// bundleBody is a bundle's events with what its other files say of them: the process (environment.json), its job and rank and the
// interval (metadata.json), and the bundle's name. What went wrong is in one event: that of type error, or else the last.
func bundleBody(dir, host string) ([]byte, error) {
	raw, err := readBounded(filepath.Join(dir, "events.json"), maxBundleEvents)
	if err != nil {
		return nil, err
	}
	var events []object
	if json.Unmarshal(raw, &events) != nil {
		return raw, nil // as it is: the gateway reads more than encoding/json, and says what it cannot read
	}
	var manifest bundleManifest
	var metadata struct {
		object
		Custom object
	}
	var environment struct {
		PID json.RawMessage `json:"pid"`
	}
	_ = readSmall(filepath.Join(dir, "manifest.json"), &manifest)
	_ = readSmall(filepath.Join(dir, "metadata.json"), &metadata.object) // a bundle that was cut short has no such file
	_ = readSmall(filepath.Join(dir, "environment.json"), &environment)
	_ = json.Unmarshal(metadata.object["custom_metadata"], &metadata.Custom)
	given := object{"pid": environment.PID}
	if host != "" {
		given["host"], _ = json.Marshal(host)
	}
	var session object // the bundle's own word on where it comes from
	_ = json.Unmarshal(manifest.Session, &session)
	for _, key := range []string{"session_id", "host", "pid"} {
		if v := session[key]; v != nil && string(v) != "null" {
			given[key] = v
		}
	}
	var seconds float64
	if json.Unmarshal(metadata.Custom["sampling_interval_s"], &seconds) == nil && seconds > 0 && seconds < 1e9 {
		given["sampling_interval_ms"], _ = json.Marshal(int64(seconds*1000 + 0.5))
	}
	for _, key := range []string{"job_id", "rank", "local_rank", "world_size"} {
		given[key] = metadata.Custom[key]
	}
	teller := len(events) - 1
	if i := slices.IndexFunc(events, func(e object) bool { return string(e["event_type"]) == `"error"` }); i >= 0 {
		teller = i
	}
	for i, e := range events {
		if e == nil {
			continue
		}
		for key, v := range given {
			if have := e[key]; v != nil && (have == nil || string(have) == "null") {
				e[key] = v
			}
		}
		extra := object{}
		if have := e["metadata"]; have != nil && (json.Unmarshal(have, &extra) != nil || extra == nil) {
			continue // not an object: refused as it is
		}
		extra["oom_bundle"], _ = json.Marshal(manifest.Name)
		if i == teller && metadata.object != nil {
			if metadata.object["created_at_utc"] == nil {
				metadata.object["created_at_utc"], _ = json.Marshal(manifest.Created)
			}
			extra["oom"], _ = json.Marshal(metadata.object)
		}
		e["metadata"], _ = json.Marshal(extra)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(events); err != nil {
		return nil, fmt.Errorf("bundle %s: %w", dir, err)
	}
	return out.Bytes(), nil
}
