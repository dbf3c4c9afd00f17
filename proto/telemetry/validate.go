package telemetry

import (
	"slices"
	"strings"

	"github.com/warpline/warpline/proto/jsonscan"
)

// Options says how to read records and documents. The zero value is how the newest peer reads them.
type Options struct {
	// Peer is the release whose rules count.
	Peer Peer
	// RefuseLegacy refuses records without schema_version instead of converting them.
	RefuseLegacy bool
	// DefaultCollector names legacy records that nothing else names; "" is "legacy.unknown".
	DefaultCollector string
	// DefaultSessionID is the session of records that name none; "" is none.
	DefaultSessionID string
	// DefaultSamplingIntervalMS is for legacy records without one.
	DefaultSamplingIntervalMS int64
	// BundleKeys reads from legacy records what the peer loses of an out-of-memory bundle: active_memory, inactive_memory,
	// device_used and device_free, each where the canonical key is not there.
	BundleKeys bool

	// EventsKey names the key that holds the list of events in a document that is an object; nil is "events", if that is a list.
	EventsKey *string
	// Lines reads a JSON record a line (NDJSON), which the peer does not. Empty lines do not count.
	Lines bool
	// TornTail passes over a last line that does not end and is not JSON: a segment of a sink is still being written. It needs Lines.
	TornTail bool
	// MaxRecordBytes is the length of the longest record; 0 is DefaultMaxRecordBytes. A Decoder holds up to twice as much.
	MaxRecordBytes int

	frame bool // it was accepted before: what it says about capabilities refuses nothing
}

// DefaultMaxRecordBytes is what Options.MaxRecordBytes is when it is 0: a record must fit in a chunk.
const DefaultMaxRecordBytes = 1 << 20

// Validator holds what reading a record needs, for use again. The zero value is ready. Not safe for concurrent use.
type Validator struct {
	record   record
	values   values
	skip     skipper
	key      []byte // a decoded key
	strings  []byte // decoded strings of the event
	meta     canon
	out      []byte // metadata of a legacy event
	plain    []byte // likewise as release 0.2.9 leaves it, if that is something else
	notes    notes
	able     capabilityCache
	inferred described

	sessionText []byte

	collector, backend []byte // see backendOf
}

// Validate applies the rules of the record's own schema version and nothing else: no conversion, and no session except the record's own.
// It returns nil if the JSON text is a valid record to the peer.
func (v *Validator) Validate(text []byte, p Peer) *Refusal {
	if r := v.read(text); r != nil {
		return r
	}
	v.strings = v.strings[:0]
	version := int64(2)
	if p == Peer029 {
		if r := v.keys(keysOf(2), 0); r != nil {
			return r
		}
		n := v.integer(fSchemaVersion)
		if n.kind != kInt {
			return notInteger(fSchemaVersion)
		}
		if n.wide != nil || n.v != 2 {
			return refuse(UnsupportedSchema, fSchemaVersion, " must be 2")
		}
	} else {
		var r *Refusal
		if version, r = v.version(p); r != nil {
			return r
		}
		if r := v.keys(keysOf(version), 0); r != nil {
			return r
		}
		if version > 2 {
			if r := named(fSessionID, v.text(fSessionID)); r != nil {
				return r
			}
		}
	}
	v.load()
	val := &v.values
	if r := val.rules(version == 4); r != nil {
		return r
	}
	if version == 4 {
		notes := v.notes.read(v.record.bytes(v.record.tokens[fMetadata]))
		t := notes.capabilities
		d := v.able.read(notes.text[t.start:t.end], t.kind)
		if d.refusal != nil {
			return d.refusal
		}
		if r := d.agrees(val); r != nil {
			return r
		}
	}
	if r := val.resolve(val.given); r != nil {
		return r
	}
	return val.fit()
}

// version returns the record's schema version if the peer knows it.
func (v *Validator) version(p Peer) (int64, *Refusal) {
	n := v.integer(fSchemaVersion)
	if n.kind != kInt {
		return 0, notInteger(fSchemaVersion)
	}
	if n.wide != nil || n.v < 2 || n.v > 4 || p == Peer029 && n.v != 2 {
		return 0, &Refusal{UnsupportedSchema, names[fSchemaVersion], "Unsupported schema_version: " + n.big().String()}
	}
	return n.v, nil
}

// Event reads the JSON text of one record, of schema version 2 to 4 or legacy, into e. It returns nil if the record is accepted; if it
// is not, e is undefined. o may be nil. What e refers to is text and memory of v: it holds until the next call.
func (v *Validator) Event(e *Event, text []byte, o *Options) *Refusal {
	if r := v.read(text); r != nil {
		return r
	}
	return v.event(e, o)
}

