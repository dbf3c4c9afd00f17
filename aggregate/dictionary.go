package aggregate

import (
	"fmt"
	"strings"

	"github.com/klauspost/compress/s2"

	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/reject"
	"github.com/warpline/warpline/sink/table"
)

// nameBlock is the dictionary entries that one part added to a session. It is stored under a create-only key before the chunk that
// uses it is published; what it holds follows from the part and the state before it, so an owner that folds the part again
// writes the same block.
type nameBlock struct {
	session *session
	seq     uint64
	entries []nameEntry
}

type nameEntry struct {
	ref   nameRef
	value string
}

// dictionary folds one dictionary_update line.
func (f *folder) dictionary(s *session, p *part, l *gpuflight.Line) {
	over := 0
	skipped, err := gpuflight.DecodeDictionary(l, func(dict gpuflight.Dict, id uint32, value []byte) {
		if s.hasName(nameRef{dict, id}) {
			return // sent again: ids are stable within a session
		}
		if !f.addName(s, p, nameRef{dict, id}, cutName(string(value))) {
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
			reason, detail = reject.DictionaryFull, fmt.Sprintf("%d names are beyond the %d, or the %d MiB of them, that a session may have", over, maxNames, maxNameTotal>>20)
		}
		f.reject(s, p, rejectRow{reason: reason, detail: detail, typ: l.Type, events: 1, payload: l.Raw})
		return
	}
	f.stored(s, p, 1)
	f.leftovers(s, p, l)
}

// cutName cuts a name that is too long to be kept.
func cutName(text string) string {
	if len(text) > maxNameBytes {
		return strings.ToValidUTF8(text[:maxNameBytes], "") + "…"
	}
	return text
}

// addName takes in a name that the session has not had; false means that the session has as many as it may.
func (f *folder) addName(s *session, p *part, ref nameRef, text string) bool {
	if s.names >= maxNames || s.nameBytes+len(text) > maxNameTotal {
		return false
	}
	n := len(f.names)
	if n == 0 || f.names[n-1].session != s || f.names[n-1].seq != p.seq {
		f.names = append(f.names, nameBlock{session: s, seq: p.seq})
		n++
	}
	block := &f.names[n-1]
	block.entries = append(block.entries, nameEntry{ref, text})
	if !s.learn(ref, text) {
		f.metrics.namesRefused.Inc()
	}
	f.nameRow(s, p, ref, text)
	return true
}

// learn remembers a name, and reports whether there is room for its text: else its id is resolved at read.
func (s *session) learn(ref nameRef, text string) bool {
	s.names++
	s.nameBytes += len(text)
	cost := nameEntryBytes + len(text)
	if s.nameRoom > 0 && s.nameCost+cost > s.nameRoom {
		s.refuse(ref, text)
		return false
	}
	if s.dicts[ref.dict] == nil {
		s.dicts[ref.dict] = map[uint32]string{}
	}
	s.dicts[ref.dict][ref.id] = text
	s.nameCost += cost
	return true
}

// nameRow writes a row of `dictionaries`. It is late when rollup rows have used the id already: only late names are looked
// up for those.
func (f *folder) nameRow(s *session, p *part, ref nameRef, text string) {
	late := uint8(0)
	_, used := s.unresolved[ref]
	_, refused := s.refused[ref]
	if used || refused || s.allLate {
		late = 1
		if used {
			delete(s.unresolved, ref)
			s.unresolvedDirty = true
		}
	}
	t := &table.Dictionaries
	b := f.out.batch(t.Table, factPartition(p.env.ReceivedAt, factDays(p.env.RetentionDays, p.env.RollupDays)))
	t.Tenant.AppendString(b, s.key.tenant)
	t.SessionID.AppendString(b, s.key.id)
	t.Dict.AppendString(b, ref.dict.String())
	t.ID.Append(b, ref.id)
	t.Value.Append(b, text)
	t.Late.Append(b, late)
	t.ReceivedDay.Append(b, dayOf(p.env.ReceivedAt))
}

// maxBlockBytes keeps a block within one KV message; a part with more names than that makes several.
const maxBlockBytes = 4 << 20

// encode returns the block's values for the bucket, one per key "<seq>-<n>".
func (b *nameBlock) encode() [][]byte {
	var values [][]byte
	var w writer
	flush := func() {
		if len(w.b) > 0 {
			values = append(values, s2.Encode(nil, w.b))
			w.b = w.b[:0]
		}
	}
	for _, e := range b.entries {
		w.n(int(e.ref.dict))
		w.u64(uint64(e.ref.id))
		w.str(e.value)
		if len(w.b) > maxBlockBytes {
			flush()
		}
	}
	flush()
	return values
}

// decodeNames reads a value that encode wrote.
func decodeNames(value []byte, f func(ref nameRef, text string)) error {
	n, err := s2.DecodedLen(value)
	if err != nil || n > maxBlockBytes+maxNameBytes+64 {
		return fmt.Errorf("dictionary block: %w", errState)
	}
	plain, err := s2.Decode(nil, value)
	if err != nil {
		return fmt.Errorf("dictionary block: %w", err)
	}
	r := reader{b: plain}
	for len(r.b) > 0 && r.err == nil {
		dict, id, text := r.u64(), r.u32(), r.str()
		if r.err == nil && dict < numDicts {
			f(nameRef{gpuflight.Dict(dict), id}, text)
		}
	}
	return r.err
}
