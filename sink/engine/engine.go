package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Engine is one running engine child. All methods may be called from any goroutine, and go on
// answering after it ended.
type Engine struct {
	cfg   Config
	pid   int
	stdin io.Closer
	done  chan struct{}
	err   error // how it ended; written before done closes

	unconfined string // written before Start returns
}

// Start prepares cfg.Dir, starts the child and returns once both protocols answer to the writer.
// It first waits until an engine that still holds the folder has let go. ctx bounds the start only;
// without a deadline a start that does not answer fails after a minute. The error of a child that
// died carries the end of its log. The caller ends the engine with Stop; an engine whose parent
// dies ends by itself.
func Start(ctx context.Context, cfg Config) (*Engine, error) {
	cfg, path, err := Prepare(ctx, cfg, false)
	if err != nil {
		return nil, err
	}
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, time.Minute, errors.New("it did not answer within a minute"))
		defer cancel()
	}
	if err := awaitFolder(ctx, cfg.Dir, cfg.Logger); err != nil {
		return nil, err
	}
	began := time.Now()
	e := &Engine{cfg: cfg, done: make(chan struct{})}
	started := make(chan error)
	go e.run(path, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("engine: start the child: %w", err)
	}
	if err := e.awaitReady(ctx); err != nil {
		stop, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = e.Stop(stop) // the start's own error is the one to report
		return nil, e.startError(ctx, err)
	}
	e.unconfined = e.notConfined()
	if e.unconfined != "" {
		cfg.Logger.Warn("this kernel cannot confine the ClickHouse engine: only its settings keep readers from the machine's files and network",
			"why", e.unconfined)
	}
	cfg.Logger.Debug("engine answers", "pid", e.pid, "http", e.HTTPAddr(), "tcp", e.TCPAddr(), "after", time.Since(began))
	return e, nil
}

// startError words why a start failed.
func (e *Engine) startError(ctx context.Context, err error) error {
	var exit *exec.ExitError
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("engine: %w", context.Cause(ctx)) // when the start was given up, the engine's last answer does not matter
	case errors.As(err, &exit) && exit.ExitCode() == exitNoLibrary:
		what := "remove it to have it fetched again, or point " + LibraryEnv + " at a libchdb.so of version " + Version
		if os.Getenv(LibraryEnv) != "" {
			what = fmt.Sprintf("point %s at a libchdb.so of version %s, or unset it to have one fetched", LibraryEnv, Version)
		}
		return fmt.Errorf("%w: %s cannot be used (%s); %s, %s", ErrLibrary, e.cfg.Library,
			strings.TrimPrefix(e.tail(), "engine child: no library: "), what, elsewhere)
	}
	return fmt.Errorf("engine: %w; the log is %s", err, e.logPath("engine.log"))
}

// run starts the child and waits for it. It owns an OS thread for all that time, since the
// kernel's parent-death signal means the death of the thread that started the child.
func (e *Engine) run(configPath string, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd, err := e.command(configPath)
	if err != nil {
		started <- err
		return
	}
	log := cmd.Stdout.(*os.File)
	defer log.Close()
	e.stdin, err = cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		started <- err
		return
	}
	e.pid = cmd.Process.Pid
	started <- nil
	if err := cmd.Wait(); err != nil {
		e.err = fmt.Errorf("child %d: %w", e.pid, err)
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == exitDisk {
			e.err = fmt.Errorf("%w: a file below %s could not be written: look at the disk (dmesg, limits on the size of files)", e.err, e.cfg.Dir)
		}
		if said := e.tail(); said != "" {
			e.err = fmt.Errorf("%w: %s", e.err, said)
		}
	}
	close(e.done)
}

