package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/warpline/warpline/query/pprof"
)

// pprofCmd writes profiles for other viewers.
type pprofCmd struct {
	askFlags
	selectionFlags
	Type   string `enum:"pc,kernels" default:"pc" help:"${pprof_type}"`
	Out    string `short:"o" required:"" placeholder:"FILE" help:"File to write, as stalls.pb.gz; - is stdout."`
	Folded bool   `help:"Write folded stacks for flame graphs instead: text, a stack a line."`
}

func (c *pprofCmd) check(p *program) error {
	_, err := c.selection(p.Settings, time.Now())
	return errors.Join(err, c.clickhouseFlags.check(p.Settings))
}

// Run writes a file beside the one that is asked for, and renames it when it is whole.
func (c *pprofCmd) Run(ctx context.Context, p *program) (err error) {
	selected, err := c.selection(p.Settings, time.Now())
	if err != nil {
		return err
	}
	conn, database, err := c.ask(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	q := pprof.Query{Database: database, Type: pprof.Type(c.Type), Selection: selected, Folded: c.Folded}
	out, whole := p.Stdout, func() error { return nil }
	if c.Out != "-" {
		f, err := os.CreateTemp(filepath.Dir(c.Out), "."+filepath.Base(c.Out)+".*")
		if err != nil {
			return fmt.Errorf("%s: %w", p.Settings.name("out"), err)
		}
		defer os.Remove(f.Name())
		defer f.Close()
		out, whole = f, func() error {
			return errors.Join(f.Chmod(0o644), f.Close(), os.Rename(f.Name(), c.Out))
		}
	}
	t, err := pprof.Write(ctx, conn, out, q)
	switch {
	case errors.Is(err, pprof.ErrTooMany):
		return fmt.Errorf("%w: select less with --session, --build, --since and --until, or write --folded", err)
	case err != nil:
		return err
	case t.Stacks == 0:
		return c.nothing(selected.Named())
	}
	if err := whole(); err != nil {
		return fmt.Errorf("write %s: %w", c.Out, err)
	}
	if c.Type == string(pprof.PC) {
		fmt.Fprintf(p.Stderr, "%d stacks: %d samples, estimated %v on the GPU's samplers\n", t.Stacks, t.Count, time.Duration(t.NS))
	} else {
		fmt.Fprintf(p.Stderr, "%d stacks: %d calls, %v\n", t.Stacks, t.Count, time.Duration(t.NS))
	}
	return nil
}

// nothing is the error of a selection without samples or kernels.
func (c *pprofCmd) nothing(named string) error {
	what := map[string]string{"pc": "PC samples", "kernels": "kernels"}[c.Type]
	if named == "" {
		return fmt.Errorf("no %s are here yet: \"warpline report\" shows what is", what)
	}
	return fmt.Errorf("no %s of %s: \"warpline report\" shows what there is", what, named)
}
