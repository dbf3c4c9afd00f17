package admin

import (
	"errors"
	"time"

	"github.com/warpline/warpline/proto/tenant"
)

// Limits are limits as JSON has them for people and programs: beside the other fields, named as flags and the file of tenants name them.
// Sizes are bytes, times are seconds, and a zero is not there. What is stored has names of its own.
type Limits struct {
	EventsPerSecond   float64 `json:"limit-events-per-second,omitempty"`
	BytesPerSecond    float64 `json:"limit-bytes-per-second,omitempty"`
	RawBytesPerSecond float64 `json:"limit-raw-bytes-per-second,omitempty"`
	RequestsPerSecond float64 `json:"limit-requests-per-second,omitempty"`
	BurstSeconds      float64 `json:"limit-burst-seconds,omitempty"`
	MaxBodyBytes      int64   `json:"limit-body,omitempty"`
	MaxRawBytes       int64   `json:"limit-raw-body,omitempty"`
	MaxRatio          float64 `json:"limit-ratio,omitempty"`
	MaxLineBytes      int64   `json:"limit-line,omitempty"`
	RetentionDays     uint16  `json:"retention-days,omitempty"`
	RollupDays        uint16  `json:"rollup-days,omitempty"`
	RetentionClass    string  `json:"retention-class,omitempty"`
	RawRows           string  `json:"raw-rows,omitempty"`
	MaxCubinBytes     int64   `json:"limit-cubin,omitempty"`
	NoLaunchStacks    bool    `json:"no-launch-stacks,omitempty"`
	UploadsAtOnce     int     `json:"limit-uploads-at-once,omitempty"`
	Names             int     `json:"limit-names,omitempty"`
	NameBytes         int     `json:"limit-name-length,omitempty"`
	OpenScopes        int     `json:"limit-open-scopes,omitempty"`
	ActiveSessions    int     `json:"limit-active-sessions,omitempty"`
	PendingBytes      int64   `json:"limit-pending-bytes,omitempty"`
	PastSeconds       float64 `json:"limit-past,omitempty"`
	FutureSeconds     float64 `json:"limit-future,omitempty"`
	EventsPerDay      float64 `json:"quota-events-per-day,omitempty"`
	BytesPerDay       float64 `json:"quota-bytes-per-day,omitempty"`
	QuotaPolicy       string  `json:"quota-policy,omitempty"`
	QuotaTrickle      float64 `json:"quota-trickle,omitempty"`
}

// askedLimits are limits in a body.
type askedLimits struct {
	Limits
	Older tenant.Limits `json:"limits,omitzero"` // under the names that they had first
}

func asked(was tenant.Limits) askedLimits { return askedLimits{Limits(was), was} }

// of returns the limits that a body asks for of one that has had other limits.
func (a askedLimits) of(was tenant.Limits) (tenant.Limits, error) {
	switch now := tenant.Limits(a.Limits); {
	case a.Older == was:
		return now, nil
	case now == was:
		return a.Older, nil
	}
	return was, bad(errors.New("limits: it is the older way to say what limit-… and quota-… say: use one of both"))
}

// RecordShown is what is stored of a tenant, as JSON shows it.
type RecordShown struct {
	Name     string    `json:"name"`
	Note     string    `json:"note,omitempty"`
	Created  time.Time `json:"created,omitzero"`
	Disabled time.Time `json:"disabled,omitzero"`
	Declared bool      `json:"declared,omitempty"`
	Limits
}

// ShowRecord returns a record as JSON shows it.
func ShowRecord(r tenant.Record) RecordShown {
	return RecordShown{r.Name, r.Note, r.Created, r.Disabled, r.Declared, Limits(r.Limits)}
}

// KeyShown is what is stored of a key, as JSON shows it.
type KeyShown struct {
	ID           string       `json:"id"`
	Tenant       string       `json:"tenant"`
	Scope        tenant.Scope `json:"scope,omitempty"`
	Note         string       `json:"note,omitempty"`
	Created      time.Time    `json:"created"`
	Expires      time.Time    `json:"expires,omitzero"`
	Revoked      time.Time    `json:"revoked,omitzero"`
	LastsSeconds int64        `json:"lasts_seconds,omitempty"`
	Limits
}

// ShowKey returns a key as JSON shows it.
func ShowKey(k tenant.Key) KeyShown {
	return KeyShown{k.ID, k.Tenant, k.Scope, k.Note, k.Created, k.Expires, k.Revoked, k.LastsSeconds, Limits(k.Limits)}
}
