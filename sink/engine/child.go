package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// childEnv names the configuration file that turns a process into an engine child.
const childEnv = "WARPLINE_ENGINE_CHILD"

// unconfinedMark begins a line of the child's log that says how it is not confined. The parent looks for it.
const unconfinedMark = "engine child: not confined: "

// inherited are the variables of its parent that a child keeps. The others may be secrets, and a process can read its initial environment
// from a file.
var inherited = []string{"TZ", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "GOTRACEBACK"}

// childEnviron is the environment of a child, without what makes it one.
func childEnviron() []string {
	var env []string
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// exitNoLibrary is the child's exit code when the library cannot be used; the parent's error then says what to do.
const exitNoLibrary = 3

// leaveWithin bounds an orderly end, which takes milliseconds unless a client keeps a connection open: ClickHouse then waits five seconds
// for it. Past the bound the process just exits, which does not cost anything that was acknowledged, since a data part is written before
// its insert is answered.
const leaveWithin = 2 * time.Second

func init() {
	path := os.Getenv(childEnv)
	if path == "" {
		return
	}
	os.Unsetenv(childEnv) // nothing the engine starts may become an engine
	code := RunChild(path)
	// Not os.Exit: under the race detector that takes a second longer, in which threads of the library crash, since it is gone.
	syscall.Exit(code)
}

// RunChild runs the engine in this process until its stdin closes (unless it was prepared as
// standalone) or it gets SIGTERM or SIGINT, and returns the exit code: 0 after an orderly end.
// configPath comes from Prepare. At most one engine runs in a process, once.
func RunChild(configPath string) int {
	var cfg childConfig
	body, err := os.ReadFile(configPath)
	if err == nil {
		err = json.Unmarshal(body, &cfg)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "engine child: configuration:", err)
		return 2
	}
	stdin, terminal, confined := takeStage()
	if !confined {
		stdin, terminal, err = takeTerminal()
		if err != nil {
			// It works, but less well: see takeTerminal.
			fmt.Fprintln(os.Stderr, "engine child: runs without a terminal, so a rude client can end it:", err)
		}
		err := confine(cfg, configPath, stdin, terminal) // returns only when it could not
		fmt.Fprintln(os.Stderr, unconfinedMark+err.Error())
	}
	// The library reads its last script from this pipe: it waits there, with no query running that
	// a client could kill, until the write end closes, and then shuts down in order.
	hold, release, err := os.Pipe()
	if err != nil {
		fmt.Fprintln(os.Stderr, "engine child:", err)
		return 1
	}
	defer hold.Close()
	if err := restrictCalls(); err != nil {
		fmt.Fprintln(os.Stderr, unconfinedMark+err.Error())
	}
	var leaving atomic.Bool
	go func() {
		awaitEnd(stdin, !cfg.Standalone)
		leaving.Store(true)
		release.Close()
		if terminal != nil {
			terminal.Close() // otherwise the library would now wait for input
		}
		time.Sleep(leaveWithin)
		cfg.clean()
		syscall.Exit(0)
	}()
	// Not on the first thread, which init holds: C reads that one's stack from /proc, where a confined process may not look.
	ended := make(chan error)
	go func() {
		runtime.LockOSThread()
		ended <- runLibrary(cfg.Library, engineArguments(cfg, hold.Fd(), terminal != nil))
		select {} // a thread that ends runs the library's destructors, and the engine is gone
	}()
	err = <-ended
	runtime.KeepAlive(release)
	runtime.KeepAlive(terminal)
	switch {
	case leaving.Load():
		cfg.clean()
		return 0
	case errors.Is(err, errNoLibrary):
		fmt.Fprintln(os.Stderr, "engine child:", err)
		return exitNoLibrary
	case err != nil:
		fmt.Fprintln(os.Stderr, "engine child:", err)
	default:
		fmt.Fprintln(os.Stderr, "engine child: the engine ended by itself")
	}
	return 1
}

// clean removes the engine's folder if it is to be removed. The library's threads may still be writing when an end took too long, so a
// folder that is not empty the first time is tried again.
func (cfg childConfig) clean() {
	if cfg.Remove == "" {
		return
	}
	for range 10 {
		entries, _ := os.ReadDir(cfg.Remove)
		for _, e := range entries { // os.RemoveAll of the folder itself would read the folder around it, which is not ours
			_ = os.RemoveAll(filepath.Join(cfg.Remove, e.Name()))
		}
		if err := os.Remove(cfg.Remove); err == nil || errors.Is(err, fs.ErrNotExist) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// engineArguments are clickhouse-local's. Its session always is user `default`, whose profile is read-only; the --readonly here overrides
// the profile for this session alone, so that it may start the listeners. The second script is the pipe that holds the engine; waiting in a
// query on stdin instead would need a grant to read files, which clients would then have too.
func engineArguments(cfg childConfig, hold uintptr, terminal bool) []string {
	args := []string{"clickhouse",
		"--config-file", cfg.ConfigXML, "--path", cfg.Data, "--log-level", "warning",
		"--readonly", "0", "--max_query_size", "262144", "--max_ast_elements", "50000", "--max_execution_time", "0", "--max_memory_usage", "0",
		"--queries-file", cfg.Script, "--queries-file", "/dev/fd/" + strconv.FormatUint(uint64(hold), 10),
	}
	if terminal {
		// --interactive is what makes it a server in the library's eyes; the rest keeps it quiet.
		args = append(args, "--interactive", "--disable_suggestion", "--progress", "off", "--progress-table", "off",
			"--enable-progress-table-toggle", "0", "--history_file", "/dev/null", "--echo", "0")
	}
	return args
}

// awaitEnd returns when the parent closed stdin or died, or when a signal asks for the end.
func awaitEnd(stdin *os.File, watchStdin bool) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGINT)
	closed := make(chan struct{})
	if watchStdin {
		go func() {
			_, _ = io.Copy(io.Discard, stdin) // an error ends the wait as well as EOF does
			close(closed)
		}()
	}
	select {
	case <-asked:
	case <-closed:
	}
}