func (e *Engine) command(configPath string) (*exec.Cmd, error) {
	self, err := selfPath()
	if err != nil {
		return nil, err
	}
	// Truncated at each start: ClickHouse keeps the history, this holds only a crash or a refusal.
	log, err := os.OpenFile(e.logPath("child.log"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Args = []string{"warpline-engine", e.cfg.Dir} // what ps shows
	cmd.Env = append(childEnviron(), childEnv+"="+configPath)
	cmd.Stdout, cmd.Stderr = log, log
	isolate(cmd)
	return cmd, nil
}

// HTTPAddr is host:port of the HTTP protocol.
func (e *Engine) HTTPAddr() string {
	return net.JoinHostPort(e.cfg.ListenHost, fmt.Sprint(e.cfg.HTTPPort))
}

// TCPAddr is host:port of the native protocol.
func (e *Engine) TCPAddr() string {
	return net.JoinHostPort(e.cfg.ListenHost, fmt.Sprint(e.cfg.TCPPort))
}

// User is the name of the user that may write.
func (e *Engine) User() string { return Writer }

// Password is that user's password.
func (e *Engine) Password() string { return e.cfg.Password }

// ReaderPassword is the password of user Reader.
func (e *Engine) ReaderPassword() string { return e.cfg.ReaderPassword }

// SlotPassword is the password of the user of a slot, from 1 on.
func (e *Engine) SlotPassword(slot int) string { return slotPassword(e.cfg.slotSecret, slot) }

// Unconfined says why the child is not, or not wholly, kept from the rest of this machine; "" when it is.
func (e *Engine) Unconfined() string { return e.unconfined }

// Pid is the child's process id.
func (e *Engine) Pid() int { return e.pid }

// Dir is the engine's folder.
func (e *Engine) Dir() string { return e.cfg.Dir }

// Done is closed when the child has ended, for whatever reason.
func (e *Engine) Done() <-chan struct{} { return e.done }

// Err says how the child ended: nil while it runs and after an orderly end.
func (e *Engine) Err() error {
	select {
	case <-e.done:
		return e.err
	default:
		return nil
	}
}

// Stop ends the engine and returns when its process is gone: it closes the child's stdin, and when
// ctx ends first it sends SIGTERM and, two seconds later, SIGKILL. A second Stop waits like the
// first. The error says that the engine had to be killed or had crashed before.
func (e *Engine) Stop(ctx context.Context) error {
	_ = e.stdin.Close() // closing twice is harmless
	select {
	case <-e.done:
		return e.err
	case <-ctx.Done():
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		_ = syscall.Kill(e.pid, sig) // it may have ended by now
		select {
		case <-e.done:
			return errors.Join(fmt.Errorf("engine: it took %v to end child %d: %w", sig, e.pid, context.Cause(ctx)), e.err)
		case <-time.After(2 * time.Second):
		}
	}
	<-e.done
	return e.err
}

func (e *Engine) logPath(name string) string { return filepath.Join(e.cfg.Dir, "logs", name) }

// tail is the last of what the child printed that explains its end, for error texts; "" for nothing.
func (e *Engine) tail() string {
	f, err := os.Open(e.logPath("child.log"))
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	const most = 32 << 10 // a crash prints its stack twice
	if info, err := f.Stat(); err == nil && info.Size() > most {
		_, _ = f.Seek(-most, io.SeekEnd)
	}
	b, _ := io.ReadAll(io.LimitReader(f, most))
	return gist(string(b))
}

// notConfined is what the child said about its confinement.
func (e *Engine) notConfined() string {
	f, err := os.Open(e.logPath("child.log"))
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	var why []string
	b, _ := io.ReadAll(io.LimitReader(f, 64<<10)) // it says so before anything else
	for line := range strings.Lines(string(b)) {
		if said, ok := strings.CutPrefix(strings.TrimSpace(line), unconfinedMark); ok {
			why = append(why, said)
		}
	}
	return strings.Join(why, "; ")
}

// said is tail for texts that must say something.
func (e *Engine) said() string {
	if s := e.tail(); s != "" {
		return s
	}
	return "it printed nothing"
}

// awaitFolder waits until no process holds the data folder. ClickHouse locks data/status for as
// long as it lives and would refuse to start; a killed engine holds it until the kernel has taken
// its memory apart.
func awaitFolder(ctx context.Context, dir string, log *slog.Logger) error {
	status := filepath.Join(dir, "data", "status")
	if _, err := os.Stat(status); errors.Is(err, os.ErrNotExist) {
		return nil // no engine ever ran here, and ClickHouse wants to make the file itself
	}
	unlock, err := lockFile(ctx, status, func() {
		log.Warn("engine: waiting for another process to let go of the data folder", "dir", dir)
	})
	if err != nil {
		return fmt.Errorf("engine: the data folder is in use: %w; stop the process named in %s", err, status)
	}
	unlock()
	return nil
}
