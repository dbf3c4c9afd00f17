package engine

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// steadyAfter is how long an engine must have run before its next death counts as a first one.
const steadyAfter = time.Minute

// Phase is where a supervised engine stands.
type Phase int

// The phases of a supervised engine, in the order in which they follow each other.
const (
	Ready    Phase = iota // both protocols answer
	Down                  // the child died or fell silent, or a restart failed; another follows after State.Wait
	Stopping              // Stop was called
	Stopped               // the child is gone and none follows
)

// String is the phase in one lower-case word.
func (p Phase) String() string {
	switch p {
	case Ready:
		return "ready"
	case Down:
		return "down"
	case Stopping:
		return "stopping"
	case Stopped:
		return "stopped"
	}
	return fmt.Sprintf("phase(%d)", int(p))
}

// State is what a Supervisor reports at each change.
type State struct {
	Phase    Phase
	Pid      int           // the child's process id; 0 when there is none. With Down: it is silent and is being killed
	Restarts int           // how often the engine was started again since Supervise
	Wait     time.Duration // with Down: how long until the next start
	Err      error         // with Down: why
}

// Supervisor keeps one engine running on the same ports, whatever kills it. An engine that runs and does not answer for some 20 s is killed
// by the Supervisor.
type Supervisor struct {
	cfg     Config
	log     *slog.Logger
	onState func(State)
	stop    context.CancelFunc
	ended   chan struct{}

	mu       sync.Mutex
	engine   *Engine // the running one, or the last
	state    State
	stopCtx  context.Context // bounds the orderly end; set by Stop before it cancels
	restarts int             // only the loop touches it
}

// Supervise starts an engine, waits until it answers and keeps it running until Stop. ctx bounds the first start only, whose failure is
// returned: a first start fails because of a mistake that a person has to learn of, a later one because of an outage that passes. onState,
// which may be nil, is called from one goroutine at each change after that and must not block. Each change is one line in cfg.Logger.
func Supervise(ctx context.Context, cfg Config, onState func(State)) (*Supervisor, error) {
	e, err := Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if onState == nil {
		onState = func(State) {}
	}
	run, stop := context.WithCancel(context.Background())
	s := &Supervisor{cfg: e.cfg, log: e.cfg.Logger, onState: onState, stop: stop, ended: make(chan struct{}), engine: e}
	go s.loop(run, e)
	return s, nil
}

// Engine is the running engine, or the last one while none runs. Its addresses, user and password
// stay the same for the life of the Supervisor.
func (s *Supervisor) Engine() *Engine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine
}

// State is the latest state.
func (s *Supervisor) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Stop ends the engine as Engine.Stop does, starts no other, and returns when all is over.
// Only the first call's ctx counts.
func (s *Supervisor) Stop(ctx context.Context) error {
	s.mu.Lock()
	if s.stopCtx == nil {
		s.stopCtx = ctx
	}
	s.mu.Unlock()
	s.stop()
	<-s.ended
	return s.State().Err
}

func (s *Supervisor) loop(run context.Context, e *Engine) {
	defer close(s.ended)
	pause := &backoff.ExponentialBackOff{InitialInterval: 100 * time.Millisecond, RandomizationFactor: 0.2, Multiplier: 2,
		MaxInterval: 10 * time.Second}
	pause.Reset()
	for e != nil {
		since := time.Now()
		s.tell(State{Phase: Ready, Pid: e.Pid()})
		silent, unwatch := e.watch()
		var mute error
		select {
		case <-run.Done():
			unwatch()
			s.tell(State{Phase: Stopping, Pid: e.Pid()})
			s.mu.Lock()
			ctx := s.stopCtx
			s.mu.Unlock()
			s.tell(State{Phase: Stopped, Err: e.Stop(ctx)})
			return
		case <-e.Done():
		case mute = <-silent:
			s.tell(State{Phase: Down, Pid: e.Pid(), Err: mute})
			_ = syscall.Kill(e.Pid(), syscall.SIGKILL) // an engine that does not answer does not end in order either
			<-e.Done()
		}
		unwatch()
		if time.Since(since) > steadyAfter {
			pause.Reset()
		}
		err := e.Err()
		if mute != nil {
			err = mute
		} else if err == nil {
			err = fmt.Errorf("engine: child %d ended unasked: %s", e.Pid(), e.said())
		}
		e = s.restart(run, pause, err)
	}
	s.tell(State{Phase: Stopped})
}

// restart starts engines until one answers; nil means that Stop came first. The first restart
// after a death does not wait: Start waits for the folder's lock by itself.
func (s *Supervisor) restart(run context.Context, pause *backoff.ExponentialBackOff, why error) *Engine {
	for {
		wait := pause.NextBackOff()
		s.tell(State{Phase: Down, Wait: wait, Err: why})
		select {
		case <-run.Done():
			return nil
		case <-time.After(wait):
		}
		s.restarts++
		e, err := Start(run, s.cfg)
		if err == nil {
			s.mu.Lock()
			s.engine = e
			s.mu.Unlock()
			return e
		}
		if run.Err() != nil {
			return nil
		}
		why = err
	}
}

func (s *Supervisor) tell(state State) {
	state.Restarts = s.restarts
	s.mu.Lock()
	s.state = state
	s.mu.Unlock()
	switch state.Phase {
	case Down:
		if state.Pid != 0 {
			s.log.Warn("engine down, killing it", "err", state.Err, "pid", state.Pid)
			break
		}
		s.log.Warn("engine down, starting it again", "err", state.Err, "in", state.Wait.Round(time.Millisecond), "restarts", state.Restarts)
	case Stopped:
		s.log.Info("engine stopped", "err", state.Err)
	default:
		s.log.Info("engine "+state.Phase.String(), "pid", state.Pid, "http", s.cfg.HTTPPort, "tcp", s.cfg.TCPPort, "restarts", state.Restarts)
	}
	s.onState(state)
}