var standard Options

// event is Event for the record that was parsed last.
func (v *Validator) event(e *Event, o *Options) *Refusal {
	if o == nil {
		o = &standard
	}
	v.strings = v.strings[:0]
	if !v.record.has(fSchemaVersion) {
		return v.legacyEvent(e, o)
	}
	version, r := v.version(o.Peer)
	if r != nil {
		return r
	}
	metadata := v.record.get(fMetadata)
	if o.Peer == Peer029 {
		if r := v.keys(keysOf(version), 0); r != nil {
			return r
		}
		v.load()
	} else { // the newer peer looks at metadata and identity before anything else
		if metadata.kind != kAbsent && metadata.kind != kObject {
			return refuse(NotObject, fMetadata, " must be an object")
		}
		v.load()
		if r := v.identity(); r != nil {
			return r
		}
		if metadata.kind == kAbsent {
			return &Refusal{MissingFields, names[fMetadata], "'metadata'"} // what Python prints of a KeyError
		}
	}
	var notes *notes
	var named []byte
	if metadata.kind == kObject {
		notes = v.notes.read(v.record.bytes(metadata))
		named = v.sessionOf(notes.text, notes.session, o)
	}
	if o.Peer != Peer029 {
		found := session
		if version == 2 {
			found = 0
		}
		if r := v.keys(keysOf(version), found); r != nil {
			return r
		}
	}
	val := &v.values
	if version > 2 && named != nil && blank(named) {
		return refuse(BlankString, fSessionID, " must be a non-empty string")
	}
	if r := val.rules(version == 4); r != nil {
		return r
	}
	if named != nil && o.Peer != Peer029 && blank(named) { // of version 2, whose result is judged as version 4
		return refuse(BlankString, fSessionID, " must be a non-empty string")
	}
	if r := v.finish(e, o, named, notes.text, notes.capabilities, notes.backend, notes.source); r != nil {
		return r
	}
	e.Version = uint8(version)
	e.Metadata = v.record.bytes(metadata)
	if !o.frame {
		e.spelled, e.of = notes.spelling(), &e.Metadata[0]
	}
	return nil
}

// legacyEvent is event for a record without schema version.
func (v *Validator) legacyEvent(e *Event, o *Options) *Refusal {
	if o.RefuseLegacy {
		return &Refusal{Code: LegacyRefused, Message: "Legacy record conversion is disabled"}
	}
	if r := v.convert(o); r != nil {
		return r
	}
	named := v.sessionOf(v.record.text, v.meta.find("session_id"), o)
	if named != nil && blank(named) {
		return refuse(BlankString, fSessionID, " must be a non-empty string")
	}
	if r := v.values.rules(false); r != nil {
		return r
	}
	if r := v.finish(e, o, named, v.record.text, v.meta.find(capabilitiesKey), v.meta.find("backend"),
		v.meta.find("sampling_source")); r != nil {
		return r
	}
	if named == nil && o.Peer != Peer029 {
		e.SessionID = v.legacySession()
	}
	e.Version, e.Legacy, e.Metadata, e.plain = 1, true, v.out, v.plain
	return nil
}

// finish makes the event of values that have passed the rules, and applies those about what its collector can measure. The tokens are
// values of metadata, and text is where they stand.
func (v *Validator) finish(e *Event, o *Options, named, text []byte, capabilities, backend, source token) *Refusal {
	val := &v.values
	var d *described
	if capabilities.kind != kAbsent {
		d = v.able.read(text[capabilities.start:capabilities.end], capabilities.kind)
	} else {
		d = v.infer(text, backend, source)
	}
	wrong := d.refusal
	if wrong == nil {
		wrong = d.agrees(val)
	}
	if wrong != nil && o.Peer != Peer029 && !o.frame {
		return wrong
	}
	if r := val.resolve(val.given); r != nil {
		return r
	}
	if r := val.fit(); r != nil {
		return r
	}
	val.event(e)
	e.peer = o.Peer
	if wrong == nil {
		e.Capabilities, e.CapabilityBackend, e.CapabilityCollector, e.SamplingSource = d.bits, d.backend, d.collector, d.source
	}
	if !d.given {
		e.Has |= InferredCapabilities
	}
	if named != nil {
		e.SessionID = named
		e.Has |= HasSession
	}
	return nil
}

// read parses text, which may have space around it, and finds out why if it cannot.
func (v *Validator) read(text []byte) *Refusal {
	start := jsonscan.Space(text, 0)
	n, ok := v.record.parse(text[start:], &v.key)
	if ok && jsonscan.Space(text, start+n) == len(text) {
		if bad := firstBad(text); bad < len(text) {
			return &Refusal{Code: BadUTF8, Message: badUTF8(text[bad:], int64(bad), true)}
		}
		return nil
	}
	return v.diagnose(text)
}

