package telemetry

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strings"
)

// SessionSummary is what a tracker's document says of its session as a whole.
type SessionSummary struct {
	SessionID string `json:"session_id"`
	// Status is running, completed, interrupted or incomplete.
	Status string `json:"status"`
	// StartedAtNS and EndedAtNS are nanoseconds since 1970; EndedAtNS is 0 while the session runs.
	StartedAtNS int64  `json:"started_at_ns"`
	EndedAtNS   int64  `json:"ended_at_ns"`
	Host        string `json:"host"`
	PID         int64  `json:"pid"`
	Source      string `json:"source"` // the part of stormlog that wrote it
}

// maxSummary is how long a session_summary may be.
const maxSummary = 64 << 10

// AppendSummary appends s as ParseSummary reads it.
func AppendSummary(dst []byte, s *SessionSummary) ([]byte, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode a session's summary: %w", err)
	}
	return append(dst, b...), nil
}

// ParseSummary reads what AppendSummary wrote. It does not judge: the gateway has.
func ParseSummary(b []byte) (*SessionSummary, error) {
	s := &SessionSummary{}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("decode a session's summary: %w", err)
	}
	return s, nil
}

// ReadSummary reads a session_summary, a JSON object, as the peer does. The error says in the peer's words why it is not one.
func ReadSummary(text []byte) (*SessionSummary, error) {
	if len(text) > maxSummary || !json.Valid(text) {
		return nil, fmt.Errorf("session_summary is not JSON of at most %d bytes", maxSummary)
	}
	text = strip(text)
	if text[0] != '{' {
		return nil, fmt.Errorf("session summary payload must be an object")
	}
	s, refusal := readSummary(text)
	if refusal != nil {
		return nil, refusal
	}
	return s, nil
}

// isOf reports whether the record that was parsed last names the summary's session itself.
func (v *Validator) isOf(s *SessionSummary) bool {
	t := v.record.get(fSessionID)
	if t.kind != kString {
		return false
	}
	v.strings = v.strings[:0]
	return string(v.textOf(t).b) == s.SessionID
}

// readSummary reads a session_summary, an object that was scanned, as the peer does. An empty text was too long to be kept.
func readSummary(text []byte) (*SessionSummary, *DocumentError) {
	wrong := func(message string) (*SessionSummary, *DocumentError) {
		return nil, &DocumentError{BadSummary, message}
	}
	if len(text) == 0 {
		return wrong("session_summary is too long")
	}
	values := map[string]token{}
	members(text, func(key []byte, escaped bool, t token) {
		if escaped {
			key = appendDecoded(nil, key)
		}
		values[string(key)] = t
	})
	str := func(key string) (string, bool) {
		t := values[key]
		if t.kind != kString {
			return "", false
		}
		s := string(new(Validator).decoded(text, t))
		return s, !Blank(s)
	}
	var s SessionSummary
	var ok bool
	if s.SessionID, ok = str("session_id"); !ok {
		return wrong("session_id must be a non-empty string")
	}
	if s.Source, ok = str("source"); !ok {
		return wrong("source must be a non-empty string")
	}
	status, ok := str("status")
	if !ok {
		return wrong("session status must be a non-empty string")
	}
	s.Status = strings.ToLower(string(strip([]byte(status))))
	switch s.Status {
	case "running", "completed", "interrupted", "incomplete":
	default:
		return wrong("Unsupported session status: " + status)
	}
	if k := values["started_at_ns"].kind; k == kAbsent || k == kNull {
		return wrong("started_at_ns must be present")
	}
	for _, f := range []struct {
		key      string
		to       *int64
		optional bool // null is as good as nothing
	}{{"started_at_ns", &s.StartedAtNS, false}, {"ended_at_ns", &s.EndedAtNS, true}} {
		if message := pythonInt(text, values[f.key], f.to, f.optional); message != "" {
			return wrong(message)
		}
	}
	if s.Host, ok = str("host"); !ok {
		return wrong("host must be a non-empty string")
	}
	s.PID = -1
	var ignored int64
	for _, f := range []struct {
		key string
		to  *int64
	}{{"pid", &s.PID}, {"rank", &ignored}, {"local_rank", &ignored}, {"world_size", &ignored}} {
		if values[f.key].kind == kAbsent {
			continue
		}
		if message := pythonInt(text, values[f.key], f.to, false); message != "" {
			return wrong(message)
		}
	}
	return &s, nil
}

// pythonInt is Python's int of a value. It returns what Python says if there is no such int, or "". What does not fit is cut to what does.
func pythonInt(text []byte, t token, to *int64, optional bool) string {
	b := text[t.start:t.end]
	set := func(w *big.Int) {
		switch {
		case w.IsInt64():
			*to = w.Int64()
		case w.Sign() < 0:
			*to = math.MinInt64
		default:
			*to = math.MaxInt64
		}
	}
	kindName := ""
	switch t.kind {
	case kAbsent, kNull:
		if optional {
			return ""
		}
		kindName = "NoneType"
	case kInt:
		set(integerOf(b, kInt).big())
		return ""
	case kFloat:
		n, refusal := scaled(b, kFloat, 1, fTimestamp)
		if refusal != nil {
			return refusal.Message
		}
		set(n.big())
		return ""
	case kBool:
		if *to = 0; b[0] == 't' {
			*to = 1
		}
		return ""
	case kString:
		s := new(Validator).decoded(text, t)
		if w, ok := new(big.Int).SetString(strings.TrimPrefix(string(strip(s)), "+"), 10); ok && len(s) < MaxDigits {
			set(w)
			return ""
		}
		return "invalid literal for int() with base 10: " + string(appendPythonString(nil, s))
	case kArray:
		kindName = "list"
	default:
		kindName = "dict"
	}
	return "int() argument must be a string, a bytes-like object or a real number, not '" + kindName + "'"
}
