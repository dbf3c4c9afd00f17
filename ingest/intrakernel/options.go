package intrakernel

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/intrakernel"
	"github.com/warpline/warpline/proto/stream"
)

// maxTextBytes bounds the texts that a sender says of a launch.
const maxTextBytes = 1024

// options is how an upload is to be read.
type options struct {
	session  string // as the client names it, "" without
	boundary string // of a form; "" is a trace
	scale    float64
	launch   intrakernel.Launch
}

// readOptions reads query and Content-Type. A parameter that it does not know is refused: a misspelled one would be ignored.
func readOptions(r *http.Request) (*options, *ingest.Refusal) {
	o, q := &options{scale: 1}, r.URL.Query()
	media, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if strings.HasPrefix(media, "multipart/") {
		if o.boundary = params["boundary"]; o.boundary == "" {
			return nil, refuse(http.StatusBadRequest, "bad_form", "Content-Type: multipart/form-data has no boundary: give the one of the body")
		}
	}
	for name, values := range q {
		known := name == "session"
		if o.boundary == "" {
			switch name {
			case "scale", "kernel", "host", "device", "job", "rank", "launch", "started_at":
				known = true
			}
		}
		switch {
		case !known && o.boundary != "":
			return nil, badOption(name, "is no option of a form: there is session; all else stands in the field input")
		case !known:
			return nil, badOption(name, "is no option: there are session, scale, kernel, host, device, job, rank, launch and started_at")
		case len(values) != 1:
			return nil, badOption(name, "stands there more than once")
		}
	}
	o.session = q.Get("session")
	if o.boundary != "" {
		return o, nil
	}
	return o, o.readTrace(q)
}

func badOption(name, detail string) *ingest.Refusal {
	return refuse(http.StatusBadRequest, "bad_option", strconv.Quote(ingest.Printable(name, 40))+" "+detail)
}

// readTrace reads what is said of the launch of a trace.
func (o *options) readTrace(q url.Values) *ingest.Refusal {
	l := &o.launch
	for name, to := range map[string]*string{"kernel": &l.Kernel, "host": &l.Host, "device": &l.Device, "job": &l.Job} {
		if *to = q.Get(name); ingest.Printable(*to, maxTextBytes) != *to {
			return badOption(name, fmt.Sprintf("must be UTF-8 without control characters, at most %d bytes", maxTextBytes))
		}
	}
	for name, to := range map[string]**int64{"rank": &l.Rank, "launch": &l.Number} {
		if !q.Has(name) {
			continue
		}
		n, err := strconv.ParseInt(q.Get(name), 10, 64)
		if err != nil || n < 0 {
			return badOption(name, "must be a whole number, 0 or more")
		}
		*to = &n
	}
	if q.Has("scale") {
		scale, err := strconv.ParseFloat(q.Get("scale"), 64)
		if err != nil {
			return badOption("scale", "must be the number that the trace was written with")
		}
		o.scale = scale
	}
	if q.Has("started_at") {
		at, err := startedAt(q.Get("started_at"))
		if err != nil {
			return badOption("started_at", err.Error())
		}
		l.StartedAt = at
	}
	return nil
}

// startedAt reads a time: ns since 1970, or RFC 3339.
func startedAt(text string) (int64, error) {
	if ns, err := strconv.ParseInt(text, 10, 64); err == nil && ns >= 0 {
		return ns, nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if year := at.UTC().Year(); err != nil || year < 1970 || year > 2261 {
		return 0, errors.New("must be ns since 1970, or a time such as 2026-01-31T12:00:00Z")
	}
	return at.UnixNano(), nil
}

// parseLaunch reads what the JSON of a header says of the launch beside the header.
func parseLaunch(input []byte) (l intrakernel.Launch, no *ingest.Refusal) {
	var in struct {
		Kernel    *string         `json:"kernel"`
		Host      *string         `json:"host"`
		Device    *string         `json:"device"`
		Job       *string         `json:"job"`
		Rank      *int64          `json:"rank"`
		Launch    *int64          `json:"launch"`
		StartedAt json.RawMessage `json:"started_at"`
	}
	if err := json.Unmarshal(input, &in); err != nil {
		var typed *json.UnmarshalTypeError
		if errors.As(err, &typed) {
			want := "a whole number below 2^63"
			if typed.Type.Kind() == reflect.String {
				want = "text"
			}
			return l, unusable("bad_input", fmt.Sprintf("input: %s: a JSON %s, and it must be %s", ingest.Printable(typed.Field, 100),
				ingest.Printable(typed.Value, 100), want))
		}
		return l, unusable("bad_input", "input: "+ingest.Printable(err.Error(), 200))
	}
	for _, f := range []struct {
		name     string
		from, to *string
	}{{"kernel", in.Kernel, &l.Kernel}, {"host", in.Host, &l.Host}, {"device", in.Device, &l.Device}, {"job", in.Job, &l.Job}} {
		if f.from == nil {
			continue
		}
		if ingest.Printable(*f.from, maxTextBytes) != *f.from {
			return l, unusable("bad_input", fmt.Sprintf("input: %s: must be UTF-8 without control characters, at most %d bytes", f.name,
				maxTextBytes))
		}
		*f.to = *f.from
	}
	for _, f := range []struct {
		name string
		n    *int64
	}{{"rank", in.Rank}, {"launch", in.Launch}} {
		if f.n != nil && *f.n < 0 {
			return l, unusable("bad_input", fmt.Sprintf("input: %s: %d, and it must be 0 or more", f.name, *f.n))
		}
	}
	l.Rank, l.Number = in.Rank, in.Launch
	if len(in.StartedAt) > 0 && string(in.StartedAt) != "null" {
		text := string(in.StartedAt)
		json.Unmarshal(in.StartedAt, &text) // a text without its quotes; a number stays as it is
		at, err := startedAt(text)
		if err != nil {
			return l, unusable("bad_input", "input: started_at: "+err.Error())
		}
		l.StartedAt = at
	}
	return l, nil
}

// sessionID is the id of a session that a client names, or of a capture with that hash. Colons and percent signs in a name are
// percent-encoded. A name that is too long, cannot be printed or looks like an id of ours is hashed.
func sessionID(name string, content [sha256.Size]byte) string {
	if name == "" {
		return SessionPrefix + hex.EncodeToString(content[:16])
	}
	id := SessionPrefix + strings.NewReplacer("%", "%25", ":", "%3A").Replace(name)
	_, err := hex.DecodeString(name)
	ours := err == nil && len(name) == 32 || strings.HasPrefix(name, hashedSession)
	if ours || len(id) > stream.MaxSessionBytes || strings.ContainsFunc(name, unicode.IsControl) ||
		ingest.Printable(name, stream.MaxSessionBytes) != name {
		sum := sha256.Sum256([]byte("session:" + name))
		return SessionPrefix + hashedSession + hex.EncodeToString(sum[:16])
	}
	return id
}

// hashedSession stands after the prefix in the ids of sessions that are known by a hash of their name.
const hashedSession = "sha256-"
