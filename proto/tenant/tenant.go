// Package tenant holds who may send, how much, and for how long their rows are kept. It does no I/O.
package tenant

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"
)

// Key is what is stored of a key: never the secret, only its hash (which is the key of the record).
type Key struct {
	ID      string    `json:"id"`     // for people and logs: the first characters of the secret
	Tenant  string    `json:"tenant"` // "" of an operator's
	Scope   Scope     `json:"scope,omitempty"`
	Note    string    `json:"note,omitempty"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"` // zero: never
	Revoked time.Time `json:"revoked,omitzero"` // zero: valid
	// LastsSeconds is how long a key that was rotated was made to work, -1 for ever: Expires is when its successor is alone. 0 of others.
	LastsSeconds int64  `json:"lasts_seconds,omitempty"`
	Limits       Limits `json:"limits"`
}

// Life is how long the key was made to work, 0 for ever. A successor works for as long.
func (k *Key) Life() time.Duration {
	switch {
	case k.LastsSeconds > 0:
		return time.Duration(min(k.LastsSeconds, math.MaxInt64/int64(time.Second))) * time.Second
	case k.LastsSeconds < 0 || k.Expires.IsZero():
		return 0
	}
	return max(k.Expires.Sub(k.Created), time.Second)
}

// EndWith lets the key work until a time, if it does not end before, since it has a successor.
func (k *Key) EndWith(at time.Time) {
	if !k.Expires.IsZero() && !k.Expires.After(at) {
		return
	}
	if k.LastsSeconds == 0 {
		if k.LastsSeconds = int64(k.Life() / time.Second); k.LastsSeconds == 0 {
			k.LastsSeconds = -1
		}
	}
	k.Expires = at
}

// Limits are a key's limits. A zero field means the service's default (see DefaultLimits); to lift a limit set it to a huge number.
type Limits struct {
	EventsPerSecond float64 `json:"events_per_second,omitempty" yaml:"events_per_second"`
	BytesPerSecond  float64 `json:"bytes_per_second,omitempty" yaml:"bytes_per_second"` // of compressed body, as received
	// RawBytesPerSecond counts bytes after decompression: what a body costs is known only then.
	RawBytesPerSecond float64 `json:"raw_bytes_per_second,omitempty" yaml:"raw_bytes_per_second"`
	RequestsPerSecond float64 `json:"requests_per_second,omitempty" yaml:"requests_per_second"`
	BurstSeconds      float64 `json:"burst_seconds,omitempty" yaml:"burst_seconds"`   // bucket size = rate × this
	MaxBodyBytes      int64   `json:"max_body_bytes,omitempty" yaml:"max_body_bytes"` // before decompression
	MaxRawBytes       int64   `json:"max_raw_bytes,omitempty" yaml:"max_raw_bytes"`   // after decompression
	MaxRatio          float64 `json:"max_ratio,omitempty" yaml:"max_ratio"`           // raw / compressed, checked beyond 192 MiB raw
	MaxLineBytes      int64   `json:"max_line_bytes,omitempty" yaml:"max_line_bytes"`
	RetentionDays     uint16  `json:"retention_days,omitempty" yaml:"retention_days"` // of raw rows
	RollupDays        uint16  `json:"rollup_days,omitempty" yaml:"rollup_days"`       // of rollups and facts
	// RetentionClass is the name of their class, which says both; the days are then what it had when it was given.
	RetentionClass string `json:"retention_class,omitempty" yaml:"retention_class"`
	// RawRows says whether rows of single events are kept, RawOn or RawOff, or what rollups and facts make of them alone.
	RawRows       string `json:"raw_rows,omitempty" yaml:"raw_rows"`
	MaxCubinBytes int64  `json:"max_cubin_bytes,omitempty" yaml:"max_cubin_bytes"` // after decompression, at most stream.MaxCubinBytes
	// NoLaunchStacks keeps the launch stacks of PC samples out of the tables.
	NoLaunchStacks bool `json:"no_launch_stacks,omitempty" yaml:"no_launch_stacks"`
	// UploadsAtOnce is how many uploads one gateway handles at once, at most a quarter of all that it does; 0 in DefaultLimits: as many.
	UploadsAtOnce int `json:"uploads_at_once,omitempty" yaml:"uploads_at_once"`
	// Names and OpenScopes are how many names and open scopes a session may have, NameBytes where a longer name is cut. 0 in DefaultLimits,
	// and what is more: the bound of workers, 200 000, 8192 and 32 KiB.
	Names      int `json:"names,omitempty" yaml:"names"`
	NameBytes  int `json:"name_length,omitempty" yaml:"name_length"`
	OpenScopes int `json:"open_scopes,omitempty" yaml:"open_scopes"`
	// ActiveSessions is how many sessions may be active, at all gateways together; 0 in DefaultLimits: any number.
	ActiveSessions int `json:"active_sessions,omitempty" yaml:"active_sessions"`
	// PendingBytes is how many bytes of parts, before compression, may be accepted and not in SQL yet, at all gateways together; 0 in
	// DefaultLimits: any number.
	PendingBytes int64 `json:"pending_bytes,omitempty" yaml:"pending_bytes"`
	// PastSeconds and FutureSeconds are how far before and after its receipt the time of an event may be; 0 in DefaultLimits: any time.
	PastSeconds   float64 `json:"past_seconds,omitempty" yaml:"past_seconds"`
	FutureSeconds float64 `json:"future_seconds,omitempty" yaml:"future_seconds"`

	// EventsPerDay and BytesPerDay, as received, are what may come in a day of UTC; 0 in DefaultLimits: any number.
	EventsPerDay float64 `json:"quota_events_per_day,omitempty" yaml:"quota_events_per_day"`
	BytesPerDay  float64 `json:"quota_bytes_per_day,omitempty" yaml:"quota_bytes_per_day"`
	// QuotaPolicy is what senders are told beyond that: QuotaHold or QuotaDrop.
	QuotaPolicy string `json:"quota_policy,omitempty" yaml:"quota_policy"`
	// QuotaTrickle is the share of uploads, 0 to 1, that is taken all the same.
	QuotaTrickle float64 `json:"quota_trickle,omitempty" yaml:"quota_trickle"`
}

