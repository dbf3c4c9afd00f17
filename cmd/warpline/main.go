// Command warpline takes in GPU profiling telemetry, adds it up while it streams, and leaves it in ClickHouse.
//
// Each subcommand is a struct in the file of its name. What they share: program (streams, environment, signals), settings (file,
// environment and flags), and package service (all roles in one process, roles alone, and how commands find a service that runs).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/cmd/warpline/service"
	"github.com/warpline/warpline/query/report"
	_ "github.com/warpline/warpline/sink/engine" // its init turns this binary into the engine's child when asked to
)

// Exit codes, as --help lists them.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnreachable = 3
	exitRefused     = 4
	exitUnbalanced  = 5
	exitStopped     = 130
)

const about = `Warpline takes in GPU profiling telemetry, adds it up while it streams, and answers for it in SQL.

Start with "warpline demo"; run it for yourself with "warpline up".`

const exitCodes = `Every flag can be set by a file (--config, keys are flag names) and by the environment (WARPLINE_ and the flag's name ` +
	`in capitals, '-' as '_'). Flags win over the environment, which wins over the file.

Data goes to stdout, words go to stderr.

Exit codes: 0 done; 1 failed, or some of what was sent was refused for what it says; 2 wrong usage or configuration; 3 something is not ` +
	`reachable, or did not say in time what it refused; 4 refused by the other side (key, quota, conflict); 5 the books do not balance; 130 ` +
	`interrupted before it was done, or stopped at once by a second signal. A service that a signal ends in order is done: 0.`

type commands struct {
	Config      string           `help:"Read settings from this YAML file." placeholder:"FILE"`
	PrintConfig bool             `help:"Print the settings in force as YAML, secrets left out, and exit."`
	LogFormat   string           `help:"Log lines as text or json." enum:"text,json" default:"text"`
	LogLevel    slog.Level       `help:"Least severe log lines to show: debug, info, warn or error." default:"info"`
	Version     kong.VersionFlag `help:"Print the version and exit."`

	Demo      demoCmd      `cmd:"" group:"start" help:"${commands_demo}"`
	Up        upCmd        `cmd:"" group:"start" help:"Run all roles in one process, with its own NATS and ClickHouse."`
	Send      sendCmd      `cmd:"" group:"use" help:"Send GPU Flight sessions as the agent does, and exports of memory telemetry."`
	Report    reportCmd    `cmd:"" group:"use" help:"${commands_report}"`
	Pprof     pprofCmd     `cmd:"" group:"use" help:"Write PC samples or kernels as a profile for go tool pprof, or as folded stacks."`
	Telemetry telemetryCmd `cmd:"" group:"use" help:"Check GPU memory telemetry files without a server."`
	IKP       ikpCmd       `cmd:"" name:"ikp" group:"use" help:"${commands_ikp}"`
	Trace     traceCmd     `cmd:"" group:"use" help:"Check traces in Chrome's JSON without a server."`

	Session sessionCmd `cmd:"" group:"care" help:"List, export and delete sessions."`
	Tenant  tenantCmd  `cmd:"" group:"care" help:"List tenants, and delete all that one has sent."`

	Key    keyCmd    `cmd:"" group:"care" help:"Make, revoke and list the keys that clients send with."`
	Reject rejectCmd `cmd:"" group:"care" help:"Look at what was refused, and why."`
	Window windowCmd `cmd:"" group:"care" help:"Decide about windows that came twice with different bytes."`
	Doctor doctorCmd `cmd:"" group:"care" help:"Look for settings and stores that will hurt the service later."`
	Cost   costCmd   `cmd:"" group:"care" help:"Reckon what a month costs, from what is stored and what was sent."`
	Audit  auditCmd  `cmd:"" group:"care" help:"Prove that everything accepted is in ClickHouse once."`
	Replay replayCmd `cmd:"" group:"care" help:"Bring rows that ClickHouse lost back from what NATS still holds."`
	Bench  benchCmd  `cmd:"" group:"care" help:"Measure what this machine can take."`

	Gateway gatewayCmd `cmd:"" group:"roles" help:"Only the door: HTTP in, NATS out."`
	Worker  workerCmd  `cmd:"" group:"roles" help:"Only the fold: NATS in, chunks of rows out."`
	Sink    sinkCmd    `cmd:"" group:"roles" help:"Only the inserts: chunks in, ClickHouse out."`
	Web     webCmd     `cmd:"" group:"roles" help:"Only the questions of tenants: HTTP in, a ClickHouse server behind it."`

	VersionCmd versionCmd `cmd:"" name:"version" group:"use" help:"Print the version of this program and of what it carries."`

	NATS   natsCmd   `cmd:"" name:"nats" hidden:"" help:"Run the embedded NATS server alone."`
	Engine engineCmd `cmd:"" name:"engine" hidden:"" help:"Run the embedded ClickHouse engine alone."`
}

// program is what a command may touch of the outside world. Tests make their own.
type program struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Env looks a variable up; nil means an empty environment.
	Env func(string) (string, bool)
	// Signals delivers what interrupts: the first ends ctx, the second ends everything. May be nil.
	Signals <-chan os.Signal
	// Exit ends the process at once; nil means that a second signal only cancels Hard.
	Exit func(code int)

	// The rest is set by run.
	Log      *slog.Logger
	Settings *settings
	// Hard ends when a second signal came: stop waiting for anything.
	Hard context.Context
}

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	p := &program{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.LookupEnv, Signals: signals, Exit: os.Exit}
	os.Exit(p.run(os.Args[1:]))
}

