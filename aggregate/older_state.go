package aggregate

import (
	"fmt"
	"unicode/utf8"

	"github.com/warpline/warpline/aggregate/state"
)

// States of versions 1 to 5 did not have sections: what sources kept stood among the session's own facts. They are read here, and each
// source reads the fields that are its own.

// Fields are a run of fields of a session in such a state.
type Fields int

// The runs of fields, in the order in which they stand.
const (
	FieldsParts   Fields = iota // after the parts that were folded
	FieldsNames                 // after ids without names
	FieldsFlushed               // before what is held back: whether what was held back before is rows now
	FieldsHeld                  // after what is held back of the session itself
	FieldsMinutes               // after that, also in states without anything held back
	FieldsClock                 // after the clocks
	FieldsKeys                  // the last
)

// Older is a State whose source had fields in such states.
type Older interface {
	// ReadOlder reads the source's fields in a run, often none.
	ReadOlder(p Fields, r *state.Reader)
}

// readFlatSession reads a session of a state without sections, after its key.
func (f *Fold) readFlatSession(s *Session, r *state.Reader) {
	var older []Older
	for i := range f.sources {
		if o, ok := f.stateOf(s, i).(Older); ok {
			older = append(older, o)
		}
	}
	fields := func(p Fields) {
		for _, o := range older {
			o.ReadOlder(p, r)
		}
	}
	s.readFacts(r)
	s.parts.Read(r)
	fields(FieldsParts)
	s.readUnresolved(r)
	fields(FieldsNames)
	if r.Has(state.HasHeld) {
		fields(FieldsFlushed)
		s.heldSince = r.I64()
		s.Delta.read(r)
		fields(FieldsHeld)
	}
	fields(FieldsMinutes)
	if r.Has(state.HasClock) {
		s.readClock(r)
	}
	fields(FieldsClock)
	fields(FieldsKeys)
}

// dropEmpty removes from sessions the empty states of sources: every source was given every session that was read.
func (f *Fold) dropEmpty() {
	for _, s := range f.Sessions {
		for i, st := range s.states {
			if st != nil && st.Size(true) == 0 {
				st.Drop()
				s.states[i] = nil
			}
		}
	}
}

// stateReader returns a reader that knows the layout of a state and stands after the version.
func (f *Fold) stateReader(written []byte) (state.Reader, error) {
	r := state.Reader{Rest: written}
	version := r.U64()
	if r.Err != nil {
		return r, r.Err
	}
	all, ok := state.Layouts[version]
	if !ok {
		return r, fmt.Errorf("version %d, and this program reads up to %d: %w", version, state.Version, state.Err)
	}
	if len(all) == 1 {
		r.Layout = all[0]
		return r, nil
	}
	for _, l := range all {
		try := state.Reader{Rest: r.Rest, Layout: l, Dry: true}
		scratch := newFold(&Config{Sources: f.Config.Sources}, nil)
		if scratch.readState(&try) == nil && len(try.Rest) == 0 {
			r.Layout = l
			return r, nil
		}
	}
	return r, fmt.Errorf("version %d: %w", version, state.Err)
}

// plausible fails a dry run when what it reads as a key cannot be one.
func plausible(r *state.Reader, key SessionKey) {
	if r.Dry && (key.Tenant == "" || !utf8.ValidString(key.Tenant) || !utf8.ValidString(key.ID)) {
		r.Fail()
	}
}