// Policies of quotas.
const (
	QuotaHold = "hold" // keep it and send it on the next day
	QuotaDrop = "drop" // give it up
)

// Whether raw rows are kept.
const (
	RawOn  = "on"
	RawOff = "off"
)

// Rates reports whether l has a rate or a quota of its own.
func (l Limits) Rates() bool {
	return l.EventsPerSecond != 0 || l.BytesPerSecond != 0 || l.RawBytesPerSecond != 0 || l.RequestsPerSecond != 0 || l.BurstSeconds != 0 ||
		l.EventsPerDay != 0 || l.BytesPerDay != 0
}

// DefaultLimits are the service's limits where neither configuration nor key says otherwise.
//
// Rates: 5 M events/s is what one two-core machine cannot reach, so a lone tenant is bounded by the machine and a runaway loop
// still cannot starve others for long. Bodies: the real client cuts windows at 64 MiB raw plus one line and refuses to upload
// more than 128 MiB raw; 1 GiB raw and 256 MiB compressed leave room. Ratio: real windows compress 10 to 60 fold. Requests: legacy mode,
// one a line, was seen to send 1100 a second.
func DefaultLimits() Limits {
	return Limits{
		EventsPerSecond: 5e6, BytesPerSecond: 256 << 20, RawBytesPerSecond: 1 << 30, RequestsPerSecond: 5000, BurstSeconds: 2,
		MaxBodyBytes: 256 << 20, MaxRawBytes: 1 << 30, MaxRatio: 400, MaxLineBytes: 32 << 20,
		RetentionDays: 7, RollupDays: 395, MaxCubinBytes: 64 << 20, QuotaPolicy: QuotaHold, RawRows: RawOn,
	}
}

// Or returns l with zero fields taken from d. The name of a class is left as it is: see Classes.Days.
func (l Limits) Or(d Limits) Limits {
	or(&l.EventsPerSecond, d.EventsPerSecond)
	or(&l.BytesPerSecond, d.BytesPerSecond)
	or(&l.RawBytesPerSecond, d.RawBytesPerSecond)
	or(&l.RequestsPerSecond, d.RequestsPerSecond)
	or(&l.BurstSeconds, d.BurstSeconds)
	or(&l.MaxBodyBytes, d.MaxBodyBytes)
	or(&l.MaxRawBytes, d.MaxRawBytes)
	or(&l.MaxRatio, d.MaxRatio)
	or(&l.MaxLineBytes, d.MaxLineBytes)
	or(&l.RetentionDays, d.RetentionDays)
	or(&l.RollupDays, d.RollupDays)
	or(&l.MaxCubinBytes, d.MaxCubinBytes)
	or(&l.RawRows, d.RawRows)
	or(&l.NoLaunchStacks, d.NoLaunchStacks)
	or(&l.UploadsAtOnce, d.UploadsAtOnce)
	or(&l.Names, d.Names)
	or(&l.NameBytes, d.NameBytes)
	or(&l.OpenScopes, d.OpenScopes)
	or(&l.ActiveSessions, d.ActiveSessions)
	or(&l.PendingBytes, d.PendingBytes)
	or(&l.PastSeconds, d.PastSeconds)
	or(&l.FutureSeconds, d.FutureSeconds)
	or(&l.EventsPerDay, d.EventsPerDay)
	or(&l.BytesPerDay, d.BytesPerDay)
	or(&l.QuotaPolicy, d.QuotaPolicy)
	or(&l.QuotaTrickle, d.QuotaTrickle)
	return l
}

func or[T comparable](field *T, fallback T) {
	var zero T
	if *field == zero {
		*field = fallback
	}
}

// Valid reports whether the key may be used at t, and if not, why (for the log and the problem document).
func (k *Key) Valid(t time.Time) (ok bool, why string) {
	switch {
	case !k.Revoked.IsZero() && !t.Before(k.Revoked):
		return false, "key " + k.ID + " was revoked"
	case !k.Expires.IsZero() && !t.Before(k.Expires):
		return false, "key " + k.ID + " has expired"
	}
	return true, ""
}

// Prefix begins every key that Warpline makes: what GPU Flight's tools show and what secret scanners know.
const Prefix = "gpfl_"

// NewSecret returns a new random key: Prefix and 160 bits in base32.
func NewSecret() string {
	var b [20]byte
	rand.Read(b[:]) // never fails since Go 1.24
	return Prefix + strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}

// ID returns the public part of a secret: enough to recognise it, far too little to guess it.
func ID(secret string) string {
	s := strings.TrimPrefix(secret, Prefix)
	return s[:min(8, len(s))]
}

// Hash returns the name under which a key is stored: SHA-256 in hex. Secrets have 160 random bits, so no salt or slow hash is needed;
// a hand-chosen --dev-key is for loopback only.
func Hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

var namePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// CheckName returns an error that says the rule when name cannot be a tenant: it becomes a subject token and a column value.
func CheckName(name string) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("tenant %q: use 1 to 63 of a-z, 0-9 and '-', with a letter or digit at both ends", name)
	}
	return nil
}
