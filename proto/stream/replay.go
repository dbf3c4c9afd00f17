package stream

import (
	"fmt"
	"strings"
)

// ReplayChannel is the channel of windows that bring refused bytes again. What they hold is folded as if a client had sent it; what is
// refused of it again has its row in rejects already.
const ReplayChannel = "replay"

// RejectIDBytes is the length of a reject_id, in hex.
const RejectIDBytes = 16

// ReplayWindow is the window id under which a reject is sent for the n-th time, from 1 on. The same attempt made twice counts once.
func ReplayWindow(rejectID string, n uint64) string { return fmt.Sprintf("%s.%d", rejectID, n) }

// Replays returns the reject_id that the part brings again, "" for other parts.
func (e *Envelope) Replays() string {
	rest, ok := strings.CutPrefix(e.Identity, ReplayChannel+"/")
	if !ok || e.Channel != ReplayChannel && e.Kind != KindReject {
		return ""
	}
	_, window, _ := strings.Cut(rest, "/")
	id, _, ok := strings.Cut(window, ".")
	if !ok || len(id) != RejectIDBytes || strings.Trim(id, "0123456789abcdef") != "" {
		return ""
	}
	return id
}
