package trace

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"unicode"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/stream"
)

// maxTextBytes bounds the texts that a sender says of a trace.
const maxTextBytes = 1024

// options is what a sender says of a trace.
type options struct {
	session  string // as the client names it, "" without
	job      string
	host     string
	rank     int64  // -1 not said
	world    int64  // 0 not said
	boundary string // of a form; "" is none
}

// readOptions reads query and Content-Type. A parameter that it does not know is refused: a misspelled one would be ignored.
func readOptions(r *http.Request, form bool) (*options, *ingest.Refusal) {
	o, q := &options{rank: -1}, r.URL.Query()
	media, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch multi := strings.HasPrefix(media, "multipart/"); {
	case multi:
		if o.boundary = params["boundary"]; o.boundary == "" {
			return nil, refuse(http.StatusBadRequest, "bad_form", "Content-Type: multipart/form-data has no boundary: give the one of the body")
		}
	case form:
		return nil, refuse(http.StatusBadRequest, "bad_form", "send a form with the field trace, or the trace itself to /api/v1/traces")
	}
	for name, values := range q {
		switch name {
		case "session", "job", "rank", "world_size", "host":
		default:
			return nil, badOption(name, "is no option: there are session, job, rank, world_size and host")
		}
		if len(values) != 1 {
			return nil, badOption(name, "stands there more than once")
		}
	}
	o.session = q.Get("session")
	for name, to := range map[string]*string{"job": &o.job, "host": &o.host} {
		if *to = q.Get(name); ingest.Printable(*to, maxTextBytes) != *to {
			return nil, badOption(name, fmt.Sprintf("must be UTF-8 without control characters, at most %d bytes", maxTextBytes))
		}
	}
	for name, to := range map[string]*int64{"rank": &o.rank, "world_size": &o.world} {
		if !q.Has(name) {
			continue
		}
		n, err := strconv.ParseInt(q.Get(name), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt32 {
			return nil, badOption(name, "must be a whole number, 0 or more")
		}
		*to = n
	}
	return o, nil
}

func badOption(name, detail string) *ingest.Refusal {
	return refuse(http.StatusBadRequest, "bad_option", strconv.Quote(ingest.Printable(name, 40))+" "+detail)
}

// sessionID is the id of a session that a client names, or of a trace with that hash. Colons and percent signs in a name are
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
