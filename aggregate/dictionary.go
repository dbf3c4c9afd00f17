package aggregate

import (
	"fmt"
	"strings"

	"github.com/klauspost/compress/s2"
	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/aggregate/state"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
)

// nameEntries are the dictionary entries that one part added to a session. They are stored under a create-only key before the chunk that
// uses them is published. They follow from the part and the state before it, so an owner that folds the part again writes the same entries.
type nameEntries struct {
	session *Session
	seq     uint64
	entries []nameEntry
}

type nameEntry struct {
	ref   NameRef
	value string
}

// within is a worker's own bound, or a tenant's that is narrower.
func within(most, ofTenant int) int {
	if ofTenant > 0 {
		return min(most, ofTenant)
	}
	return most
}

// MostNames is how many names the part's session may have.
func (p *Part) MostNames() int { return within(MaxNames, p.Env.Names) }

// CutName cuts a name of the part that is longer than its tenant may have it.
func (p *Part) CutName(text string) string {
	if most := within(MaxNameBytes, p.Env.NameBytes); len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// Text returns a name as it is kept, cut by [Part.CutName]; it does not keep b. Sessions that have the name share its memory.
func (f *Fold) Text(p *Part, b []byte) string { return p.CutName(f.texts.of(b)) }

// AddName takes in a name that the session has not had; false means that the session has as many as it may. From then on ids without a name
// have the name table.MoreNames.
func (f *Fold) AddName(p *Part, ref NameRef, text string) bool {
	s := p.Session
	if s.names >= p.MostNames() || s.nameBytes+len(text) > MaxNameTotal {
		f.refuseName(p, ref)
		return false
	}
	n := len(f.names)
	if n == 0 || f.names[n-1].session != s || f.names[n-1].seq != p.Seq {
		f.names = append(f.names, nameEntries{session: s, seq: p.Seq})
		n++
	}
	block := &f.names[n-1]
	block.entries = append(block.entries, nameEntry{ref, text})
	if !s.learn(ref, text) {
		f.metrics.namesRefused.Inc()
	}
	f.nameRow(p, ref, text)
	return true
}

// refuseName notes that the session has as many names as it may. What is known of the refused one is forgotten.
func (f *Fold) refuseName(p *Part, ref NameRef) {
	s := p.Session
	s.resolved(ref)
	if s.full {
		return
	}
	s.full = true
	f.dictionaryRow(s, table.MoreNamesDict, 0, table.MoreNames, 1, p.Env.ReceivedAt)
}

// learn remembers a name, and reports whether there is room for its text: if not, its id is resolved at read.
func (s *Session) learn(ref NameRef, text string) bool {
	s.names++
	s.nameBytes += len(text)
	cost := nameEntryBytes + len(text)
	if s.nameRoom > 0 && s.nameCost+cost > s.nameRoom {
		s.refuse(ref, text)
		return false
	}
	if s.dicts[ref.Dict] == nil {
		s.dicts[ref.Dict] = map[uint32]string{}
	}
	s.dicts[ref.Dict][ref.ID] = text
	s.nameCost += cost
	return true
}

// nameRow writes a row of `dictionaries`. It is late when rollup rows have used the id already: for those rows only late names are looked
// up. Of a session that had names refused nobody knows which ids they have used.
func (f *Fold) nameRow(p *Part, ref NameRef, text string) {
	s := p.Session
	late := uint8(0)
	_, used := s.unresolved[ref]
	_, refused := s.refused[ref]
	if used || refused || s.allLate || s.full {
		late = 1
		s.resolved(ref)
	}
	f.dictionaryRow(s, ref.Dict.String(), ref.ID, text, late, p.Env.ReceivedAt)
}

// resolved notes that a name which rows were written without has come, or will not come.
func (s *Session) resolved(ref NameRef) {
	if _, used := s.unresolved[ref]; used {
		delete(s.unresolved, ref)
		s.unresolvedDirty = true
	}
}

// WriteName writes a name that the source remembers itself to `dictionaries`. The partition does not keep it, nor is it stored for a
// successor.
func (f *Fold) WriteName(p *Part, ref NameRef, text string) {
	f.dictionaryRow(p.Session, ref.Dict.String(), ref.ID, text, 0, p.Env.ReceivedAt)
}

func (f *Fold) dictionaryRow(s *Session, dict string, id uint32, text string, late uint8, receivedAt int64) {
	t := &table.Dictionaries
	b := f.Out.Batch(t.Table, rows.FactDayPartition(receivedAt, rows.FactDays(s.RetentionDays, s.RollupDays)))
	t.Tenant.AppendString(b, s.Key.Tenant)
	t.SessionID.AppendString(b, s.Key.ID)
	t.Dict.AppendString(b, dict)
	t.ID.Append(b, id)
	t.Value.Append(b, text)
	t.Late.Append(b, late)
	t.ReceivedDay.Append(b, rows.DayOf(receivedAt))
}

// maxEntriesBytes keeps a value within one KV message; a part with more names than that makes several.
const maxEntriesBytes = 4 << 20

// encode returns the entries' values for the bucket, one per key "<seq>-<n>". w is scratch.
func (b *nameEntries) encode(w *state.Writer) [][]byte {
	var values [][]byte
	w.Body = w.Body[:0]
	flush := func() {
		if len(w.Body) > 0 {
			values = append(values, s2.Encode(nil, w.Body))
			w.Body = w.Body[:0]
		}
	}
	for _, e := range b.entries {
		w.N(int(e.ref.Dict))
		w.U64(uint64(e.ref.ID))
		w.Str(e.value)
		if len(w.Body) > maxEntriesBytes {
			flush()
		}
	}
	flush()
	return values
}

// decodeNames reads a value that encode wrote.
func decodeNames(value []byte, f func(ref NameRef, text string)) error {
	n, err := s2.DecodedLen(value)
	if err != nil || n > maxEntriesBytes+MaxNameBytes+64 {
		return fmt.Errorf("dictionary entries: %w", state.Err)
	}
	plain, err := s2.Decode(nil, value)
	if err != nil {
		return fmt.Errorf("dictionary entries: %w", err)
	}
	r := state.Reader{Rest: plain}
	for len(r.Rest) > 0 && r.Err == nil {
		dict, id, text := r.U64(), r.U32(), r.Str()
		if r.Err == nil && dict < numDicts {
			f(NameRef{gpuflight.Dict(dict), id}, text)
		}
	}
	return r.Err
}

// OwnNames is the first id of names that came as text, without an id. The client counts its ids from 1.
const OwnNames = uint32(1) << 31

// maxProbes bounds the search for a free id; a second one is needed only when hashes collide, which takes intent.
const maxProbes = 64

// Intern returns the id of a text in one of the session's dictionaries, and enters it there as if the client had declared it. The id
// follows from the text: it is a hash, or the next free id after it. ” is 0. ok is false when the session has as many names as it may.
func (f *Fold) Intern(p *Part, dict gpuflight.Dict, text []byte) (id uint32, ok bool) {
	s := p.Session
	if len(text) == 0 {
		return 0, true
	}
	if len(text) > within(MaxNameBytes, p.Env.NameBytes) {
		text = []byte(p.CutName(string(text)))
	}
	id = OwnNames | uint32(xxh3.Hash(text))
	for range maxProbes {
		known, taken := s.dicts[dict][id]
		if !taken {
			if hash, refused := s.refused[NameRef{dict, id}]; refused {
				if hash == xxh3.Hash(text) {
					return id, true
				}
				id = OwnNames | (id + 1)
				continue
			}
			return id, f.AddName(p, NameRef{dict, id}, string(text))
		}
		if known == string(text) {
			return id, true
		}
		id = OwnNames | (id + 1)
	}
	return 0, false
}
