package stream

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/warpline/warpline/proto/varint"
)

// KindDoor is what a gateway has stored in a partition since its last message of this kind there: the body is a Door. It has neither a
// tenant nor a session. What it lists stands before it in the partition, so whoever has come to it has passed all of that, or it is lost.
const KindDoor Kind = "door"

// DoorSubject is the subject of a gateway's messages of KindDoor in a partition: nobody else has it, so that the gateway finds its last.
func DoorSubject(partition int, gateway string) string {
	return IngestSubject(partition, NoTenantToken, "door."+gateway)
}

// DoorFilter selects what all gateways have said in a partition.
func DoorFilter(partition int) string { return DoorSubject(partition, "*") }

// OfDoor reports whether a subject of a partition is one of DoorSubject.
func OfDoor(partition int, subject string) bool {
	return strings.HasPrefix(subject, DoorSubject(partition, ""))
}

// Door is what one gateway has stored in one partition.
type Door struct {
	Gateway string // a process: after a restart it has another name
	Number  uint64 // of the gateway's messages in this partition, from 1
	After   uint64 // INGEST sequence of the one before, 0: it is the first, or the one before was lost
	Since   int64  // when the oldest of Counts was received, ns
	Counts  []DoorCount
	Uploads []DoorUpload
}

// DoorCount is events and bytes of parts that were stored, of each key of usage.
type DoorCount struct {
	Tenant, Source string
	Day            int32 // on which they were received, since the epoch
	RollupDays     uint16
	Events, Bytes  uint64
}

// DoorUpload is the parts of one upload in the partition.
type DoorUpload struct {
	Count           int    // which of Counts its events are of
	Session, Window string // as the client names them; "" where there is none, or several
	// Last is where the upload's last part is, by which its record is known; 0: it has no record that is done.
	Last uint64
	Own  bool // the record is among those of Session
	// Again says that the upload was listed before, in a message that INGEST lost: its events are not in Counts.
	Again bool
	Parts []DoorPart
}

// DoorPart is one part and where it was stored.
type DoorPart struct {
	Part        int
	Seq, Events uint64
}

const (
	doorVersion = 1
	// Flags of an upload.
	doorOwn, doorAgain = 1, 2
)

// ErrDoor is returned, wrapped, for bytes that are not a Door of a version that this build reads.
var ErrDoor = errors.New("not what a gateway says that it stored, of version 1 (was it written by a newer warpline?)")

// AppendDoor appends the body of a message of KindDoor.
func AppendDoor(dst []byte, d *Door) []byte {
	texts, index := []string{""}, map[string]uint64{"": 0}
	of := func(s string) uint64 {
		i, ok := index[s]
		if !ok {
			i = uint64(len(texts))
			index[s], texts = i, append(texts, s)
		}
		return i
	}
	var b []byte
	u := func(n uint64) { b = binary.AppendUvarint(b, n) }
	u(of(d.Gateway))
	u(d.Number)
	u(d.After)
	u(uint64(d.Since))
	u(uint64(len(d.Counts)))
	for i := range d.Counts {
		c := &d.Counts[i]
		u(of(c.Tenant))
		u(of(c.Source))
		u(uint64(c.Day))
		u(uint64(c.RollupDays))
		u(c.Events)
		u(c.Bytes)
	}
	u(uint64(len(d.Uploads)))
	seq := int64(0)
	for i := range d.Uploads {
		up := &d.Uploads[i]
		flags := uint64(up.Count) << 2
		if up.Own {
			flags |= doorOwn
		}
		if up.Again {
			flags |= doorAgain
		}
		u(flags)
		u(of(up.Session))
		u(of(up.Window))
		u(up.Last)
		u(uint64(len(up.Parts)))
		for _, p := range up.Parts {
			u(uint64(p.Part))
			b = binary.AppendVarint(b, int64(p.Seq)-seq)
			u(p.Events)
			seq = int64(p.Seq)
		}
	}
	dst = binary.AppendUvarint(dst, doorVersion)
	dst = binary.AppendUvarint(dst, uint64(len(texts)-1))
	for _, s := range texts[1:] {
		dst = binary.AppendUvarint(dst, uint64(len(s)))
		dst = append(dst, s...)
	}
	return append(dst, b...)
}

