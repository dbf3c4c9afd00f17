package ingest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"strconv"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/varint"
)

// keptWindows is how many windows the record of a (session, channel) remembered in the builds that had such records. They are read until
// they have expired; today each upload has a record of its own until it is sealed into a block, see uploads.go.
const keptWindows = 1024

// Digest is the first half of a SHA-256.
type Digest [16]byte

// DigestOf returns the digest of a text.
func DigestOf(text string) Digest {
	sum := sha256.Sum256([]byte(text))
	return Digest(sum[:16])
}

// String returns it in hex.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// windowState says how far an upload has come.
type windowState byte

const (
	windowPending windowState = 1 // some of its parts may be published
	windowDone    windowState = 2 // all of them are
	windowOpen    windowState = 3 // an operator accepted a conflict: the next bytes under this id are taken
)

// window is what is remembered of one upload.
type window struct {
	id       Digest // of the window id, or of the body
	body     Digest // of the body
	state    windowState
	whole    bool   // every byte was kept: window_acknowledged
	sequence uint64 // the client's, 0 for none; for people who look at the record
	// generation counts the conflicts accepted under this id; of an upload that is a session it says where that was deleted before, see
	// uploads.afterDeletion. It is part of the parts' identity.
	generation         uint64
	accepted, rejected uint64
	limits             CutLimits
	// last is the sequence in INGEST of the upload's last part, 0 when it is not known: records of older builds have none.
	last   uint64
	at     int64 // when it was settled, seconds since the epoch, rounded up; 0 when it is not known
	sealed bool  // read from a block: of body only the beginning is known
}

// record is the value of one key of the windows bucket.
type record struct {
	windows []window // oldest first
}

// find returns the window with this id, nil if it is not remembered.
func (r *record) find(id Digest) *window {
	for i := len(r.windows) - 1; i >= 0; i-- {
		if r.windows[i].id == id {
			return &r.windows[i]
		}
	}
	return nil
}

// add remembers a window and forgets the oldest when there are too many.
func (r *record) add(w window) {
	if n := len(r.windows) - keptWindows + 1; n > 0 {
		r.windows = append(r.windows[:0], r.windows[n:]...)
	}
	r.windows = append(r.windows, w)
}

// recordVersion 2 has where the last part is in INGEST, and when the upload was settled. Version 1 is read as well.
const recordVersion = 2

var errRecord = errors.New("not a window record of version 1 or 2 (was it written by a newer warpline?)")

// appendRecord encodes r: counts as uvarints, each distinct set of limits once.
func appendRecord(dst []byte, r *record) []byte {
	var sets []CutLimits
	index := func(l CutLimits) uint64 {
		for i := len(sets) - 1; i >= 0; i-- {
			if sets[i] == l {
				return uint64(i)
			}
		}
		sets = append(sets, l)
		return uint64(len(sets) - 1)
	}
	for i := range r.windows {
		index(r.windows[i].limits)
	}
	dst = append(dst, recordVersion, 0) // the 0 is a field of version 1 that is not read any more
	dst = binary.AppendUvarint(dst, uint64(len(sets)))
	for _, l := range sets {
		dst = binary.AppendUvarint(dst, uint64(l.MaxBody))
		dst = binary.AppendUvarint(dst, uint64(l.MaxRaw))
		dst = binary.AppendUvarint(dst, uint64(l.MaxLine))
		dst = binary.AppendUvarint(dst, math.Float64bits(l.MaxRatio))
	}
	dst = binary.AppendUvarint(dst, uint64(len(r.windows)))
	for i := range r.windows {
		w := &r.windows[i]
		dst = append(dst, w.id[:]...)
		dst = append(dst, w.body[:]...)
		flags := byte(w.state)
		if w.whole {
			flags |= 1 << 7
		}
		dst = append(dst, flags)
		for _, n := range [...]uint64{w.sequence, w.generation, w.accepted, w.rejected, index(w.limits), w.last, uint64(w.at)} {
			dst = binary.AppendUvarint(dst, n)
		}
	}
	return dst
}

// parseRecord reads a record. Sizes are checked against what is there before anything is allocated.
func parseRecord(src []byte) (*record, error) {
	if len(src) == 0 || src[0] < 1 || src[0] > recordVersion {
		return nil, errRecord
	}
	version := src[0]
	d := varint.Reader{Rest: src[1:]}
	d.Uint() // see appendRecord
	r := &record{}
	sets := make([]CutLimits, 0, d.Count(4))
	for range cap(sets) {
		set := CutLimits{MaxBody: d.Size(), MaxRaw: d.Size(), MaxLine: d.Size(), MaxRatio: math.Float64frombits(d.Uint())}
		if math.IsNaN(set.MaxRatio) {
			return nil, errRecord // NaN does not equal itself: the set could not be found again
		}
		sets = append(sets, set)
	}
	n := d.Count(2*len(Digest{}) + 6)
	r.windows = make([]window, 0, n+1)
	for range n {
		var w window
		copy(w.id[:], d.Take(len(w.id)))
		copy(w.body[:], d.Take(len(w.body)))
		if flags := d.Take(1); flags != nil {
			w.state, w.whole = windowState(flags[0]&^(1<<7)), flags[0]>>7 == 1
		}
		w.sequence, w.generation, w.accepted, w.rejected = d.Uint(), d.Uint(), d.Uint(), d.Uint()
		set := d.Uint()
		if version >= 2 {
			w.last, w.at = d.Uint(), d.Size()
		}
		if d.Bad || set >= uint64(len(sets)) || w.state < windowPending || w.state > windowOpen {
			return nil, errRecord
		}
		w.limits = sets[set]
		r.windows = append(r.windows, w)
	}
	if !d.Done() {
		return nil, errRecord
	}
	return r, nil
}

