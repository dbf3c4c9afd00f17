package aggregate

import (
	"fmt"

	"github.com/warpline/warpline/proto/gpuflight"
)

// dictionary folds one dictionary_update line.
func (f *flight) dictionary(s *flightSession, p *Part, l *gpuflight.Line) {
	over := 0
	skipped, err := gpuflight.DecodeDictionary(l, func(dict gpuflight.Dict, id uint32, value []byte) {
		if s.hasName(nameRef{dict, id}) {
			return // sent again: ids are stable within a session
		}
		if !f.addName(p, nameRef{dict, id}, cutName(string(value))) {
			over++
		}
	})
	if err != nil { // cannot be: Decode has accepted the line
		f.refuse(s, p, l, err)
		return
	}
	if over > 0 || skipped > 0 {
		reason, detail := gpuflight.ReasonBadValue, fmt.Sprintf("%d entries are no \"id\": \"text\"", skipped)
		if over > 0 {
			reason, detail = gpuflight.ReasonDictionaryFull, fmt.Sprintf("%d names are beyond the %d, or the %d MiB of them, that a session may have", over, maxNames, maxNameTotal>>20)
		}
		f.Reject(p, Reject{Reason: reason, Detail: detail, typ: typeName(l.Type), Events: 1, Payload: l.Raw})
		return
	}
	p.Stored(1)
	f.leftovers(s, p, l)
}
