package main

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/cmd/warpline/service"
	"github.com/warpline/warpline/ingest/active"
	"github.com/warpline/warpline/proto/tenant"
)

// size is a number of bytes in a flag.
type size = service.Size

// layoutFlags fix the streams when they are created; give every role the same.
type layoutFlags struct {
	Partitions int  `default:"16" help:"Partitions of the streams, fixed when they are created."`
	Lanes      int  `default:"0" help:"Lanes of the sink, fixed when the streams are created; 0 for 2, in up on two processors for 1."`
	Replicas   int  `default:"1" help:"Copies of each stream: 1, or 3 on a cluster, which makes accepted data survive the loss of a machine."`
	IngestMax  size `default:"4GiB" help:"Most that accepted parts may take; when it is full the gateway answers 503."`
	RowsMax    size `default:"4GiB" help:"Most that chunks may take while ClickHouse is away."`
	BucketMax  size `default:"1GiB" help:"Most that each bucket and object store may take."`
}

// layout is what the flags say. lanes is how many there are where they do not say it; 0 for as many as usual.
func (f layoutFlags) layout(lanes int) broker.Layout {
	l := broker.DefaultLayout()
	l.Partitions, l.Lanes, l.Replicas = f.Partitions, min(cmp.Or(f.Lanes, lanes, l.Lanes), f.Partitions), f.Replicas
	l.IngestMaxBytes, l.RowsMaxBytes, l.BucketMaxBytes = int64(f.IngestMax), int64(f.RowsMax), int64(f.BucketMax)
	return l
}

func (f layoutFlags) check(s *settings) error {
	switch {
	case f.Partitions < 1 || f.Partitions > 4096:
		return fmt.Errorf("%s: %d is outside 1 to 4096", s.name("partitions"), f.Partitions)
	case f.Lanes < 0 || f.Lanes > f.Partitions:
		return fmt.Errorf("%s: %d is outside 1 to the number of partitions, %d", s.name("lanes"), f.Lanes, f.Partitions)
	case f.Replicas != 1 && f.Replicas != 3 && f.Replicas != 5:
		return fmt.Errorf("%s: %d: use 1, 3 or 5", s.name("replicas"), f.Replicas)
	case f.IngestMax < 1<<20 || f.RowsMax < 16<<20 || f.BucketMax < 1<<20:
		return fmt.Errorf("%s, %s, %s: the least are 1MiB, 16MiB and 1MiB", s.name("ingest-max"), s.name("rows-max"), s.name("bucket-max"))
	}
	return nil
}

// limitFlags are what a tenant may do where it has no limits of its own. Their defaults are those of tenant.DefaultLimits (a test
// compares), which a zero means too.
type limitFlags struct {
	EventsPerSecond float64 `name:"limit-events-per-second" default:"5000000" help:"Events a second of one tenant."`
	BytesPerSecond  size    `name:"limit-bytes-per-second" default:"256MiB" help:"Bytes a second of one tenant, as received."`
	RawPerSecond    size    `name:"limit-raw-bytes-per-second" default:"1GiB" help:"Bytes a second of one tenant, after decompression."`
	Requests        float64 `name:"limit-requests-per-second" default:"5000" help:"Requests a second of one tenant."`
	BurstSeconds    float64 `name:"limit-burst-seconds" default:"2" help:"How many seconds' worth may come at once."`
	MaxBody         size    `name:"limit-body" default:"256MiB" help:"Largest body as received."`
	MaxRaw          size    `name:"limit-raw-body" default:"1GiB" help:"Largest body after decompression."`
	MaxRatio        float64 `name:"limit-ratio" default:"400" help:"Largest decompression ratio, looked at beyond 192 MiB."`
	MaxLine         size    `name:"limit-line" default:"32MiB" help:"Longest line."`
	MaxCubin        size    `name:"limit-cubin" default:"64MiB" help:"Largest cubin, at most 64MiB."`
	RetentionDays   uint16  `name:"retention-days" default:"7" help:"Days that raw rows are kept."`
	RollupDays      uint16  `name:"rollup-days" default:"395" help:"Days that rollups are kept."`
	RawRows         string  `name:"raw-rows" default:"on" help:"Whether raw rows are kept beside rollups: on or off."`
	UploadsAtOnce   int     `name:"limit-uploads-at-once" default:"0" help:"Uploads of one tenant at once at a gateway; 0: a quarter of all."`
	Names           int     `name:"limit-names" default:"0" help:"Names that a session may have; 0: 200000, which is the most."`
	NameLength      size    `name:"limit-name-length" default:"0B" help:"Length at which a name is cut; 0: 32KiB, which is the most."`
	OpenScopes      int     `name:"limit-open-scopes" default:"0" help:"Open scopes that a session may have; 0: 8192, which is the most."`
	EventsPerDay    float64 `name:"quota-events-per-day" default:"0" help:"Events of one tenant in a day of UTC; 0: any number."`
	BytesPerDay     size    `name:"quota-bytes-per-day" default:"0B" help:"Bytes of one tenant in a day of UTC, as received; 0: any number."`
	QuotaPolicy     string  `name:"quota-policy" default:"hold" help:"What is beyond a quota: hold (429) or drop (402)."`
	QuotaTrickle    float64 `name:"quota-trickle" default:"0" help:"Share of uploads, 0 to 1, that is taken beyond a quota."`

	Active  int           `name:"limit-active-sessions" default:"0" help:"${limit_active_sessions}"`
	Pending size          `name:"limit-pending-bytes" default:"0B" help:"${limit_pending_bytes}"`
	Past    time.Duration `name:"limit-past" default:"0s" help:"How old events may be when they come; 0: any age."`
	Future  time.Duration `name:"limit-future" default:"0s" help:"How far ahead of the gateway's clock events may be; 0: any time."`
}

