package ingest

import (
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/telemetry"
)

// appendTelemetrySession appends the id of the session that an event belongs to, made from what identifies its process:
// mem:<host>:<pid>:<job, or ->:<rank>. Colons and percent signs within are percent-encoded. What is too long for an id, or cannot
// be shown, is hashed.
func appendTelemetrySession(dst []byte, e *telemetry.Event) []byte {
	start := len(dst)
	dst = append(dst, stream.MemoryPrefix...)
	host := e.Host[:min(len(e.Host), 4*maxSessionBytes)]
	ok := len(host) == len(e.Host)
	dst = appendIDText(dst, host, &ok)
	dst = strconv.AppendInt(append(dst, ':'), e.PID, 10)
	dst = append(dst, ':')
	switch job := e.JobID; {
	case e.Has&telemetry.HasJobID == 0:
		dst = append(dst, '-')
	case string(job) == "-":
		dst = append(dst, "%2D"...)
	default:
		ok = ok && len(job) <= 4*maxSessionBytes
		dst = appendIDText(dst, job[:min(len(job), 4*maxSessionBytes)], &ok)
	}
	dst = strconv.AppendInt(append(dst, ':'), e.Rank, 10)
	if ok && len(dst)-start <= maxSessionBytes {
		return dst
	}
	whole := strconv.Itoa(len(e.Host)) + ":" + string(e.Host) + ":" + strconv.FormatInt(e.PID, 10) + ":" + strconv.FormatBool(e.Has&telemetry.HasJobID != 0) + string(e.JobID) + ":" + strconv.FormatInt(e.Rank, 10)
	return append(append(dst[:start], stream.MemoryPrefix+"sha256-"...), digestOf(whole).String()...)
}

// appendIDText appends text as a part of an id; ok becomes false if it cannot be shown.
func appendIDText(dst, text []byte, ok *bool) []byte {
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == ':':
			dst = append(dst, "%3A"...)
		case c == '%':
			dst = append(dst, "%25"...)
		case c < utf8.RuneSelf:
			*ok = *ok && c >= 0x20 && c != 0x7f
			dst = append(dst, c)
		default:
			r, n := utf8.DecodeRune(text[i:])
			*ok = *ok && r != utf8.RuneError && !unicode.IsControl(r)
			dst = append(dst, text[i:i+n]...)
			i += n
			continue
		}
		i++
	}
	return dst
}
