package service

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/warpline/warpline/query/tenantsql"
	"github.com/warpline/warpline/sink/engine"
)

func (s *Stack) startEngine(ctx context.Context) error {
	if s.cfg.ClickHouse.Native != "" {
		s.Server = s.cfg.ClickHouse
		s.Reader = s.Server
		return nil
	}
	e, err := engine.Supervise(ctx, engine.Config{
		Dir: s.Dir.File("clickhouse"), Secrets: s.Dir.Path, Readable: s.cfg.ClickHouse.Database,
		HTTPPort: s.cfg.EngineHTTP, TCPPort: s.cfg.EngineTCP, MemoryLimitBytes: s.cfg.EngineMemory,
		Slots: tenantsql.Names(s.cfg.Sources.Schema, s.cfg.ClickHouse.Database, s.cfg.SQLTenants), NoReader: s.cfg.NoOpenSQL,
		Progress: s.cfg.Progress, Logger: slog.New(onlyFirst{s.cfg.Log.Handler()}),
	}, engineWatch(s.cfg.Log))
	if err != nil {
		text := err.Error()
		for port, flag := range map[string]string{"HTTP port": "--clickhouse-http-port", "native port": "--clickhouse-tcp-port"} {
			if strings.Contains(text, port) {
				return fmt.Errorf("%w (%s)", err, flag)
			}
		}
		return err
	}
	s.engine = e
	x := e.Engine()
	s.Server = ClickHouse{
		Native: x.TCPAddr(), HTTP: x.HTTPAddr(), User: x.User(), Password: x.Password(), Database: s.cfg.ClickHouse.Database,
	}
	s.Server.PasswordFile = s.Dir.File(engine.WriterSecret)
	s.Reader = s.Server
	if s.cfg.NoOpenSQL {
		return nil
	}
	s.Reader.User, s.Reader.Password, s.Reader.PasswordFile = engine.Reader, x.ReaderPassword(), s.Dir.File(engine.ReaderSecret)
	return nil
}

// engineWatch says once that the engine went down and once that it is back. It hears of every change, since an engine can be down
// and up again between two looks.
func engineWatch(log *slog.Logger) func(engine.State) {
	var down time.Time // only the supervisor's goroutine calls
	return func(st engine.State) {
		switch {
		case st.Phase == engine.Down && down.IsZero():
			down = time.Now()
			log.Warn("trouble: the ClickHouse engine is down and is being started again; rows wait in NATS", "why", firstLine(st.Err))
		case st.Phase == engine.Ready && !down.IsZero():
			log.Info("over: the ClickHouse engine answers again", "after", time.Since(down).Round(100*time.Millisecond), "pid", st.Pid)
			down = time.Time{}
		}
	}
}

// onlyFirst lets a supervisor's engine speak until it is up: from then on the watch tells what changed, once.
type onlyFirst struct{ slog.Handler }

func (h onlyFirst) Handle(ctx context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "engine down") || strings.HasPrefix(r.Message, "engine ready") ||
		strings.HasPrefix(r.Message, "engine stop") {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h onlyFirst) WithAttrs(a []slog.Attr) slog.Handler { return onlyFirst{h.Handler.WithAttrs(a)} }
func (h onlyFirst) WithGroup(name string) slog.Handler   { return onlyFirst{h.Handler.WithGroup(name)} }