// keyLimitFlags are the same for one key, whose zeros leave the limit to the service that it is used on. Flags with the tag own are
// given on the command line alone: variables and the file of --config have the service's limits under these names.
type keyLimitFlags struct {
	EventsPerSecond float64 `name:"limit-events-per-second" own:"" placeholder:"N" help:"${key_limit_events_per_second}"`
	BytesPerSecond  size    `name:"limit-bytes-per-second" own:"" placeholder:"SIZE" help:"Bytes a second, as received."`
	RawPerSecond    size    `name:"limit-raw-bytes-per-second" own:"" placeholder:"SIZE" help:"Bytes a second, after decompression."`
	Requests        float64 `name:"limit-requests-per-second" own:"" placeholder:"N" help:"Requests a second."`
	BurstSeconds    float64 `name:"limit-burst-seconds" own:"" placeholder:"N" help:"How many seconds' worth may come at once."`
	MaxBody         size    `name:"limit-body" own:"" placeholder:"SIZE" help:"Largest body as received."`
	MaxRaw          size    `name:"limit-raw-body" own:"" placeholder:"SIZE" help:"Largest body after decompression."`
	MaxRatio        float64 `name:"limit-ratio" own:"" placeholder:"N" help:"Largest decompression ratio."`
	MaxLine         size    `name:"limit-line" own:"" placeholder:"SIZE" help:"Longest line."`
	MaxCubin        size    `name:"limit-cubin" own:"" placeholder:"SIZE" help:"Largest cubin, at most 64MiB."`
	RetentionDays   uint16  `name:"retention-days" own:"" placeholder:"N" help:"Days that raw rows are kept."`
	RollupDays      uint16  `name:"rollup-days" own:"" placeholder:"N" help:"Days that rollups are kept."`
	RawRows         string  `name:"raw-rows" own:"" placeholder:"WORD" help:"Whether raw rows are kept beside rollups: on or off."`
	UploadsAtOnce   int     `name:"limit-uploads-at-once" own:"" placeholder:"N" help:"Uploads that one gateway handles at once."`
	Names           int     `name:"limit-names" own:"" placeholder:"N" help:"Names that a session may have, at most 200000."`
	NameLength      size    `name:"limit-name-length" own:"" placeholder:"SIZE" help:"Length at which a name is cut, at most 32KiB."`
	OpenScopes      int     `name:"limit-open-scopes" own:"" placeholder:"N" help:"Open scopes that a session may have, at most 8192."`
	EventsPerDay    float64 `name:"quota-events-per-day" own:"" placeholder:"N" help:"Events in a day of UTC."`
	BytesPerDay     size    `name:"quota-bytes-per-day" own:"" placeholder:"SIZE" help:"Bytes in a day of UTC, as received."`
	QuotaPolicy     string  `name:"quota-policy" own:"" placeholder:"WORD" help:"What is beyond a quota: hold (429) or drop (402)."`
	QuotaTrickle    float64 `name:"quota-trickle" own:"" placeholder:"N" help:"Share of uploads, 0 to 1, that is taken beyond a quota."`

	Active  int           `name:"limit-active-sessions" own:"" placeholder:"N" help:"Sessions that may be active at once, at most 65536."`
	Pending size          `name:"limit-pending-bytes" own:"" placeholder:"SIZE" help:"Bytes that may be accepted and not in SQL yet."`
	Past    time.Duration `name:"limit-past" own:"" placeholder:"DURATION" help:"How old events may be when they come."`
	Future  time.Duration `name:"limit-future" own:"" placeholder:"DURATION" help:"How far ahead of the gateway's clock events may be."`
}

