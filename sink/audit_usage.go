package sink

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// UsageReport is what became of the events of a tenant that were accepted on a day: Accepted = Stored + Rejected + Duplicates + Pending.
//
// Accepted is what workers counted, and what waits for them. Door is what gateways counted themselves when JetStream had acknowledged it,
// of which workers know that Lost is gone. The workers come to a gateway's count after they have come to what it counts. So Door is never
// more than Accepted + Lost, unless events are missing; it is less by what a gateway could not tell any more that was killed, and by what
// came in before gateways counted.
type UsageReport struct {
	Tenant, Day                           string
	Accepted                              uint64 // events
	Stored, Rejected, Duplicates, Pending uint64 // Pending: accepted, and not yet in ClickHouse
	Door, Lost                            uint64
	Problem                               string `json:",omitempty"` // "" when all is well
}

// String says what is wrong.
func (u UsageReport) String() string {
	return fmt.Sprintf("tenant %s, received on %s: %s: warpline replay --tenant %s --table usage_data --from %s --to %s", u.Tenant, u.Day,
		u.Problem, u.Tenant, u.Day, u.Day)
}

// maxPending bounds the parts of INGEST that are read to count what is pending.
const maxPending = 200_000

// AuditUsage says what became of accepted events, by tenant and day. whole is false when more was pending than was counted.
func AuditUsage(ctx context.Context, s *broker.Streams, conn driver.Conn, of Scope) (out []UsageReport, whole bool, err error) {
	all := map[keptKey]*UsageReport{}
	at := func(tenant string, day int32) *UsageReport {
		u := all[keptKey{tenant, day}]
		if u == nil {
			u = &UsageReport{Tenant: tenant, Day: time.Unix(int64(day)*86400, 0).UTC().Format(time.DateOnly)}
			all[keptKey{tenant, day}] = u
		}
		return u
	}
	whole, err = countPending(ctx, s, of, func(tenant string, day int32, events uint64) { at(tenant, day).Pending += events })
	if err != nil {
		return nil, false, fmt.Errorf("count what is pending: %w", err)
	}
	var tenant string
	var day int32
	var events, rejected, duplicates, door, lost uint64
	err = each(ctx, conn, fmt.Sprintf("SELECT toString(tenant) AS owner, toInt32(toUInt16(day)) AS d, sum(events), sum(rejected), "+
		"sum(duplicates), sum(door_events), sum(lost_events) FROM usage_data WHERE 1%s%s GROUP BY owner, d", of.tenant(),
		of.days(nil, "toInt32(toUInt16(day))")),
		[]any{&tenant, &day, &events, &rejected, &duplicates, &door, &lost}, func() {
			u := at(tenant, day)
			u.Accepted, u.Rejected, u.Duplicates, u.Door, u.Lost = events, rejected, duplicates, door, lost
			u.Stored = events - min(events, rejected+duplicates)
			if door > events+lost {
				u.Problem = fmt.Sprintf("gateways stored %d events, of which %d are known to be lost, and workers counted %d: %d are missing",
					door, lost, events, door-events-lost)
			}
			if rejected+duplicates > events {
				u.Problem = fmt.Sprintf("%d events were refused and %d were duplicates, and only %d were accepted", rejected, duplicates, events)
			}
		})
	if err != nil {
		return nil, false, fmt.Errorf("read usage: %w", err)
	}
	for _, u := range all {
		u.Accepted += u.Pending
		out = append(out, *u)
	}
	slices.SortFunc(out, func(a, b UsageReport) int { return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Day, b.Day)) })
	return out, whole, nil
}

// countPending reads the parts of INGEST beyond what ClickHouse has, and tells their events.
func countPending(ctx context.Context, s *broker.Streams, of Scope, tell func(tenant string, day int32, events uint64)) (bool, error) {
	in, err := Inserted(ctx, s)
	if err != nil {
		return false, err
	}
	for p := range s.Partitions {
		done := in[p].Position.Seq
		filter := stream.IngestFilter(p)
		if of.Tenant != "" {
			filter = (&stream.Deletion{Tenant: of.Tenant}).Subjects(fmt.Sprintf("ingest.%d", p), "")
		}
		st, err := s.Ingest.Info(ctx, jetstream.WithSubjectFilter(filter))
		if err != nil {
			return false, err
		}
		if st.State.LastSeq <= done || len(st.State.Subjects) == 0 {
			continue
		}
		whole, err := readPending(ctx, s, filter, done, of, tell)
		if err != nil || !whole {
			return whole, err
		}
	}
	return true, nil
}

// readPending reads the parts of some subjects after a position.
func readPending(ctx context.Context, s *broker.Streams, filter string, done uint64, of Scope, tell func(string, int32, uint64)) (
	bool, error) {
	c, err := s.Ingest.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{FilterSubjects: []string{filter},
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: done + 1, InactiveThreshold: 30 * time.Second})
	if err != nil {
		return false, err
	}
	info, err := c.Info(ctx)
	if err != nil {
		return false, err
	}
	left := info.NumPending
	if left > maxPending {
		return false, nil
	}
	for left > 0 {
		batch, err := c.Fetch(int(min(left, 256)), jetstream.FetchMaxWait(5*time.Second))
		if err != nil {
			return false, err
		}
		got := uint64(0)
		for msg := range batch.Messages() {
			got++
			e, _, err := stream.ParseEnvelope(msg.Data())
			if err != nil || of.Tenant != "" && e.Tenant != of.Tenant {
				continue // what is no part is set aside
			}
			if day := table.DayOf(e.ReceivedAt); e.Events > 0 && day >= of.From && (of.To == 0 || day <= of.To) {
				tell(e.Tenant, day, e.Events)
			}
		}
		if err := batch.Error(); err != nil || got == 0 {
			return false, err
		}
		left -= min(left, got)
	}
	return true, nil
}
