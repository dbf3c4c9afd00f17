package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/term"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/cmd/warpline/service"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// deleteFlags are what every command that deletes has.
type deleteFlags struct {
	Yes     bool          `help:"Do not ask."`
	Force   bool          `help:"Delete what nothing is known of too, also while ClickHouse is away: what is on its way then never arrives."`
	NoWait  bool          `help:"Come back once the request is stored; the service carries it out."`
	Timeout time.Duration `name:"wait" default:"10m" help:"How long to wait until it is carried out."`
	JSON    bool          `help:"Print what was removed as JSON, one object a tombstone."`
}

func (f deleteFlags) check(p *program) error {
	if f.Timeout <= 0 {
		return fmt.Errorf("%s: %v: must be positive", p.Settings.name("wait"), f.Timeout)
	}
	if !f.Yes && !asks(p.Stdin) {
		return errors.New("this deletes data for good and nobody can be asked (stdin is not a terminal): say --yes")
	}
	return nil
}

// asks reports whether a person answers at r.
func asks(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// eraser publishes tombstones and waits for their receipts.
type eraser struct {
	p         *program
	flags     deleteFlags
	nats      *service.Connection
	streams   *broker.Streams
	conn      driver.Conn // nil when ClickHouse cannot be asked
	database  string
	deletions []stream.Deletion
	record    func(publish func() error) error // calls publish, which stores the tombstones; may be nil
	before    func() error                     // runs between the question and the first tombstone; may be nil
	wanted    map[string]string                // receipt keys → what they are of
	left      []stream.Deletion                // not published yet
}

// begin connects. Without --force it wants ClickHouse too, to say what will be deleted.
func (f deleteFlags) begin(ctx context.Context, p *program, reach reachFlags, click clickhouseFlags) (*eraser, error) {
	e := &eraser{p: p, flags: f, wanted: map[string]string{}}
	srv, err := readServer(click, reach.Data)
	if err == nil {
		e.database = srv.Database
		e.conn, err = srv.Open(ctx)
	}
	if err != nil {
		if !f.Force {
			return nil, fmt.Errorf("%w (or say --force: then it is carried out when the service runs)", err)
		}
		fmt.Fprintln(p.Stderr, "what is stored is not known: "+err.Error())
		e.conn = nil
	}
	e.nats, err = reach.connect(ctx)
	if err != nil {
		e.close()
		return nil, err
	}
	e.streams, err = e.nats.Streams(ctx)
	if err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *eraser) close() {
	if e.conn != nil {
		e.conn.Close()
	}
	if e.nats != nil {
		e.nats.Close()
	}
}

// found is what there is of a session or a tenant.
type found struct {
	rows     map[string]uint64
	messages uint64
}

func (f found) nothing() bool { return len(f.rows) == 0 && f.messages == 0 }

func (f found) String() string {
	var rows uint64
	for _, n := range f.rows {
		rows += n
	}
	return fmt.Sprintf("%s in %s, %s in the stream", plural(int64(rows), "row"), plural(int64(len(f.rows)), "table"),
		plural(int64(f.messages), "message"))
}

// findAtOnce sessions are counted by one query.
const findAtOnce = 64

// find counts what there is of each session; "" is the whole tenant.
func (e *eraser) find(ctx context.Context, tenantName string, sessions []string) ([]found, error) {
	out := make([]found, len(sessions))
	for i, id := range sessions {
		out[i].rows = map[string]uint64{}
		d := stream.Deletion{Tenant: tenantName, Session: id}
		info, err := e.streams.Ingest.Info(ctx, jetstream.WithSubjectFilter(d.Subjects("ingest.*", "")))
		if err != nil {
			return nil, unreachable(fmt.Errorf("look for messages: %w", err))
		}
		for _, n := range info.State.Subjects {
			out[i].messages += n
		}
	}
	if e.conn == nil {
		return out, nil
	}
	for from := 0; from < len(sessions); from += findAtOnce {
		some := sessions[from:min(from+findAtOnce, len(sessions))]
		targets := make([]table.Target, len(some))
		for i, id := range some {
			targets[i] = table.Target{Tenant: tenantName, Session: id}
		}
		for _, t := range schema().Tables() {
			if err := e.count(ctx, t, targets, out[from:]); err != nil {
				return nil, fmt.Errorf("count in %s: %w", t.Name, err)
			}
		}
	}
	return out, nil
}

func (e *eraser) count(ctx context.Context, t *table.Table, targets []table.Target, out []found) error {
	sql := t.CountSQL(table.Options{Database: e.database}, targets)
	if sql == "" {
		return nil
	}
	rows, err := e.conn.Query(ctx, sql)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var i int64
		var n uint64
		if err := rows.Scan(&i, &n); err != nil {
			return err
		}
		out[i].rows[t.Name] = n
	}
	return rows.Err()
}

