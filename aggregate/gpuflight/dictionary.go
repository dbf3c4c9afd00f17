package gpuflight

import (
	"fmt"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/reject"
)

// dictionary folds one dictionary_update line. again says that it was folded before: then it counts if it has names that were refused, and
// are taken now.
func (f *folding) dictionary(s *session, p *aggregate.Part, l *gpuflight.Line, again bool) {
	added, over := 0, 0
	skipped, err := gpuflight.DecodeDictionary(l, func(dict gpuflight.Dict, id uint32, value []byte) {
		if s.HasName(aggregate.NameRef{Dict: dict, ID: id}) {
			return // sent again: ids are stable within a session
		}
		if !f.AddName(p, aggregate.NameRef{Dict: dict, ID: id}, f.Text(p, value)) {
			over++
			return
		}
		added++
	})
	if err != nil { // cannot be: Decode has accepted the line
		f.refuse(s, p, l, err)
		return
	}
	if over > 0 || skipped > 0 {
		reason, detail := gpuflight.ReasonBadValue, fmt.Sprintf("%d entries are not \"id\": \"text\"", skipped)
		if over > 0 {
			reason, detail = reject.DictionaryFull,
				fmt.Sprintf("%d names are beyond the %d, or the %d MiB of them, that a session may have", over, p.MostNames(),
					aggregate.MaxNameTotal>>20)
		}
		f.Reject(p, aggregate.Reject{Reason: reason, Detail: detail, Type: typeName(l.Type), Events: 1, Payload: l.Raw})
		return
	}
	if again && added == 0 {
		p.Duplicate(1)
		return
	}
	p.Stored(1)
	f.leftovers(s, p, l)
}
