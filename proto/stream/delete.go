package stream

import (
	"errors"
	"fmt"
	"regexp"
	"unicode"
	"unicode/utf8"
)

// KindDelete is a tombstone: Delete says what is deleted. It follows the data that it deletes, on the same subject, and does not have a
// body.
const KindDelete Kind = "delete"

// NoSession is the session under which uploads without a usable session id are kept, all of them rejects.
const NoSession = "unknown"

// ComesBack reports whether the id of the part's session names the sender and not what is sent, so that it comes back with the sender. A
// deletion of such a session takes what came before it; what is received later is new.
func (e *Envelope) ComesBack() bool {
	// Builds before the field Recurs named the sessions of telemetry after processes, and no others.
	return e.Recurs || e.Session == NoSession || e.Source == recurringSource
}

// recurringSource is the source whose sessions all come back, in envelopes of builds that did not say so.
const recurringSource = "telemetry"

// PurgeToken is in the subject of a tenant's tombstones in place of a session's token, which is hex.
const PurgeToken = "purge"

// MaxSessionBytes bounds a session id; longer ones are refused at the door.
const MaxSessionBytes = 256

// Deletion says what is to be removed: one session of a tenant, or all that the tenant has. A tenant's deletion needs a tombstone
// in every partition.
type Deletion struct {
	// ID names the request; a tombstone that comes twice counts once.
	ID      string `json:"id"`
	Tenant  string `json:"tenant"`
	Session string `json:"session,omitempty"` // "" is all of the tenant
	// At is when NATS stored the tombstone, nanoseconds since the epoch. The worker sets it.
	At int64 `json:"at,omitempty"`
	// Dictionaries and Windows are the last sequences of the two buckets' streams before the first tombstone of a tenant was published:
	// everything of the tenant up to there is older than the request. They are not used for a session.
	Dictionaries uint64 `json:"dictionaries,omitempty"`
	Windows      uint64 `json:"windows,omitempty"`
}

// DeletionRecord says what one tombstone removed. It does not hold the id of a session, only its token.
type DeletionRecord struct {
	ID        string            `json:"id"`
	Tenant    string            `json:"tenant"`
	Token     string            `json:"token"` // of the session, or PurgeToken
	Partition int               `json:"partition"`
	Rows      map[string]uint64 `json:"rows,omitempty"` // by table
	// Messages, Keys, Objects and the rows of contents are what the last try found: if an earlier try was killed half-way, what it had
	// removed is not counted.
	Messages uint64 `json:"messages"`
	Keys     uint64 `json:"keys"`
	Objects  uint64 `json:"objects"`
	DoneAt   int64  `json:"done_at"` // nanoseconds since the epoch
}

// DeletionRecordKey is the KV key of a record.
func DeletionRecordKey(id string, partition int) string { return fmt.Sprintf("%s.%d", id, partition) }

// Bounded reports whether the deletion ends with the chunk that carries it, since something with the same name may come after it. That is
// so for a tenant, for uploads without a session, and for ids that sources make, which are a word, a colon and the rest. A client may
// choose such an id as well. Then the bound does not matter: what comes later of it is dropped before it is in any chunk.
func (d *Deletion) Bounded() bool {
	return d.Session == "" || d.Session == NoSession || madeID.MatchString(d.Session)
}

var madeID = regexp.MustCompile(`^[a-z]+:`)

// Token is the subject token of what d deletes.
func (d *Deletion) Token() string {
	if d.Session == "" {
		return PurgeToken
	}
	return SessionToken(d.Session)
}

// Subjects selects, among the subjects <prefix>.<tenant>.<token>…, those of what d deletes; rest is what may follow the token.
func (d *Deletion) Subjects(prefix, rest string) string {
	if d.Session == "" {
		return prefix + "." + d.Tenant + ".>"
	}
	return prefix + "." + d.Tenant + "." + d.Token() + rest
}

// ObjectPrefix begins the name of every object in PartsObjects that belongs to a session, or with an empty token to a tenant.
func ObjectPrefix(tenant, token string) string {
	if token == "" {
		return tenant + "."
	}
	return tenant + "." + token + "."
}

// CheckSession returns an error that says the rule when id cannot be a session's: the gateway would not have taken it.
func CheckSession(id string) error {
	switch {
	case id == "":
		return errors.New("a session id cannot be empty")
	case len(id) > MaxSessionBytes:
		return fmt.Errorf("a session id has at most %d bytes, this one %d", MaxSessionBytes, len(id))
	case !utf8.ValidString(id):
		return fmt.Errorf("session id %q is not UTF-8", id)
	}
	for _, r := range id {
		if unicode.IsControl(r) {
			return fmt.Errorf("session id %q holds control characters", id)
		}
	}
	return nil
}