// onTheWay is how many deletions of sessions are requested at a time; with those that nobody waits for all are. While a sink carries
// deletions out it inserts nothing of any tenant that is in the same lane: few take it two seconds, and thousands at once half a minute.
const onTheWay = 256

// add puts a deletion on the list.
func (e *eraser) add(d stream.Deletion) {
	d.ID = broker.NewID()
	e.deletions = append(e.deletions, d)
}

// carryOut asks, publishes and waits.
func (e *eraser) carryOut(ctx context.Context, question string) error {
	if len(e.deletions) == 0 {
		return nil
	}
	if !e.flags.Yes {
		ok, err := ask(ctx, e.p, question)
		if err != nil {
			return err
		}
		if !ok {
			return withCode(errors.New("nothing was deleted"), exitStopped)
		}
	}
	if e.before != nil {
		if err := e.before(); err != nil {
			return err
		}
	}
	publish := func(deletions []stream.Deletion) error {
		for i := range deletions {
			if err := e.publish(ctx, &deletions[i]); err != nil {
				return unreachable(fmt.Errorf("store the request: %w: run the same again, it may be stored in part", err))
			}
		}
		return nil
	}
	atOnce := len(e.deletions)
	if !e.flags.NoWait && !e.nats.Alone {
		atOnce = min(atOnce, onTheWay)
	}
	now := e.deletions[:atOnce]
	e.left = e.deletions[atOnce:]
	if e.record == nil {
		e.record = func(publish func() error) error { return publish() }
	}
	if err := e.record(func() error { return publish(now) }); err != nil {
		return err
	}
	if e.flags.NoWait {
		fmt.Fprintln(e.p.Stderr, "the request is stored; the service carries it out")
		return nil
	}
	if e.nats.Alone {
		return unreachable(errors.New("nothing runs here: the request is stored and is carried out at the next start"))
	}
	return e.wait(ctx, func() error {
		n := min(len(e.left), onTheWay)
		now, e.left = e.left[:n], e.left[n:]
		return publish(now)
	})
}

// ask asks a person, who is there: see deleteFlags.check.
func ask(ctx context.Context, p *program, question string) (bool, error) {
	fmt.Fprint(p.Stderr, question+" [y/N] ")
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(p.Stdin).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case a := <-answer:
		return a == "y" || a == "yes", nil
	}
}

// publish stores a deletion's tombstones: one on the session's subject, or one a partition.
func (e *eraser) publish(ctx context.Context, d *stream.Deletion) error {
	partitions := []int{}
	what := fmt.Sprintf("session %q", d.Session)
	if d.Session != "" {
		partitions = append(partitions, stream.Partition(d.Tenant, d.Session, e.streams.Partitions))
	} else {
		what = "tenant " + d.Tenant
		for p := range e.streams.Partitions {
			partitions = append(partitions, p)
		}
		for bucket, last := range map[string]*uint64{stream.DictionariesBucket: &d.Dictionaries, stream.WindowsBucket: &d.Windows} {
			s, err := e.streams.JS.Stream(ctx, "KV_"+bucket)
			if err != nil {
				return err
			}
			*last = s.CachedInfo().State.LastSeq
		}
	}
	for _, p := range partitions {
		msg, err := stream.AppendEnvelope(nil, &stream.Envelope{Tenant: d.Tenant, Session: d.Session,
			Kind: stream.KindDelete, Identity: "delete/" + d.ID, Last: true, ReceivedAt: time.Now().UnixNano(), Delete: d}, nil)
		if err != nil {
			return err
		}
		id := stream.DeletionRecordKey(d.ID, p)
		try, cancel := context.WithTimeout(ctx, 20*time.Second)
		_, err = e.streams.JS.PublishMsg(try, &nats.Msg{Subject: stream.IngestSubject(p, d.Tenant, d.Token()), Data: msg},
			jetstream.WithMsgID("delete-"+id))
		cancel()
		if err != nil {
			return err
		}
		e.wanted[id] = what
	}
	return nil
}

