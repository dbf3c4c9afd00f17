package broker

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Supervisor keeps an embedded NATS server able to store. After one failed write (a full disk, no file descriptors left) a stream of it
// refuses everything until the server is started again, long after the cause has gone. A Supervisor notices and starts it again, with the
// same folder and address, as soon as the folder can be written. Its connections (ConnectConfig.Server) reconnect by themselves. Make it
// with Supervise; the caller ends it with Stop. Safe for concurrent use.
type Supervisor struct {
	cfg  ServerConfig
	log  *slog.Logger
	quit chan struct{}
	done chan struct{}

	mu       sync.Mutex
	srv      *server.Server // nil while it is being started again
	addr     net.Addr
	stuck    string
	restarts int
}

const (
	// superviseEvery is how often the server's streams are looked at.
	superviseEvery = 500 * time.Millisecond
	// unrecovered is how long a stream may be in the folder and not in the server: while a stream is deleted that is so for a moment.
	unrecovered = 5 * time.Second
	// restartWait and restartMost bound the wait before the next restart while restarts do not help.
	restartWait, restartMost = time.Second, 20 * time.Second
	// probeBytes is what must be writable before a restart is worth it: a server that starts on a full disk gets stuck again.
	probeBytes, probeFiles = 16 << 20, 16
)

// Supervise starts the server as Serve does and looks after it until Stop.
func Supervise(cfg ServerConfig) (*Supervisor, error) {
	srv, err := Serve(cfg)
	if err != nil {
		return nil, err
	}
	s := &Supervisor{cfg: cfg, log: cfg.Logger, srv: srv, addr: srv.Addr(), quit: make(chan struct{}), done: make(chan struct{})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.addr != nil {
		s.cfg.Listen = s.addr.String() // the same port again, also where any was asked for
	}
	go s.loop()
	return s, nil
}

// InProcessConn connects to the server that runs now. It fails while there is none; clients try again.
func (s *Supervisor) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	srv := s.srv
	s.mu.Unlock()
	if srv == nil {
		return nil, errors.New("the embedded NATS is being started again")
	}
	return srv.InProcessConn()
}

// Addr is where the server listens, nil when it does not. It stays the same over restarts.
func (s *Supervisor) Addr() net.Addr { return s.addr }

// Stuck says in words why the server cannot store everything that it is given, "" when it can.
func (s *Supervisor) Stuck() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stuck
}

// Restarts is how often the server was started again.
func (s *Supervisor) Restarts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restarts
}

// Stop ends the server and waits until it is gone.
func (s *Supervisor) Stop() {
	close(s.quit)
	<-s.done
	s.mu.Lock()
	srv := s.srv
	s.srv = nil
	s.mu.Unlock()
	end(srv)
}

func end(srv *server.Server) {
	if srv != nil {
		srv.Shutdown()
		srv.WaitForShutdown()
	}
}

func (s *Supervisor) loop() {
	defer close(s.done)
	tick := time.NewTicker(superviseEvery)
	defer tick.Stop()
	wait := restartWait
	var last, missing time.Time // the last restart; since when a stream is not recovered
	for {
		select {
		case <-s.quit:
			return
		case <-tick.C:
		}
		s.mu.Lock()
		srv := s.srv
		s.mu.Unlock()
		why, lost := "the server did not start again", ""
		if srv != nil {
			why, lost = ailment(srv, s.cfg.Dir)
		}
		switch {
		case lost == "":
			missing = time.Time{}
		case missing.IsZero():
			missing = time.Now()
		}
		if why == "" && lost != "" && time.Since(missing) > unrecovered {
			why = lost
		}
		if why == "" {
			s.setStuck("")
			if time.Since(last) > time.Minute {
				wait = restartWait
			}
			continue
		}
		if s.setStuck(why) {
			s.log.Error("NATS cannot store and is started again as soon as its folder can be written", "why", why)
		}
		if err := probe(s.cfg.Dir); err != nil {
			s.setStuck(why + "; not started again yet: " + err.Error())
			continue
		}
		if time.Since(last) < wait {
			continue
		}
		if srv != nil { // without descriptors ailment cannot say whether something failed
			if now, gone := ailment(srv, s.cfg.Dir); now == "" && gone == "" {
				continue
			}
		}
		last, wait = time.Now(), min(2*wait, restartMost)
		s.restart(srv)
	}
}

// restart ends the server and starts another. A start that fails is tried again by the loop.
func (s *Supervisor) restart(old *server.Server) {
	began := time.Now()
	s.mu.Lock()
	s.srv = nil
	s.restarts++
	s.mu.Unlock()
	end(old)
	srv, err := Serve(s.cfg)
	if err != nil {
		s.log.Error("NATS did not start again", "err", err)
		return
	}
	s.mu.Lock()
	s.srv = srv
	s.mu.Unlock()
	s.log.Info("NATS was started again", "took", time.Since(began).Round(time.Millisecond))
}

// setStuck reports whether why has changed.
func (s *Supervisor) setStuck(why string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	news := s.stuck == "" && why != ""
	s.stuck = why
	return news
}

// ailment says which streams failed to write (or that JetStream has ended), and which are in the folder and not in the server.
func ailment(srv *server.Server, dir string) (failed, lost string) {
	if f, err := os.Open(dir); err != nil {
		return "its folder cannot be read: " + err.Error(), "" // the server's own check would see no streams and report that all is well
	} else {
		f.Close()
	}
	var bad, gone []string
	for _, e := range srv.Healthz(&server.HealthzOptions{Details: true}).Errors {
		switch {
		case strings.Contains(e.Error, "write error"), e.Type == server.HealthzErrorJetStream:
			bad = append(bad, e.Error)
		case e.Type == server.HealthzErrorStream:
			gone = append(gone, e.Error)
		}
	}
	sort.Strings(bad)
	sort.Strings(gone)
	return strings.Join(bad, "; "), strings.Join(gone, "; ")
}

// probe returns an error when the folder cannot be written or files cannot be opened.
func probe(dir string) error {
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	for range probeFiles {
		f, err := os.CreateTemp(dir, ".probe-*")
		if err != nil {
			return fmt.Errorf("its folder cannot be written: %w", err)
		}
		files = append(files, f)
	}
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(i * 7) // zeros might take no room
	}
	for range probeBytes / len(block) {
		if _, err := files[0].Write(block); err != nil {
			return fmt.Errorf("its folder cannot be written: %w: make room on the volume of %s", err, dir)
		}
	}
	if err := files[0].Sync(); err != nil {
		return fmt.Errorf("its folder cannot be written: %w: make room on the volume of %s", err, dir)
	}
	return nil
}
