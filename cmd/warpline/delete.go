package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/cmd/warpline/admin"
	"github.com/warpline/warpline/cmd/warpline/erase"
	"github.com/warpline/warpline/cmd/warpline/service"
	"github.com/warpline/warpline/proto/stream"
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

// eraser stores deletions, and waits until they are carried out.
type eraser struct {
	erase.Eraser
	p         *program
	flags     deleteFlags
	nats      *service.Connection
	deletions []stream.Deletion
	record    func(order func() error) error // calls order, which stores the tombstones; may be nil
	before    func() error                   // runs between the question and the first tombstone; may be nil
	wanted    []string                       // keys of the records that will say what was removed
	left      []stream.Deletion              // not ordered yet
}

// begin connects. Without --force it wants ClickHouse too, to say what will be deleted.
func (f deleteFlags) begin(ctx context.Context, p *program, reach reachFlags, click clickhouseFlags) (*eraser, error) {
	e := &eraser{Eraser: erase.Eraser{Schema: schema()}, p: p, flags: f}
	srv, err := readServer(click, reach.Data)
	if err == nil {
		e.Database = srv.Database
		e.Conn, err = srv.Open(ctx)
	}
	if err != nil {
		if !f.Force {
			return nil, fmt.Errorf("%w (or say --force: then it is carried out when the service runs)", err)
		}
		fmt.Fprintln(p.Stderr, "what is stored is not known: "+err.Error())
		e.Conn = nil
	}
	e.nats, err = reach.connect(ctx)
	if err != nil {
		e.close()
		return nil, err
	}
	e.Streams, err = e.nats.Streams(ctx)
	if err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *eraser) close() {
	if e.Conn != nil {
		e.Conn.Close()
	}
	if e.nats != nil {
		e.nats.Close()
	}
}

// desk records what is deleted.
func (e *eraser) desk(ctx context.Context) (*admin.Desk, error) {
	return e.nats.Desk(ctx, func(err error) { fmt.Fprintln(e.p.Stderr, "warning:", err) })
}

// foundWords say what there is of a session or a tenant.
func foundWords(f erase.Found) string {
	var rows uint64
	for _, n := range f.Rows {
		rows += n
	}
	return fmt.Sprintf("%s in %s, %s in the stream", plural(int64(rows), "row"), plural(int64(len(f.Rows)), "table"),
		plural(int64(f.Messages), "message"))
}

// onTheWay is how many deletions of sessions are ordered at a time; with those that nobody waits for all are. While a sink carries
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
	atOnce := len(e.deletions)
	if !e.flags.NoWait && !e.nats.Alone {
		atOnce = onTheWay
	}
	e.left = e.deletions
	order := func() error {
		n := min(len(e.left), atOnce)
		now := e.left[:n]
		e.left = e.left[n:]
		for i := range now {
			keys, err := e.Order(ctx, &now[i])
			if err != nil {
				return unreachable(fmt.Errorf("store the request: %w: run the same again, it may be stored in part", err))
			}
			e.wanted = append(e.wanted, keys...)
		}
		return nil
	}
	if e.record == nil {
		e.record = func(order func() error) error { return order() }
	}
	if err := e.record(order); err != nil {
		return err
	}
	if e.flags.NoWait {
		fmt.Fprintln(e.p.Stderr, "the request is stored; the service carries it out")
		return nil
	}
	if e.nats.Alone {
		return unreachable(errors.New("nothing runs here: the request is stored and is carried out at the next start"))
	}
	return e.wait(ctx, order)
}

// orAway is an error with the exit code of a service that cannot be reached, if that is what it is.
func orAway(err error) error {
	if errors.As(err, new(erase.Away)) {
		return unreachable(err)
	}
	return err
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

// wait waits for the receipts, tells how far it is, and prints what was removed. order orders more of what is left.
func (e *eraser) wait(ctx context.Context, order func() error) error {
	limit, cancel := context.WithTimeout(ctx, e.flags.Timeout)
	defer cancel()
	total := len(e.wanted) + len(e.left) // what is left are sessions, with one receipt each
	said, began := time.Now(), time.Now()
	var got []stream.DeletionRecord
	tell := func(waiting int) {
		if time.Since(said) > 5*time.Second {
			said = time.Now()
			fmt.Fprintf(e.p.Stderr, "%d of %d done after %s%s\n", total-waiting-len(e.left), total, time.Since(began).Round(time.Second),
				e.idle(limit))
		}
	}
	for {
		some, waiting, err := e.Await(limit, e.wanted, tell)
		got = append(got, some...)
		more := ""
		if n := len(e.left); n > 0 {
			more = fmt.Sprintf("; the last %s were not requested yet: run the same again for them", plural(int64(n), "session"))
		}
		switch {
		case err != nil:
			return orAway(err)
		case waiting > 0 && ctx.Err() != nil:
			return withCode(errors.New("interrupted; the request is stored, and the service goes on carrying it out"+more), exitStopped)
		case waiting > 0:
			return fmt.Errorf("%d of %d are not done after %s%s: the request is stored and is carried out as soon as the service can; see "+
				"the logs of worker and sink%s", waiting+len(e.left), total, e.flags.Timeout, e.idle(ctx), more)
		case len(e.left) == 0:
			return e.print(got)
		}
		e.wanted = e.wanted[:0]
		if err := order(); err != nil {
			return err
		}
	}
}

// idle says who is missing, if someone is.
func (e *eraser) idle(ctx context.Context) string {
	for _, role := range []string{"worker", "sink"} {
		if n, err := broker.Alive(ctx, e.Streams.Leases, role); err == nil && n == 0 {
			return fmt.Sprintf("; no %s is running: start one", role)
		}
	}
	return ""
}

func (e *eraser) print(got []stream.DeletionRecord) error {
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
	sums := erase.Sum(got)
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