// run parses args, runs the command they name and returns the exit code.
func (p *program) run(args []string) (code int) {
	if p.Env == nil {
		p.Env = func(string) (string, bool) { return "", false }
	}
	var c commands
	exited := -1
	parser, err := kong.New(&c,
		kong.Name("warpline"), kong.Description(about), kong.Writers(p.Stdout, p.Stderr),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true, WrapUpperBound: 110}),
		kong.Help(help), kong.ValueFormatter(helpWithEnv),
		kong.ExplicitGroups([]kong.Group{
			{Key: "start", Title: "Start here"}, {Key: "use", Title: "Send and read"}, {Key: "care", Title: "Look after it"},
			{Key: "roles", Title: "The roles apart, against --nats and --clickhouse"},
		}),
		helpTexts.CloneWith(kong.Vars{"version": versionLine()}),
		kong.Exit(func(code int) { exited = code; panic(exitNow{}) }),
	)
	if err != nil {
		panic("BUG: command line: " + err.Error())
	}
	defer func() { // kong's --help and --version end by "exit", which a test must survive
		if r := recover(); r != nil {
			if _, ok := r.(exitNow); !ok {
				panic(r)
			}
			code = exited
		}
	}()
	p.Settings, err = loadSettings(parser.Model, args, p.Env)
	if err != nil {
		return p.fail(usage(err))
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	if err := kong.Resolvers(p.Settings).Apply(parser); err != nil {
		panic("BUG: command line: " + err.Error())
	}
	kctx, err := parser.Parse(args)
	if err != nil {
		return p.fail(usage(p.Settings.reword(err, args)))
	}
	p.Settings.chosen(kctx)
	p.Log = newLogger(p.Stderr, c.LogFormat, c.LogLevel)
	if err := p.check(kctx); err != nil {
		return p.fail(usage(err))
	}
	if c.PrintConfig {
		if err := p.Settings.print(p.Stdout, kctx); err != nil {
			return p.fail(err)
		}
		return exitOK
	}
	ctx, stop := p.watch()
	defer stop()
	kctx.BindTo(ctx, (*context.Context)(nil))
	err = kctx.Run(p)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil { // whatever it was doing says nothing
		err = withCode(errors.New("interrupted"), exitStopped)
	}
	return p.fail(err)
}

type exitNow struct{}

// checker is a command that can tell wrong settings before anything starts.
type checker interface{ check(p *program) error }

func (p *program) check(kctx *kong.Context) error {
	node := kctx.Selected()
	if node == nil || !node.Target.CanAddr() {
		return nil
	}
	if err := p.Settings.readSecrets(kctx.Flags()); err != nil {
		return err
	}
	if c, ok := node.Target.Addr().Interface().(checker); ok {
		return c.check(p)
	}
	return nil
}

// watch ends the returned context at the first signal and everything else at the second.
func (p *program) watch() (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	hard, cancelHard := context.WithCancel(context.Background())
	p.Hard = hard
	done := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			case <-p.Signals: // a nil channel never delivers
			}
			if n == 0 {
				fmt.Fprintln(p.Stderr, "stopping; once more to stop at once")
				cancel()
				continue
			}
			fmt.Fprintln(p.Stderr, "stopping at once; what was accepted is stored and will be finished at the next start")
			cancelHard()
			if p.Exit != nil {
				p.Exit(exitStopped)
			}
			return
		}
	}()
	return ctx, func() { close(done); cancel(); cancelHard() }
}

// coded is an error with an exit code of its own.
type coded struct {
	error
	code int
}

func (e coded) Unwrap() error { return e.error }

func usage(err error) error       { return withCode(err, exitUsage) }
func unreachable(err error) error { return withCode(err, exitUnreachable) }
func refused(err error) error     { return withCode(err, exitRefused) }

func withCode(err error, code int) error {
	if err == nil {
		return nil
	}
	return coded{err, code}
}

// codeOf is the exit code that goes with an error.
func codeOf(err error) int {
	var own coded
	var away service.Unreachable
	switch {
	case errors.As(err, &own):
		return own.code
	case errors.As(err, &away), broker.Disconnected(err):
		return exitUnreachable
	}
	return exitFailed
}

// fail says err in one paragraph on stderr and returns the exit code that goes with it.
func (p *program) fail(err error) int {
	if err == nil {
		return exitOK
	}
	code := codeOf(err)
	said := strings.TrimSpace(err.Error())
	if report.TooLarge(err) {
		said += "\nThis is more than one question may take: ask for less (--session, --tenant, --since, as the command has them), or give the " +
			"service more --clickhouse-memory."
	}
	if broker.Disconnected(err) && !errors.As(err, new(coded)) && !errors.As(err, new(service.Unreachable)) { // those say what to do
		said += ": the connection to NATS broke; once NATS is back, run the same again"
	}
	fmt.Fprintln(p.Stderr, "warpline: "+said)
	if code == exitUsage {
		fmt.Fprintln(p.Stderr, `"warpline --help" lists the commands, "warpline <command> --help" its flags.`)
	}
	return code
}

func newLogger(w io.Writer, format string, level slog.Level) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// help is kong's, except that a group of commands one of which is meant without its name shows the flags of that one.
func help(o kong.HelpOptions, ctx *kong.Context) error {
	if group := ctx.Selected(); group != nil && group.DefaultCmd != nil {
		shown := *ctx
		shown.Path = append(slices.Clone(ctx.Path), &kong.Path{Parent: group, Command: group.DefaultCmd, Flags: group.DefaultCmd.Flags})
		return kong.DefaultHelpPrinter(o, &shown)
	}
	if err := kong.DefaultHelpPrinter(o, ctx); err != nil {
		return err
	}
	if ctx.Selected() == nil {
		fmt.Fprintf(ctx.Stdout, "\n%s\n", wrap(exitCodes, 100))
	}
	return nil
}