// doorReader reads fields, of which some are numbers of texts.
type doorReader struct {
	varint.Reader
	texts []string
}

func (r *doorReader) text() string {
	i := r.Uint()
	if i >= uint64(len(r.texts)) {
		r.Bad = true
		return ""
	}
	return r.texts[i]
}

// ParseDoor reads the body of a message of KindDoor. Sizes are checked against what is there before anything is allocated.
func ParseDoor(body []byte) (d Door, err error) {
	r := doorReader{Reader: varint.Reader{Rest: body}, texts: []string{""}}
	if r.Uint() != doorVersion {
		return d, ErrDoor
	}
	for range r.Count(1) {
		r.texts = append(r.texts, string(r.Take(r.Count(1))))
	}
	d.Gateway, d.Number, d.After, d.Since = r.text(), r.Uint(), r.Uint(), int64(r.Uint())
	d.Counts = make([]DoorCount, r.Count(6))
	for i := range d.Counts {
		d.Counts[i] = DoorCount{Tenant: r.text(), Source: r.text(), Day: int32(r.Uint()), RollupDays: uint16(r.Uint()),
			Events: r.Uint(), Bytes: r.Uint()}
	}
	d.Uploads = make([]DoorUpload, r.Count(5))
	seq := int64(0)
	for i := range d.Uploads {
		up := &d.Uploads[i]
		flags := r.Uint()
		if flags>>2 >= uint64(len(d.Counts)) {
			return Door{}, ErrDoor
		}
		up.Count, up.Own, up.Again = int(flags>>2), flags&doorOwn != 0, flags&doorAgain != 0
		up.Session, up.Window, up.Last = r.text(), r.text(), r.Uint()
		up.Parts = make([]DoorPart, r.Count(3))
		for j := range up.Parts {
			p := &up.Parts[j]
			p.Part = int(r.Uint())
			seq += r.Int()
			p.Seq, p.Events = uint64(seq), r.Uint()
		}
	}
	if !r.Done() {
		return Door{}, ErrDoor
	}
	return d, nil
}

// LostUpload is an upload of which INGEST lost parts before they were folded, in WindowsBucket under LostUploadKey until it is sent again.
type LostUpload struct {
	Session string `json:"session,omitempty"`
	Window  string `json:"window,omitempty"`
	Source  string `json:"source"`
	Parts   []int  `json:"parts"`  // numbers of the lost ones
	Events  uint64 `json:"events"` // in them
	At      int64  `json:"at"`     // when that was found, ns
	// Accepted says that a person has read it: the audit does not name it any more. It is taken when it is sent again all the same.
	Accepted bool `json:"accepted,omitempty"`
}

// LostUploadKeys selects the keys of all uploads of which parts are lost.
const LostUploadKeys = "*.*.l.*"

// ManySessionsToken stands in LostUploadKey for the token of an upload that has several sessions.
const ManySessionsToken = "many"

// LostUploadKey is the key of the upload whose last part was stored at last. It is among the keys of its session, so that a deletion takes
// it.
func LostUploadKey(tenant, token string, last uint64) string {
	return fmt.Sprintf("%s.%s.l.%d", tenant, token, last)
}

// Add notes parts that are lost, which come together or not at all, and returns how many of them are new.
func (l *LostUpload) Add(parts []int, events uint64) (fresh int) {
	for _, n := range parts {
		if !slices.Contains(l.Parts, n) {
			l.Parts = append(l.Parts, n)
			fresh++
		}
	}
	if fresh > 0 {
		slices.Sort(l.Parts)
		l.Events += events
		l.Accepted = false
	}
	return fresh
}

// Encode writes the record.
func (l *LostUpload) Encode() ([]byte, error) {
	body, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("record of an upload of which parts are lost: %w", err)
	}
	return body, nil
}

// ParseLostUpload reads a record.
func ParseLostUpload(value []byte) (l LostUpload, err error) {
	if err := json.Unmarshal(value, &l); err != nil {
		return l, fmt.Errorf("record of an upload of which parts are lost: %w", err)
	}
	return l, nil
}