// wait waits for the receipts, tells how far it is, and prints what was removed. next publishes more of what is left.
func (e *eraser) wait(ctx context.Context, next func() error) error {
	limit, cancel := context.WithTimeout(ctx, e.flags.Timeout)
	defer cancel()
	total := len(e.wanted) + len(e.left) // what is left are sessions, with one receipt each
	sums := map[string]uint64{}
	var got []stream.DeletionRecord
	said, began := time.Now(), time.Now()
	for len(e.wanted) > 0 || len(e.left) > 0 {
		if len(e.wanted) == 0 {
			if err := next(); err != nil {
				return err
			}
		}
		for id := range e.wanted {
			// A server that is killed does not answer, and another may be there at the next try.
			try, cancel := context.WithTimeout(limit, 5*time.Second)
			entry, err := e.streams.Deletions.Get(try, id)
			missed := try.Err() != nil
			cancel()
			if errors.Is(err, jetstream.ErrKeyNotFound) || err != nil && missed && limit.Err() == nil {
				continue
			}
			if err != nil {
				if limit.Err() != nil {
					break
				}
				return unreachable(fmt.Errorf("read a receipt: %w: the request is stored and is carried out all the same", err))
			}
			var r stream.DeletionRecord
			if err := json.Unmarshal(entry.Value(), &r); err != nil {
				return fmt.Errorf("receipt %s: %w", id, err)
			}
			delete(e.wanted, id)
			got = append(got, r)
			for t, n := range r.Rows {
				sums[t] += n
			}
			sums["messages"], sums["keys"], sums["objects"] = sums["messages"]+r.Messages, sums["keys"]+r.Keys, sums["objects"]+r.Objects
		}
		if len(e.wanted) == 0 && len(e.left) == 0 {
			break
		}
		if time.Since(said) > 5*time.Second {
			said = time.Now()
			fmt.Fprintf(e.p.Stderr, "%d of %d done after %s%s\n", len(got), total, time.Since(began).Round(time.Second), e.idle(limit))
		}
		select {
		case <-limit.Done():
			more := ""
			if n := len(e.left); n > 0 {
				more = fmt.Sprintf("; the last %s were not requested yet: run the same again for them", plural(int64(n), "session"))
			}
			if ctx.Err() != nil {
				return withCode(errors.New("interrupted; the request is stored, and the service goes on carrying it out"+more), exitStopped)
			}
			return fmt.Errorf("%d of %d are not done after %s%s: the request is stored and is carried out as soon as the service can; see the "+
				"logs of worker and sink%s", total-len(got), total, e.flags.Timeout, e.idle(ctx), more)
		case <-time.After(100 * time.Millisecond):
		}
	}
	return e.print(got, sums)
}

// idle says who is missing, if someone is.
func (e *eraser) idle(ctx context.Context) string {
	for _, role := range []string{"worker", "sink"} {
		if n, err := broker.Alive(ctx, e.streams.Leases, role); err == nil && n == 0 {
			return fmt.Sprintf("; no %s is running: start one", role)
		}
	}
	return ""
}

func (e *eraser) print(got []stream.DeletionRecord, sums map[string]uint64) error {
	if e.flags.JSON {
		enc := newEncoder(e.p.Stdout)
		for _, r := range got {
			if err := enc.Encode(r); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(e.p.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "REMOVED\tCOUNT")
	for _, t := range slices.Sorted(maps.Keys(sums)) {
		if t == "messages" || t == "keys" || t == "objects" {
			continue
		}
		fmt.Fprintf(w, "%s\t%d\n", t, sums[t])
	}
	for _, t := range []string{"messages", "keys", "objects"} {
		fmt.Fprintf(w, "(%s)\t%d\n", t, sums[t])
	}
	return w.Flush()
}
