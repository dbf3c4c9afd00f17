package kineto

import (
	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/proto/chrometrace"
)

// rebuilt is an event as JSON, of what a Reader keeps of it.
func rebuilt(e *chrometrace.Event) []byte {
	out := []byte{'{'}
	for _, m := range [...]struct {
		key   string
		value []byte
	}{{"ph", e.Phase}, {"cat", e.Category}, {"name", e.Name}, {"pid", e.PID}, {"tid", e.TID}, {"ts", e.TS}, {"dur", e.Dur}, {"id", e.ID},
		{"id2", e.ID2},
		{"args", e.Args}} {
		if len(m.value) == 0 {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(append(out, '"'), m.key...), '"', ':'), m.value...)
	}
	return append(out, '}')
}

// flowID is the number of an arrow: its id if that is a number from 0 to 2^63-1, else a hash above that.
func flowID(id []byte) uint64 {
	if len(id) > 0 && id[0] != '"' {
		if n, ok := Integer(id); ok && n >= 0 {
			return uint64(n)
		}
	}
	return xxh3.Hash(text(id)) | 1<<63
}