// changeLimitFlags change the limits of a key or a tenant: what is left out stays, and 0 is the default again.
type changeLimitFlags struct {
	EventsPerSecond *float64 `name:"limit-events-per-second" own:"" placeholder:"N" help:"${change_limit_events_per_second}"`
	BytesPerSecond  *size    `name:"limit-bytes-per-second" own:"" placeholder:"SIZE" help:"Bytes a second, as received."`
	RawPerSecond    *size    `name:"limit-raw-bytes-per-second" own:"" placeholder:"SIZE" help:"Bytes a second, after decompression."`
	Requests        *float64 `name:"limit-requests-per-second" own:"" placeholder:"N" help:"Requests a second."`
	BurstSeconds    *float64 `name:"limit-burst-seconds" own:"" placeholder:"N" help:"How many seconds' worth may come at once."`
	MaxBody         *size    `name:"limit-body" own:"" placeholder:"SIZE" help:"Largest body as received."`
	MaxRaw          *size    `name:"limit-raw-body" own:"" placeholder:"SIZE" help:"Largest body after decompression."`
	MaxRatio        *float64 `name:"limit-ratio" own:"" placeholder:"N" help:"Largest decompression ratio."`
	MaxLine         *size    `name:"limit-line" own:"" placeholder:"SIZE" help:"Longest line."`
	MaxCubin        *size    `name:"limit-cubin" own:"" placeholder:"SIZE" help:"Largest cubin, at most 64MiB."`
	RetentionDays   *uint16  `name:"retention-days" own:"" placeholder:"N" help:"Days that raw rows are kept."`
	RollupDays      *uint16  `name:"rollup-days" own:"" placeholder:"N" help:"Days that rollups are kept."`
	RawRows         *string  `name:"raw-rows" own:"" placeholder:"WORD" help:"${change_raw_rows}"`
	UploadsAtOnce   *int     `name:"limit-uploads-at-once" own:"" placeholder:"N" help:"Uploads that one gateway handles at once."`
	Names           *int     `name:"limit-names" own:"" placeholder:"N" help:"Names that a session may have, at most 200000."`
	NameLength      *size    `name:"limit-name-length" own:"" placeholder:"SIZE" help:"Length at which a name is cut, at most 32KiB."`
	OpenScopes      *int     `name:"limit-open-scopes" own:"" placeholder:"N" help:"Open scopes that a session may have, at most 8192."`
	EventsPerDay    *float64 `name:"quota-events-per-day" own:"" placeholder:"N" help:"Events in a day of UTC."`
	BytesPerDay     *size    `name:"quota-bytes-per-day" own:"" placeholder:"SIZE" help:"Bytes in a day of UTC, as received."`
	QuotaPolicy     *string  `name:"quota-policy" own:"" placeholder:"WORD" help:"What is beyond a quota: hold (429) or drop (402)."`
	QuotaTrickle    *float64 `name:"quota-trickle" own:"" placeholder:"N" help:"Share of uploads, 0 to 1, that is taken beyond a quota."`

	Active  *int           `name:"limit-active-sessions" own:"" placeholder:"N" help:"Sessions that may be active at once, at most 65536."`
	Pending *size          `name:"limit-pending-bytes" own:"" placeholder:"SIZE" help:"Bytes that may be accepted and not in SQL yet."`
	Past    *time.Duration `name:"limit-past" own:"" placeholder:"DURATION" help:"How old events may be when they come."`
	Future  *time.Duration `name:"limit-future" own:"" placeholder:"DURATION" help:"How far ahead of the gateway's clock events may be."`
}

func (f changeLimitFlags) check(s *settings) error {
	var l tenant.Limits
	f.apply(&l)
	return checkLimits(s, l)
}

