package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/query/tenantsql"
)

// WebConfig is what a web role needs. Fields without a comment are as in GatewayConfig.
type WebConfig struct {
	Listen, PathPrefix           string
	TLSCert, TLSKey, TLSClientCA string
	MetricsListen                string
	// ClickHouse has an HTTP address; its user and password are not used, since each tenant asks as its own user.
	ClickHouse ClickHouse
	// Secret is what the passwords of these users are made from.
	Secret string
	// AtOnce is how many questions ClickHouse works on at once.
	AtOnce int
}

// webPath is where tenants ask, as at a gateway.
const webPath = "/clickhouse"

// RunWeb lets tenants ask a ClickHouse server until ctx ends, then lets questions under way finish; hard ends the waiting for them.
func (a Apart) RunWeb(ctx, hard context.Context, c WebConfig) error {
	streams, closeNATS, err := a.open(ctx, "web")
	if err != nil {
		return err
	}
	defer closeNATS()
	reg := newRegistry()
	keys := ingest.NewDoorman(streams, a.Log)
	defer keys.Close()
	w := newWatcher(a.Log, reg)
	clicks := &pinged{url: c.ClickHouse.ping()}
	ready := func() error {
		if ctx.Err() != nil {
			return errStopping
		}
		return errors.Join(keys.Ready(), clicks.trouble(), readiness(w))
	}
	door := tenantsql.New(tenantsql.Config{
		Authorize: func(ctx context.Context, secret, of string) error {
			if _, no := keys.Authorize(ctx, secret, tenant.ScopeRead, of); no != nil {
				return &tenantsql.Denied{Status: no.Status, Why: no.Detail}
			}
			return nil
		},
		HTTP: c.ClickHouse.HTTP, TLS: c.ClickHouse.tls(), WebSecret: c.Secret, AtOnce: c.AtOnce, Database: c.ClickHouse.Database,
		Logger: a.Log, Registerer: reg,
	})
	front, err := ingest.NewFront(ingest.FrontConfig{Listen: c.Listen, TLSCert: c.TLSCert, TLSKey: c.TLSKey, TLSClientCA: c.TLSClientCA,
		Logger: a.Log, Registerer: reg}, webHandler(c.PathPrefix, door, ready))
	if err != nil {
		return err
	}
	metrics, err := serveMetrics(hard, c.MetricsListen, reg, ready)
	if err != nil {
		front.Close()
		return err
	}
	watch, unwatch := context.WithCancel(hard)
	defer unwatch()
	go clicks.run(watch, c.ClickHouse)
	go w.run(watch, webTroubles(streams, clicks))
	if err := awaitReady(ctx, ready); err != nil {
		front.Close()
		return err
	}
	a.Log.Info("ready", "addr", front.Addr(), "metrics", metrics, "role", "web")
	return a.serve(ctx, hard, "web", func(ctx context.Context) error { return front.Run(ctx, a.DrainTimeout) })
}

// webTroubles is what a web role looks at.
func webTroubles(s *broker.Streams, clicks *pinged) func(context.Context) map[string]string {
	return func(context.Context) map[string]string {
		t := map[string]string{}
		if st := s.Conn.Status(); st != nats.CONNECTED {
			t[natsAway] = st.String()
		}
		if err := clicks.trouble(); err != nil {
			t["tenants cannot ask in SQL"] = err.Error()
		}
		return t
	}
}

// webHandler serves the door, and whether it is open, below a prefix too.
func webHandler(prefix string, door http.Handler, ready func() error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, "not ready: "+strings.ReplaceAll(err.Error(), "\n", "; "))
			return
		}
		fmt.Fprintln(w, "ready")
	})
	prefix = strings.TrimRight(prefix, "/")
	paths := []string{webPath}
	if prefix != "" {
		paths = append(paths, prefix+webPath)
	}
	for _, path := range paths {
		mux.Handle(path, http.StripPrefix(path, door))
		mux.Handle(path+"/", http.StripPrefix(path, door))
	}
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) {
		if _, _, basic := r.BasicAuth(); basic || r.Header.Get("X-ClickHouse-User") != "" { // drivers that have no setting for a path
			door.ServeHTTP(w, r)
			return
		}
		http.Error(w, "ask at "+prefix+webPath+"/, with the tenant as user and a key of scope read as password", http.StatusNotFound)
	})
	return mux
}

// awaitReady waits for a while until a role can work. What lasts longer is told by the watch.
func awaitReady(ctx context.Context, ready func() error) error {
	late := time.NewTimer(aWhile.broken)
	defer late.Stop()
	for ready() != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-late.C:
			return nil
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// ping is where ClickHouse says that it is there, without a user.
func (s ClickHouse) ping() string {
	if s.TLS {
		return "https://" + s.HTTP + "/ping"
	}
	return "http://" + s.HTTP + "/ping"
}

// pinged knows whether ClickHouse answers.
type pinged struct {
	url  string
	away atomic.Pointer[error]
	seen atomic.Bool
}

// run asks every second until ctx ends.
func (p *pinged) run(ctx context.Context, s ClickHouse) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: s.tls()}}
	defer client.CloseIdleConnections()
	for tick := time.NewTicker(time.Second); ; {
		err := p.ask(ctx, client)
		if ctx.Err() != nil {
			tick.Stop()
			return
		}
		if err != nil {
			err = fmt.Errorf("ClickHouse at %s does not answer: %w: is this its HTTP port?", s.HTTP, err)
			p.away.Store(&err)
		} else {
			p.away.Store(nil)
		}
		p.seen.Store(true)
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

func (p *pinged) ask(ctx context.Context, client *http.Client) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return errors.New(res.Status)
	}
	return nil
}

// trouble is nil while ClickHouse answers.
func (p *pinged) trouble() error {
	if err := p.away.Load(); err != nil {
		return *err
	}
	if !p.seen.Load() {
		return errors.New("it is not known yet whether ClickHouse answers")
	}
	return nil
}