// Identity is what an upload is recognised by when it comes again, and what its parts are called.
type Identity struct {
	// Again makes the gateway read a repeat once more, so that the answer can say of each record what it said at first. Nothing is
	// published.
	Again bool

	at              place
	want            window
	name            string // of the parts, as long as no conflict was accepted
	all             bool   // of the session: nothing follows
	channel, window string
}

// ByWindow is the identity of an upload that the client names within a channel of the upload's session. sequence is for people.
func (u *Upload) ByWindow(channel, window string, sequence uint64) Identity {
	return Identity{
		at:      place{key: windowKey(u.Tenant, u.Session, channel, window), channel: channelKey(u.Tenant, u.Session, channel)},
		want:    named(window, u.Sum(), sequence),
		channel: channel, window: window,
	}
}

func named(id string, body Digest, sequence uint64) window {
	return window{id: DigestOf(id), body: body, sequence: sequence}
}

// ByContent is the identity of an upload of one session that is known by its content. name is the identity of its parts.
func (u *Upload) ByContent(content Digest, name string) Identity {
	return Identity{at: place{key: uploadKey(u.Tenant, u.Session, content)}, want: window{id: content, body: content}, name: name}
}

// BySession is the identity of an upload that is all that its session has. What it stands for is content: the session with other content is
// a conflict. The parts are named after both, so that a worker that remembers longer than the record does not take one for the other.
func (u *Upload) BySession(content Digest) Identity {
	id := DigestOf(u.Session)
	return Identity{at: place{key: uploadKey(u.Tenant, u.Session, id), comesBack: true}, want: window{id: id, body: content}, all: true,
		name: "session-" + id.String() + "~" + content.String()}
}

// BySource is the identity of an upload of several sessions: the source says by what it is known, in a kind of its own, and what content
// that stands for. name is the identity of its parts, <source>/<kind>/<id>, from which the record is found. Each upload has its own record,
// so a tenant's many processes never wait for each other.
func (u *Upload) BySource(kind string, id, content Digest, name string) Identity {
	// Nothing else has a second token of one letter.
	return Identity{at: place{key: u.Tenant + ".t." + kind + "." + id.String()}, want: window{id: id, body: content}, name: name}
}

// Unrecorded is the identity of an upload of one part, which JetStream and the worker recognise without the record of uploads.
func Unrecorded(name string) Identity { return Identity{name: name} }

// part names the parts. A window is <channel>/<conflicts accepted>/<window id>: a channel does not contain '/', so a client's id cannot be
// taken for another channel's, for an upload known by its content, or for a session's end.
func (id *Identity) part(c *claim) string {
	generation := uint64(0)
	if c != nil {
		generation = c.window.generation
	}
	switch {
	case id.window != "":
		return id.channel + "/" + strconv.FormatUint(generation, 10) + "/" + id.window
	case generation > 0:
		return id.name + "~" + strconv.FormatUint(generation, 10)
	}
	return id.name
}

// channelKey is the KV key of a channel's record in older builds.
func channelKey(tenant, session, channel string) string {
	return sessionPrefix(tenant, session) + "w." + DigestOf(channel).String()
}

// sessionPrefix begins every key of a session, so that a deletion finds them.
func sessionPrefix(tenant, session string) string {
	return tenant + "." + stream.SessionToken(session) + "."
}

// windowKey is the KV key of a window: client text is hashed.
func windowKey(tenant, session, channel, window string) string {
	return sessionPrefix(tenant, session) + "v." + DigestOf(channel+"/"+window).String() // a channel has no '/'
}

// uploadKey is the KV key of an upload without window headers.
func uploadKey(tenant, session string, body Digest) string {
	return sessionPrefix(tenant, session) + "u." + body.String()
}

// conflictKey is the KV key that says where a window is recorded that was sent again with other bytes: an operator does not name a channel.
func conflictKey(tenant, session, window, channel string) string {
	return conflictPrefix(tenant, session, window) + DigestOf(channel).String()[:8]
}

func conflictPrefix(tenant, session, window string) string {
	return sessionPrefix(tenant, session) + "x." + DigestOf(window).String() + "-"
}
