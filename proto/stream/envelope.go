package stream

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/klauspost/compress/s2"
)

// Kind says what the body of an INGEST message is.
type Kind string

// The kinds of INGEST messages.
const (
	// KindGPUFlight is GPU Flight NDJSON: whole lines, each decodable alone.
	KindGPUFlight Kind = "gpu-flight"
	// KindTelemetry is memory telemetry that the gateway has accepted: lines of telemetry.AppendFrame, of one session.
	KindTelemetry Kind = "telemetry"
	// KindSummary is what a tracker says of its session as a whole: telemetry.AppendSummary.
	KindSummary Kind = "summary"
	// KindAlerts is the alerts of a tracker's file: a line of JSON, a telemetry.AlertOwner, and after it lines of telemetry.AppendAlert.
	// They are not events.
	KindAlerts Kind = "alerts"
	// KindParca is rows of one session from a batch of Parca's agent: a body of parca.Part.
	KindParca Kind = "parca"
	// KindCubin is a cubin, whole or stripped, as it was uploaded: the session is cubin:<build id>.
	KindCubin Kind = "cubin"
	// KindIntraKernel is a piece of a capture of an intra-kernel profiler: intrakernel.AppendPart.
	KindIntraKernel Kind = "intra-kernel"
	// KindTrace is a piece of a Chrome trace: kineto.Part.
	KindTrace Kind = "trace"
	// KindReject is bytes that the gateway refused; Reject says why.
	KindReject Kind = "reject"
	// KindComplete says that the client ended the session (session-complete). It does not have a body.
	KindComplete Kind = "complete"
	// KindRepeats says that Events events of the tenant were sent again and recognised by the gateway. It has neither a body nor a session.
	KindRepeats Kind = "repeats"
)

// Envelope is the header of one part. The zero value is not valid: Tenant, Session, Kind and Identity are required.
type Envelope struct {
	Tenant  string `json:"tenant"`
	Session string `json:"session"` // the client's own id
	// Recurs says that the id of the session comes back with its sender, see ComesBack. Its source knows.
	Recurs  bool   `json:"recurs,omitempty"`
	Kind    Kind   `json:"kind"`
	Source  string `json:"source"`            // sessions.source and usage.source: gpu-flight, parca, telemetry, …
	Channel string `json:"channel,omitempty"` // device, scope, system, sass; "" when the client did not say
	// Identity names what was uploaded: "<channel>/<conflicts accepted>/<window id>", "sha256-<32 hex>" of the body for uploads without a
	// window, "<source>/<kind>/<id>" for those of several sessions, or "complete". (Identity, Part) is folded once per session, however
	// often it is published.
	Identity string `json:"identity"`
	Part     int    `json:"part"`
	Last     bool   `json:"last,omitempty"` // this is the upload's last part
	Events   uint64 `json:"events"`         // gpuflight.CountEvents over the body, or the events refused
	// uncompressed bytes of the body (of telemetry, of the records as they were sent), or the bytes refused
	Bytes uint64 `json:"bytes"`
	// ReceivedAt is nanoseconds since the epoch, stamped once by the gateway.
	ReceivedAt    int64  `json:"received_at"`
	Host          string `json:"host,omitempty"` // X-GpuFlight-Hostname: the sender's host
	RetentionDays uint16 `json:"retention_days"` // of raw rows, the tenant's class at arrival
	RollupDays    uint16 `json:"rollup_days"`    // of rollups and facts
	NoRaw         bool   `json:"no_raw,omitempty"`
	// NoStacks keeps the launch stacks that the part has out of the tables.
	NoStacks bool `json:"no_stacks,omitempty"`
	// Names, NameBytes and OpenScopes are how many names and open scopes the part's session may have, and where its names are cut, by the
	// tenant's limits at arrival; 0 and what is more than the worker's own bound: that bound.
	Names      int `json:"names,omitempty"`
	NameBytes  int `json:"name_bytes,omitempty"`
	OpenScopes int `json:"open_scopes,omitempty"`
	// PastNS and FutureNS are how far before and after ReceivedAt the times of the part's events may be, by the tenant's limits at arrival;
	// 0: as far as they like.
	PastNS   int64 `json:"past_ns,omitempty"`
	FutureNS int64 `json:"future_ns,omitempty"`
	// Origin is what telemetry was read from: json, csv, oom or tf.
	Origin string `json:"origin,omitempty"`
	// Summarized says that a KindSummary of the same upload says how the session ended; then its events do not.
	Summarized bool `json:"summarized,omitempty"`
	// Object names the body in PartsObjects when it is not in the message.
	Object string  `json:"object,omitempty"`
	Reject *Reject `json:"reject,omitempty"` // set when Kind is KindReject
	// Asked names the question of a client that asks what became of the part, see Verdict; "" is no question.
	Asked string `json:"asked,omitempty"`
	// Delete is set when Kind is KindDelete. A tombstone of a whole tenant has no Session.
	Delete *Deletion `json:"delete,omitempty"`
	// Admin is set when Kind is KindAdmin. Tenant is empty where the change is not a tenant's.
	Admin *AdminChange `json:"admin,omitempty"`
}

