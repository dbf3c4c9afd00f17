package bench

import (
	"context"
	"errors"
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

// deletionsOnTheWay is how many are requested at a time, as `warpline session delete` does.
const deletionsOnTheWay = 256

// deletions deletes the sessions as `warpline session delete` does: some at a time, until the quiet tenant has ended, and then the rest.
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
	records, err := js.KeyValue(ctx, stream.DeletionsBucket)
	if err != nil {
		return err
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 4*settled)
	defer cancel()
	for from := 1; from <= n.options.Deletions; from += deletionsOnTheWay {
		if ctx.Err() == nil {
			n.beside = from - 1
		}
		if err := n.deleteSome(late, js, records, partitions, from, min(from+deletionsOnTheWay, n.options.Deletions+1)); err != nil {
			return err
		}
	}
	return nil
}

// deleteSome deletes the sessions from one number to before another, and waits until they are gone.
func (n *noise) deleteSome(ctx context.Context, js jetstream.JetStream, records jetstream.KeyValue, partitions, from, to int) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(deletionsOnTheWay)
	for i := from; i < to; i++ {
		g.Go(func() error {
			d := stream.Deletion{ID: broker.NewID(), Tenant: n.name, Session: uuid("noise", n.seed, n.name, int64(i))}
			p := stream.Partition(d.Tenant, d.Session, partitions)
			msg, err := stream.AppendEnvelope(nil, &stream.Envelope{Tenant: d.Tenant, Session: d.Session, Kind: stream.KindDelete,
				Identity: "delete/" + d.ID, Last: true, ReceivedAt: time.Now().UnixNano(), Delete: &d}, nil)
			if err != nil {
				return err
			}
			_, err = js.PublishMsg(ctx, &nats.Msg{Subject: stream.IngestSubject(p, d.Tenant, d.Token()), Data: msg},
				jetstream.WithMsgID("delete-"+stream.DeletionRecordKey(d.ID, p)))
			if err != nil {
				return err
			}
			n.answered(http.StatusOK)
			for {
				_, err := records.Get(ctx, stream.DeletionRecordKey(d.ID, p))
				if !errors.Is(err, jetstream.ErrKeyNotFound) {
					return err
				}
				if err := pause(ctx, 100*time.Millisecond); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

// deletionsAfter fails unless all sessions are gone.
func deletionsAfter(ctx context.Context, n *noise) error {
	if err := n.awaitSessions(ctx, 0); err != nil {
		return err
	}
	n.said = fmt.Sprintf("%s sessions were deleted, %d at a time: %s of them beside the quiet tenant, the rest after it",
		humanize.Comma(int64(n.options.Deletions)), deletionsOnTheWay, humanize.Comma(int64(n.beside)))
	return nil
}