// diagnose says what is wrong with text that parse did not take whole.
func (v *Validator) diagnose(text []byte) *Refusal {
	if bad := firstBad(text); bad < len(text) {
		return &Refusal{Code: BadUTF8, Message: badUTF8(text[bad:], int64(bad), true)}
	}
	if jsonscan.Word(text, 0, "\ufeff") {
		return &Refusal{Code: BadJSON, Message: place{}.describe(unexpectedBOM)}
	}
	s := &v.skip
	s.reset()
	n, _, wrong := s.run(text, 0, true)
	if s.longest > 0 { // the peer stops there, whatever follows
		return &Refusal{Code: IntegerTooLong, Message: tooManyDigits(s.longest)}
	}
	if wrong == nil {
		if end := jsonscan.Space(text, n); end < len(text) {
			wrong = &syntaxError{extraData, int64(end)}
		}
	}
	switch {
	case wrong != nil && wrong.what != nestsTooDeep:
		return &Refusal{Code: BadJSON, Message: place{}.locate(wrong, text, 0)}
	case wrong != nil || s.deepest > MaxDepth:
		return &Refusal{Code: TooDeep, Message: tooDeep}
	}
	return &Refusal{Code: EventNotObject, Message: "record must be a mapping"}
}

// keys applies the rules about which keys there are, of those that are known; found are there, wherever they were found.
func (v *Validator) keys(known, found uint64) *Refusal {
	r := &v.record
	if missing := known &^ identity &^ (r.seen | found); missing != 0 {
		var list []string
		for f := range canonicals {
			if missing>>f&1 != 0 {
				list = append(list, names[f])
			}
		}
		refusal := &Refusal{Code: MissingFields, Message: "Missing required telemetry fields: " + strings.Join(list, ", ")}
		if len(list) == 1 {
			refusal.Field = list[0]
		}
		return refusal
	}
	if r.others || r.seen&^known != 0 {
		var list []string
		members(r.text, func(key []byte, escaped bool, _ token) {
			if escaped {
				v.key = appendDecoded(v.key[:0], key)
				key = v.key
			}
			if f := lookup(key); f == fUnknown || known>>f&1 == 0 {
				list = append(list, string(key))
			}
		})
		slices.Sort(list)
		list = slices.Compact(list)
		return &Refusal{Code: UnknownFields, Message: "Unknown telemetry fields: " + strings.Join(list, ", ")}
	}
	return nil
}

// identity applies the newer peer's rules about job and ranks, for which null is as good as not there.
func (v *Validator) identity() *Refusal {
	val := &v.values
	given := val.given
	for f := fJobID; f <= fWorldSize; f++ {
		if v.record.get(f).kind == kNull {
			given &^= 1 << f
		}
	}
	if given>>fJobID&1 != 0 {
		if r := val.named(fJobID); r != nil {
			return r
		}
	}
	if r := val.ranks(given); r != nil {
		return r
	}
	kept := [...]integer{val.ints[fRank], val.ints[fLocalRank], val.ints[fWorldSize]}
	r := val.resolve(given)
	val.ints[fRank], val.ints[fLocalRank], val.ints[fWorldSize] = kept[0], kept[1], kept[2]
	return r
}

func (v *Validator) integer(f field) integer {
	t := v.record.get(f)
	return integerOf(v.record.bytes(t), t.kind)
}

func (v *Validator) text(f field) text { return v.textOf(v.record.get(f)) }

func (v *Validator) textOf(t token) text {
	if t.kind != kString {
		return text{kind: t.kind}
	}
	b := v.record.text[t.start+1 : t.end-1]
	if t.escaped {
		start := len(v.strings)
		v.strings = appendDecoded(v.strings, b)
		b = v.strings[start:len(v.strings):len(v.strings)]
	}
	return text{b, kString}
}

// load takes the values of a record that has a schema version.
func (v *Validator) load() {
	val := &v.values
	val.wide = false
	val.given = v.record.seen & identity
	for _, f := range [...]field{fTimestampNS, fSamplingIntervalMS, fPID, fRank, fLocalRank, fWorldSize, fDeviceID, fAllocated, fReserved,
		fActive, fInactive, fChange, fDeviceUsed, fDeviceFree, fDeviceTotal} {
		n := v.integer(f)
		val.ints[f] = n
		val.wide = val.wide || n.wide != nil
	}
	for _, f := range [...]field{fEventType, fCollector, fHost, fJobID, fContext} {
		val.texts[f] = v.text(f)
	}
	val.metadata = v.record.get(fMetadata).kind
}
