package telemetry

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/warpline/warpline/proto/jsonscan"
)

// Alert is what a TensorFlow tracker's file says beside its events: at a sample, memory was over the threshold that the tracker had. The
// sample is an event of its own, of the same time.
type Alert struct {
	TimestampNS int64
	MemoryMB    float64 // MiB, as all that these trackers call MB
	ThresholdMB float64
	Message     []byte
}

// AlertOwner is what a file's events are of, and so its alerts, which do not say it themselves.
type AlertOwner struct {
	Host     string `json:"host"`
	JobID    string `json:"job_id"`
	Rank     int64  `json:"rank"`
	DeviceID int64  `json:"device_id"`
}

// MaxAlertMessage is how many bytes are kept of an alert's message. Trackers write some 60.
const MaxAlertMessage = 1 << 10

// Alerts gives the alerts of a document one by one, in memory bounded by the longest. Not safe for concurrent use.
type Alerts struct {
	d *Decoder
	a Alert
}

// Alerts gives the document's list of alerts, which is empty where the document has none.
func (l Layout) Alerts(r io.ReaderAt, o Options) *Alerts {
	list := Layout{Form: List, Start: l.AlertsStart, End: l.AlertsEnd}
	if list.End == 0 {
		list.Form = 0
	}
	return &Alerts{d: list.Decoder(r, o)}
}

// Next returns the next element of the list, and what it says if it is an alert; else the record has a refusal. The errors are those of
// Decoder.Next, and what is returned holds until the next call.
func (as *Alerts) Next() (*Record, *Alert, error) {
	r, err := as.d.Next()
	if err != nil {
		return nil, nil, err
	}
	r.Event, r.Refusal = nil, nil // an alert is judged as that, not as an event
	err = fmt.Errorf("an alert is longer than %d bytes", as.d.most)
	if r.Raw != nil {
		err = ParseAlert(r.Raw, &as.a)
	}
	if err != nil {
		r.Refusal = &Refusal{Code: BadAlert, Message: err.Error()}
		return r, nil, nil
	}
	return r, &as.a, nil
}

// AppendAlert appends a and a newline as ParseAlert reads it.
func AppendAlert(dst []byte, a *Alert) []byte {
	dst = strconv.AppendInt(append(dst, `{"timestamp_ns":`...), a.TimestampNS, 10)
	dst = strconv.AppendFloat(append(dst, `,"memory_mb":`...), a.MemoryMB, 'g', -1, 64)
	dst = strconv.AppendFloat(append(dst, `,"threshold_mb":`...), a.ThresholdMB, 'g', -1, 64)
	return append(AppendString(append(dst, `,"message":`...), a.Message), '}', '\n')
}

// ParseAlert reads an alert as trackers write it, or as AppendAlert does. The message may alias text. The error says in a sentence what
// is wrong.
func ParseAlert(text []byte, a *Alert) error {
	t, ok := scanValue(text, jsonscan.Space(text, 0))
	if !ok || jsonscan.Space(text, int(t.end)) != len(text) || !utf8.Valid(text) {
		return errors.New("an alert must be JSON that nests no deeper than events do")
	}
	if t.kind != kObject {
		return errors.New("an alert must be an object")
	}
	text = text[t.start:t.end]
	*a = Alert{TimestampNS: -1, MemoryMB: -1, ThresholdMB: -1}
	var why error
	members(text, func(key []byte, _ bool, m token) {
		raw := text[m.start:m.end]
		switch string(key) {
		case "timestamp":
			a.TimestampNS = nanoseconds(raw, m.kind)
		case "timestamp_ns":
			if n := integerOf(raw, m.kind); n.kind == kInt && n.wide == nil {
				a.TimestampNS = n.v
			}
		case "memory_mb":
			a.MemoryMB = amount(raw, m.kind)
		case "threshold_mb":
			a.ThresholdMB = amount(raw, m.kind)
		case "message":
			a.Message = nil
			switch m.kind {
			case kString:
				a.Message = raw[1 : len(raw)-1]
				if m.escaped {
					a.Message = appendDecoded(nil, a.Message)
				}
			case kNull:
			default:
				why = errors.New("message of an alert must be a string")
			}
		}
	})
	switch {
	case a.TimestampNS < 0:
		return errors.New("timestamp of an alert must be a number of seconds since 1970")
	case a.MemoryMB < 0:
		return errors.New("memory_mb of an alert must be a number, 0 or more")
	case a.ThresholdMB < 0:
		return errors.New("threshold_mb of an alert must be a number, 0 or more")
	}
	if n := MaxAlertMessage; len(a.Message) > n {
		for n > 0 && a.Message[n]&0xc0 == 0x80 { // not in the middle of a character
			n--
		}
		a.Message = a.Message[:n]
	}
	return why
}

// nanoseconds are those of a time in seconds, to the digit those of the sample that was written with it; -1 if there is none.
func nanoseconds(b []byte, k kind) int64 {
	if k != kInt && k != kFloat {
		return -1
	}
	n, refusal := scaled(b, k, 1e9, fTimestamp)
	if refusal != nil || n.kind != kInt || n.wide != nil {
		return -1
	}
	return n.v
}

// amount is a number that is 0 or more; -1 if it is not.
func amount(b []byte, k kind) float64 {
	if k != kInt && k != kFloat {
		return -1
	}
	x, err := strconv.ParseFloat(string(b), 64)
	if err != nil || !(x >= 0) || math.IsInf(x, 0) {
		return -1
	}
	return math.Abs(x) // not -0
}
