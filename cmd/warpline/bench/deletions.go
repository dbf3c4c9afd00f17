package bench

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

// What neighbours sessions and deletions have where NoisyOptions do not say.
const (
	defaultSessions  = 20_000
	defaultDeletions = 10_000
)

// settled is how long what a neighbour did may take until it is in SQL.
const settled = 5 * time.Minute

// sessionsBefore begins the sessions that there are when the quiet tenant is measured.
func sessionsBefore(ctx context.Context, n *noise) error { return n.begin(ctx, n.options.Sessions) }

// sessionsAfter fails unless each session that was begun is in SQL once.
func sessionsAfter(ctx context.Context, n *noise) error {
	all := n.sessions.Load()
	n.said = fmt.Sprintf("%s sessions were there, %s more were begun", humanize.Comma(int64(n.options.Sessions)),
		humanize.Comma(all-int64(n.options.Sessions)))
	return n.awaitSessions(ctx, all)
}

// begin begins so many sessions, each with one line.
func (n *noise) begin(ctx context.Context, sessions int) error {
	if err := n.floodOf(ctx, oneLine, true, int64(sessions)); err != nil {
		return err
	}
	if got := n.sessions.Load(); got != int64(sessions) {
		return fmt.Errorf("%d of %d sessions could be begun; answers: %s", got, sessions, statuses(n.sender.answers))
	}
	return n.awaitSessions(ctx, int64(sessions))
}

// awaitSessions waits until SQL counts so many sessions of the neighbour.
func (n *noise) awaitSessions(ctx context.Context, want int64) error {
	unknown := int64(n.sender.answers[0]) // of these nobody can say whether they were taken
	for began := time.Now(); ; {
		got, err := n.svc.Read.numbers(ctx, "SELECT uniqExact(session_id) FROM sessions_data WHERE tenant = '"+n.name+"'")
		if err != nil {
			return err
		}
		if got[0] >= want && got[0] <= want+unknown {
			return nil
		}
		if time.Since(began) > settled {
			return fmt.Errorf("SQL counts %d sessions, %d there should be", got[0], want)
		}
		if err := n.svc.Died(); err != nil {
			return err
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// deletionsBefore begins the sessions that are deleted later.
func deletionsBefore(ctx context.Context, n *noise) error { return n.begin(ctx, n.options.Deletions) }

// deletions deletes all sessions, as `warpline session delete --no-wait` does for those that are named.
func deletions(ctx context.Context, n *noise) error {
	nc, js, err := broker.Connect(ctx, broker.ConnectConfig{URL: n.svc.NATS, Name: "warpline bench"})
	if err != nil {
		return err
	}
	defer nc.Close()
	st, err := js.Stream(ctx, stream.IngestStream)
	if err != nil {
		return err
	}
	var partitions int
	if _, err := fmt.Sscan(st.CachedInfo().Config.Metadata[stream.MetaPartitions], &partitions); err != nil {
		return fmt.Errorf("partitions of %s: %w", stream.IngestStream, err)
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), settled) // all are asked for, also when the quiet tenant has ended
	defer cancel()
	g, late := errgroup.WithContext(late)
	g.SetLimit(floodWays)
	for i := 1; i <= n.options.Deletions && late.Err() == nil; i++ {
		g.Go(func() error {
			d := stream.Deletion{ID: broker.NewID(), Tenant: n.name, Session: uuid("noise", n.seed, n.name, int64(i))}
			p := stream.Partition(d.Tenant, d.Session, partitions)
			msg, err := stream.AppendEnvelope(nil, &stream.Envelope{Tenant: d.Tenant, Session: d.Session, Kind: stream.KindDelete,
				Identity: "delete/" + d.ID, Last: true, ReceivedAt: time.Now().UnixNano(), Delete: &d}, nil)
			if err != nil {
				return err
			}
			_, err = js.PublishMsg(late, &nats.Msg{Subject: stream.IngestSubject(p, d.Tenant, d.Token()), Data: msg},
				jetstream.WithMsgID("delete-"+stream.DeletionRecordKey(d.ID, p)))
			if err == nil {
				n.answered(http.StatusOK)
			}
			return err
		})
	}
	return g.Wait()
}

// deletionsAfter fails unless all sessions are gone.
func deletionsAfter(ctx context.Context, n *noise) error {
	began := time.Now()
	got, err := n.svc.Read.numbers(ctx, "SELECT uniqExact(session_id) FROM sessions_data WHERE tenant = '"+n.name+"'")
	if err != nil {
		return err
	}
	if err := n.awaitSessions(ctx, 0); err != nil {
		return err
	}
	n.said = fmt.Sprintf("%s sessions were deleted; %s of them were gone when the quiet tenant was counted, and all %v later",
		humanize.Comma(int64(n.options.Deletions)), humanize.Comma(int64(n.options.Deletions)-got[0]),
		time.Since(began).Round(100*time.Millisecond))
	return nil
}
