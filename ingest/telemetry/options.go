package telemetry

import (
	"crypto/sha256"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/telemetry"
)

// Formats of an upload of telemetry.
const (
	formatJSON   = "json"
	formatNDJSON = "ndjson"
	formatCSV    = "csv"
	formatOOM    = "oom"  // events.json of an out-of-memory bundle
	formatTF     = "tf"   // a TensorFlow tracker's file
	formatSink   = "sink" // a segment of a sink, which may still be written
)

// maxOptionBytes bounds the texts among the options.
const maxOptionBytes = 256

// options is how an upload is to be read.
type options struct {
	telemetry.Options
	format string
	key    string  // Idempotency-Key, "" without
	names  mention // of a session, anywhere in the document
}

// readOptions reads the query and the headers. A parameter that it does not know is refused: a misspelled one would be ignored.
func readOptions(r *http.Request) (*options, *ingest.Refusal) {
	bad := func(name, detail string) *ingest.Refusal {
		return &ingest.Refusal{Status: http.StatusBadRequest, Code: "bad_option", Detail: name + " " + detail}
	}
	o, q := &options{format: formatJSON}, r.URL.Query()
	for name := range q {
		switch name {
		case "format", "peer", "permissive_legacy", "events_key", "default_collector", "default_sampling_interval_ms", "default_session_id":
		default:
			return nil, bad(strconv.Quote(ingest.Printable(name, 40)),
				"is no option: there are format, peer, permissive_legacy, events_key, default_collector, default_sampling_interval_ms "+
					"and default_session_id")
		}
	}
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch media {
	case "application/x-ndjson", "application/jsonl", "application/x-jsonlines":
		o.format = formatNDJSON
	case "text/csv":
		o.format = formatCSV
	}
	if v := q.Get("format"); v != "" {
		o.format = v
	}
	switch o.format {
	case formatJSON, formatCSV, formatTF:
	case formatNDJSON:
		o.Lines = true
	case formatSink:
		o.Lines, o.TornTail = true, true
	case formatOOM:
		o.BundleKeys = true
	default:
		return nil, bad("format", "must be json, ndjson, csv, sink, oom or tf")
	}
	if v := q.Get("permissive_legacy"); v != "" {
		permissive, err := strconv.ParseBool(v)
		if err != nil {
			return nil, bad("permissive_legacy", "must be true or false")
		}
		o.RefuseLegacy = !permissive
	}
	if q.Has("events_key") {
		v := q.Get("events_key")
		o.EventsKey = &v
	}
	var err error
	o.Peer, err = telemetry.ParsePeer(q.Get("peer"))
	if err != nil {
		return nil, bad("peer", err.Error())
	}
	o.DefaultCollector = q.Get("default_collector")
	o.DefaultSessionID = q.Get("default_session_id")
	if o.DefaultSessionID != "" && telemetry.Blank(o.DefaultSessionID) {
		return nil, bad("default_session_id", "must not be blank")
	}
	if v := q.Get("default_sampling_interval_ms"); v != "" {
		ms, err := strconv.ParseInt(v, 10, 64)
		if err != nil || ms < 0 {
			return nil, bad("default_sampling_interval_ms", "must be a whole number of milliseconds, 0 or more")
		}
		o.DefaultSamplingIntervalMS = ms
	}
	o.key = r.Header.Get("Idempotency-Key")
	for name, v := range map[string]string{"events_key": q.Get("events_key"), "default_collector": o.DefaultCollector,
		"default_session_id": o.DefaultSessionID, "Idempotency-Key": o.key} {
		if ingest.Printable(v, maxOptionBytes) != v {
			return nil, bad(name, fmt.Sprintf("must be UTF-8 without control characters, at most %d bytes", maxOptionBytes))
		}
	}
	return o, nil
}

// origin is what memory_events.origin says.
func (o *options) origin() string {
	if o.format == formatNDJSON {
		return formatJSON
	}
	return o.format
}

// identity names an upload by the hash of what it says and by all that decides how it is read.
func (o *options) identity(content ingest.Digest) ingest.Digest {
	var b strings.Builder
	rules := 1
	if o.names.found && o.Peer == telemetry.Peer043 {
		rules = 2 // older gateways, which did not know sessions, refused such uploads: that must not count as a repeat
	}
	fmt.Fprintf(&b, "telemetry %d\n%s\n%s\n%t\n%q\n%d\n", rules, content, o.format, o.RefuseLegacy, o.DefaultCollector,
		o.DefaultSamplingIntervalMS)
	if o.EventsKey != nil {
		fmt.Fprintf(&b, "%q\n", *o.EventsKey)
	}
	if o.Peer != telemetry.Peer043 {
		fmt.Fprintf(&b, "peer %s\n", o.Peer)
	}
	if o.DefaultSessionID != "" {
		fmt.Fprintf(&b, "session %q\n", o.DefaultSessionID)
	}
	sum := sha256.Sum256([]byte(b.String()))
	return ingest.Digest(sum[:16])
}
