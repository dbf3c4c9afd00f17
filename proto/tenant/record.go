package tenant

import "time"

// Record is what is stored of a tenant. A tenant needs none: without one it has the service's limits, or larger ones that a key of it has.
type Record struct {
	Name     string    `json:"name"`
	Note     string    `json:"note,omitempty"`
	Created  time.Time `json:"created,omitzero"`  // zero: it has no record, or none that says so
	Disabled time.Time `json:"disabled,omitzero"` // zero: its keys work
	// Declared says that a file of the gateway has it (--tenants), so that commands leave it alone.
	Declared bool `json:"declared,omitempty"`
	// Limits are for all its keys together. A zero field means the service's default.
	Limits Limits `json:"limits"`
}

// Most returns the larger of each limit of l and d. Fields that are no bounds are d's.
func (l Limits) Most(d Limits) Limits {
	d.EventsPerSecond = max(l.EventsPerSecond, d.EventsPerSecond)
	d.BytesPerSecond = max(l.BytesPerSecond, d.BytesPerSecond)
	d.RawBytesPerSecond = max(l.RawBytesPerSecond, d.RawBytesPerSecond)
	d.RequestsPerSecond = max(l.RequestsPerSecond, d.RequestsPerSecond)
	d.BurstSeconds = max(l.BurstSeconds, d.BurstSeconds)
	return d
}

// Within returns l with each bound of an upload no larger than where it is set in of, a tenant's: a key may be narrower, not wider. Rates
// are left alone, since they are counted for key and tenant each.
func (l Limits) Within(of Limits) Limits {
	bound(&l.MaxBodyBytes, of.MaxBodyBytes)
	bound(&l.MaxRawBytes, of.MaxRawBytes)
	bound(&l.MaxRatio, of.MaxRatio)
	bound(&l.MaxLineBytes, of.MaxLineBytes)
	bound(&l.MaxCubinBytes, of.MaxCubinBytes)
	or(&l.PendingBytes, of.PendingBytes)
	bound(&l.PendingBytes, of.PendingBytes)
	bound(&l.RetentionDays, of.RetentionDays)
	bound(&l.RollupDays, of.RollupDays)
	for _, b := range [...]struct {
		field *int
		most  int
	}{{&l.UploadsAtOnce, of.UploadsAtOnce}, {&l.Names, of.Names}, {&l.NameBytes, of.NameBytes}, {&l.OpenScopes, of.OpenScopes},
		{&l.ActiveSessions, of.ActiveSessions}} {
		or(b.field, b.most)
		bound(b.field, b.most)
	}
	for _, b := range [...]struct {
		field *float64
		most  float64
	}{{&l.PastSeconds, of.PastSeconds}, {&l.FutureSeconds, of.FutureSeconds}} {
		or(b.field, b.most)
		bound(b.field, b.most)
	}
	l.NoLaunchStacks = l.NoLaunchStacks || of.NoLaunchStacks
	if of.RawRows == RawOff {
		l.RawRows = RawOff
	}
	return l
}

func bound[T int | int64 | float64 | uint16](field *T, most T) {
	if most != 0 && *field > most {
		*field = most
	}
}
