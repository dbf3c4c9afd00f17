package telemetry

import (
	"bytes"
	"crypto/sha256"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/telemetry"
)

// appendSession appends the id of the session that an event belongs to. A session that the record names is mem:<session_id>. Records of
// before schema version 3 seldom name one: theirs is made from what identifies the process, mem:<host>:<pid>:<job, or ->:<rank>. Later
// records without one, which trackers do not write, belong to a session of the upload. Colons and percent signs within are percent-encoded.
// What is too long for an id, or cannot be printed, is hashed.
func appendSession(dst []byte, e *telemetry.Event, upload ingest.Digest) []byte {
	start := len(dst)
	dst = append(dst, telemetry.SessionPrefix...)
	if e.Has&telemetry.HasSession != 0 {
		return appendNamedSession(dst, start, e.SessionID)
	}
	if e.Version > 2 {
		return append(append(dst, hashedSession...), upload.String()...)
	}
	host := e.Host[:min(len(e.Host), 4*stream.MaxSessionBytes)]
	ok := len(host) == len(e.Host)
	dst = appendIDText(dst, host, &ok)
	dst = strconv.AppendInt(append(dst, ':'), e.PID, 10)
	dst = append(dst, ':')
	job := e.JobID
	switch {
	case e.Has&telemetry.HasJobID == 0:
		dst = append(dst, '-')
	case string(job) == "-":
		dst = append(dst, "%2D"...)
	default:
		ok = ok && len(job) <= 4*stream.MaxSessionBytes
		dst = appendIDText(dst, job[:min(len(job), 4*stream.MaxSessionBytes)], &ok)
	}
	dst = strconv.AppendInt(append(dst, ':'), e.Rank, 10)
	if ok && len(dst)-start <= stream.MaxSessionBytes {
		return dst
	}
	whole := strconv.Itoa(len(e.Host)) + ":" + string(e.Host) + ":" + strconv.FormatInt(e.PID, 10) + ":" +
		strconv.FormatBool(e.Has&telemetry.HasJobID != 0) + string(e.JobID) + ":" + strconv.FormatInt(e.Rank, 10)
	return append(append(dst[:start], telemetry.SessionPrefix+hashedSession...), ingest.DigestOf(whole).String()...)
}

// hashedSession stands after the prefix in the ids of sessions that are known by a hash.
const hashedSession = "sha256-"

// appendNamedSession appends a session_id after the prefix, which begins at start. One that looks like an id of ours is hashed: an id
// without a colon cannot be taken for a process's id or another session's.
func appendNamedSession(dst []byte, start int, id []byte) []byte {
	begin := len(dst)
	ok := len(id) <= 4*stream.MaxSessionBytes
	dst = appendIDText(dst, id[:min(len(id), 4*stream.MaxSessionBytes)], &ok)
	ours := string(dst[start:]) == refusedSession || bytes.HasPrefix(dst[begin:], []byte(hashedSession))
	if ok && !ours && len(dst)-start <= stream.MaxSessionBytes {
		return dst
	}
	sum := sha256.Sum256(append([]byte("session_id:"), id...))
	return append(append(dst[:start], telemetry.SessionPrefix+hashedSession...), ingest.Digest(sum[:16]).String()...)
}

// appendIDText appends text as a part of an id; ok becomes false if it cannot be printed.
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
