package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/warpline/warpline/cmd/warpline/admin"
	"github.com/warpline/warpline/cmd/warpline/rejects"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/table"
)

// rejectDropCmd drops rejects before they expire.
type rejectDropCmd struct {
	reachFlags
	clickhouseFlags
	rejectFlags
	ID     []string `arg:"" optional:"" help:"Ids of rejects, or how they begin; or pick them with flags."`
	Yes    bool     `help:"Do not ask."`
	Resume bool     `help:"Only finish a drop that was cut short."`
	JSON   bool     `help:"Print what is dropped of each tenant as JSON, one object a line."`
}

func (c *rejectDropCmd) check(p *program) error {
	f, err := c.filter(p.Settings, c.ID)
	switch {
	case err != nil: // what was named is wrong, and whether it picks any is not known
	case c.Resume && (f.Picks() || !f.To.IsZero()):
		err = errors.Join(err, fmt.Errorf("%s goes without ids and flags that pick rejects", p.Settings.name("resume")))
	case !c.Resume && !f.Picks() && f.To.IsZero():
		err = errors.Join(err, errors.New("which rejects? name their ids, or pick them with --tenant, --session, --reason, --type, --from or "+
			"--to"))
	case !c.Resume && !c.Yes && !asks(p.Stdin):
		err = errors.Join(err, errors.New("this deletes data for good and nobody can be asked (stdin is not a terminal): say --yes"))
	}
	return errors.Join(err, c.clickhouseFlags.check(p.Settings))
}

// Run counts, asks and drops.
func (c *rejectDropCmd) Run(ctx context.Context, p *program) error {
	f, err := c.filter(p.Settings, c.ID)
	if err != nil {
		return err
	}
	srv, err := writeServer(c.clickhouseFlags, c.Data)
	if err != nil {
		return err
	}
	conn, err := srv.OpenIn(ctx, srv.Database)
	if err != nil {
		return err
	}
	defer conn.Close()
	nc, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer nc.Close()
	streams, err := nc.Streams(ctx)
	if err != nil {
		return err
	}
	d := sink.Dropper{Streams: streams, Conn: conn}
	was, err := finishDrop(ctx, p, d)
	if err != nil {
		return err
	}
	if c.Resume {
		if !was {
			fmt.Fprintln(p.Stderr, "no drop was cut short")
		}
		return nil
	}
	picked, err := rejects.Count(ctx, streams, conn, f)
	if err != nil {
		return err
	}
	if len(picked) == 0 {
		fmt.Fprintln(p.Stderr, "nothing was refused that these pick")
		return nil
	}
	var rows, bytes uint64
	for _, one := range picked {
		rows, bytes = rows+one.Rows, bytes+one.Bytes
		if c.JSON {
			if err := newEncoder(p.Stdout).Encode(one); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(p.Stdout, "%s\t%s, %s kept\n", one.Tenant, plural(int64(one.Rows), "reject"), humanize.IBytes(one.Bytes))
	}
	if !c.Yes {
		ok, err := ask(ctx, p, fmt.Sprintf("Drop %s of %s for good, %s of bytes? They cannot be replayed then.", plural(int64(rows), "reject"),
			plural(int64(len(picked)), "tenant"), humanize.IBytes(bytes)))
		if err != nil {
			return err
		}
		if !ok {
			return withCode(errors.New("nothing was dropped"), exitStopped)
		}
	}
	where, err := f.Literal()
	if err != nil {
		return err
	}
	desk, err := nc.Desk(ctx, func(err error) { fmt.Fprintln(p.Stderr, "warning:", err) })
	if err != nil {
		return err
	}
	working, end, err := repairs(ctx, p, streams)
	if err != nil {
		return err
	}
	defer end()
	var n uint64
	err = desk.Drop(ctx, admin.CLI(), f.Tenant, rows, func() (err error) {
		n, err = d.Drop(working, table.Rejects.Table, where)
		return err
	})
	if err != nil {
		return fmt.Errorf("drop rejects: %w: run \"warpline reject drop --resume\" to finish what was begun", err)
	}
	fmt.Fprintf(p.Stderr, "dropped %s\n", plural(int64(n), "reject"))
	return nil
}

// finishDrop finishes a drop that was cut short, and reports whether there was one.
func finishDrop(ctx context.Context, p *program, d sink.Dropper) (bool, error) {
	working, end, err := repairs(ctx, p, d.Streams)
	if err != nil {
		return false, err
	}
	defer end()
	was, err := d.Finish(working)
	if err == nil && was {
		fmt.Fprintln(p.Stderr, "a drop that was cut short is finished")
	}
	return was, err
}