// Reject says why bytes were refused. The bytes (the first RejectBytes of them) are the body.
type Reject struct {
	Reason string `json:"reason"` // a reason of proto/reject, or of its format
	Detail string `json:"detail"` // for people
	Ref    string `json:"ref,omitempty"`
}

// RejectBytes is how much of refused bytes is copied; a reference says where the rest is.
const RejectBytes = 64 << 10

// MaxBodyBytes bounds the uncompressed body of one INGEST message or object when it is read back.
const MaxBodyBytes = 34 << 20

// envelopeMagic begins every INGEST message: format 1, S2 body.
var envelopeMagic = [4]byte{'W', 'L', 'E', 1}

// maxEnvelopeHeader bounds the JSON header. Ids are bounded by the gateway, so 64 KiB is far more than it writes.
const maxEnvelopeHeader = 64 << 10

// ErrEnvelope is returned, wrapped, for bytes that are not an envelope of a version that this build reads.
var ErrEnvelope = errors.New("not an INGEST envelope of version 1 (was it written by a newer warpline?)")

// AppendEnvelope appends the message: magic, header length, JSON header, S2-compressed body. It does not keep body.
func AppendEnvelope(dst []byte, e *Envelope, body []byte) ([]byte, error) {
	header, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encode envelope: %w", err)
	}
	if len(header) > maxEnvelopeHeader {
		return nil, fmt.Errorf("encode envelope: header of %d bytes is over %d", len(header), maxEnvelopeHeader)
	}
	dst = append(dst, envelopeMagic[:]...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(header)))
	dst = append(dst, header...)
	if len(body) > 0 {
		at := len(dst)
		need := s2.MaxEncodedLen(len(body))
		if cap(dst)-at < need {
			grown := make([]byte, at, at+need)
			copy(grown, dst)
			dst = grown
		}
		enc := s2.Encode(dst[at:at+need], body)
		dst = dst[:at+len(enc)]
	}
	return dst, nil
}

// ParseEnvelope reads the header of an INGEST message and returns its compressed body, which aliases msg.
func ParseEnvelope(msg []byte) (e Envelope, body []byte, err error) {
	if len(msg) < 8 || [4]byte(msg[:4]) != envelopeMagic {
		return e, nil, ErrEnvelope
	}
	n := binary.LittleEndian.Uint32(msg[4:8])
	if n > maxEnvelopeHeader || int(n) > len(msg)-8 {
		return e, nil, fmt.Errorf("header of %d bytes in a message of %d: %w", n, len(msg), ErrEnvelope)
	}
	if err := json.Unmarshal(msg[8:8+n], &e); err != nil {
		return e, nil, fmt.Errorf("header: %w: %w", err, ErrEnvelope)
	}
	return e, msg[8+n:], nil
}

// DecodeBody decompresses a body into dst (grown when needed) and returns it. Empty bodies give an empty slice.
// The size is bounded by MaxBodyBytes before anything is allocated.
func DecodeBody(dst, body []byte) ([]byte, error) {
	if len(body) == 0 {
		return dst[:0], nil
	}
	n, err := s2.DecodedLen(body)
	if err != nil {
		return nil, fmt.Errorf("part body: %w", err)
	}
	if n > MaxBodyBytes {
		return nil, fmt.Errorf("part body of %d bytes is over %d", n, MaxBodyBytes)
	}
	out, err := s2.Decode(dst[:cap(dst)], body)
	if err != nil {
		return nil, fmt.Errorf("part body: %w", err)
	}
	return out, nil
}