// apply changes what is given.
func (f changeLimitFlags) apply(l *tenant.Limits) {
	bytes := func(to *int64, v *size) {
		if v != nil {
			*to = int64(*v)
		}
	}
	number := func(to *float64, v *size) {
		if v != nil {
			*to = float64(*v)
		}
	}
	set(&l.EventsPerSecond, f.EventsPerSecond)
	number(&l.BytesPerSecond, f.BytesPerSecond)
	number(&l.RawBytesPerSecond, f.RawPerSecond)
	set(&l.RequestsPerSecond, f.Requests)
	set(&l.BurstSeconds, f.BurstSeconds)
	bytes(&l.MaxBodyBytes, f.MaxBody)
	bytes(&l.MaxRawBytes, f.MaxRaw)
	set(&l.MaxRatio, f.MaxRatio)
	bytes(&l.MaxLineBytes, f.MaxLine)
	bytes(&l.MaxCubinBytes, f.MaxCubin)
	set(&l.RetentionDays, f.RetentionDays)
	set(&l.RollupDays, f.RollupDays)
	set(&l.RawRows, f.RawRows)
	set(&l.UploadsAtOnce, f.UploadsAtOnce)
	set(&l.Names, f.Names)
	if f.NameLength != nil {
		l.NameBytes = int(*f.NameLength)
	}
	set(&l.OpenScopes, f.OpenScopes)
	seconds := func(to *float64, v *time.Duration) {
		if v != nil {
			*to = v.Seconds()
		}
	}
	set(&l.ActiveSessions, f.Active)
	bytes(&l.PendingBytes, f.Pending)
	seconds(&l.PastSeconds, f.Past)
	seconds(&l.FutureSeconds, f.Future)
	set(&l.EventsPerDay, f.EventsPerDay)
	number(&l.BytesPerDay, f.BytesPerDay)
	set(&l.QuotaPolicy, f.QuotaPolicy)
	set(&l.QuotaTrickle, f.QuotaTrickle)
}

// duration is a limit in seconds as a flag has it.
func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// set sets what is given.
func set[T any](to *T, v *T) {
	if v != nil {
		*to = *v
	}
}

func (f limitFlags) limits() tenant.Limits {
	return tenant.Limits{
		EventsPerSecond: f.EventsPerSecond, BytesPerSecond: float64(f.BytesPerSecond),
		RawBytesPerSecond: float64(f.RawPerSecond), RequestsPerSecond: f.Requests, BurstSeconds: f.BurstSeconds,
		MaxBodyBytes: int64(f.MaxBody), MaxRawBytes: int64(f.MaxRaw), MaxRatio: f.MaxRatio, MaxLineBytes: int64(f.MaxLine),
		RetentionDays: f.RetentionDays, RollupDays: f.RollupDays, MaxCubinBytes: int64(f.MaxCubin), RawRows: f.RawRows,
		UploadsAtOnce: f.UploadsAtOnce, Names: f.Names, NameBytes: int(f.NameLength), OpenScopes: f.OpenScopes,
		ActiveSessions: f.Active, PendingBytes: int64(f.Pending), PastSeconds: f.Past.Seconds(), FutureSeconds: f.Future.Seconds(),
		EventsPerDay: f.EventsPerDay, BytesPerDay: float64(f.BytesPerDay), QuotaPolicy: f.QuotaPolicy, QuotaTrickle: f.QuotaTrickle,
	}
}

func (f limitFlags) check(s *settings) error { return checkLimits(s, f.limits()) }

// checkLimits names the flag of a limit that cannot be so.
func checkLimits(s *settings, l tenant.Limits) error {
	var bad *tenant.LimitError
	if !errors.As(l.Check(), &bad) {
		if l.ActiveSessions > active.Most {
			return fmt.Errorf("%s: %d: use at most %d, or 0 for any number", s.name("limit-active-sessions"), l.ActiveSessions, active.Most)
		}
		return nil
	}
	return fmt.Errorf("%s: %s", s.name(bad.Field), bad.Why)
}

// chunkFlags bound how long rows stay in the worker.
type chunkFlags struct {
	ChunkAge    time.Duration `default:"400ms" help:"Oldest that rows get in the worker before they are passed on."`
	NamesMemory size          `default:"256MiB" help:"${chunk_names_memory}"`
}

func (f chunkFlags) check(s *settings) error {
	if f.ChunkAge < 0 {
		return fmt.Errorf("%s: %v: cannot be negative", s.name("chunk-age"), f.ChunkAge)
	}
	if f.NamesMemory < 1<<20 {
		return fmt.Errorf("%s: use at least 1MiB", s.name("names-memory"))
	}
	return nil
}

// rejectsFlag bounds what is kept of refused bytes.
type rejectsFlag struct {
	RejectsMax size `default:"1GiB" help:"${rejects_max}"`
}

// insertFlags trade latency against the number of inserts, each of which makes a part in every table.
type insertFlags struct {
	SinkInterval time.Duration `default:"300ms" help:"Shortest time between two inserts of a lane."`
	ReplayWindow time.Duration `default:"24h" help:"How long NATS keeps what is in ClickHouse, in at most a quarter of ROWS, for replay."`
}

func (f insertFlags) check(s *settings) error {
	if f.ReplayWindow < 0 {
		return fmt.Errorf("%s: %v: cannot be negative; 0 keeps nothing for replay", s.name("replay-window"), f.ReplayWindow)
	}
	if f.SinkInterval < 0 {
		return fmt.Errorf("%s: %v: cannot be negative", s.name("sink-interval"), f.SinkInterval)
	}
	return nil
}
