package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/stream"
)

// ConnectConfig says how to reach NATS.
type ConnectConfig struct {
	// URL is the server list ("nats://host:4222,nats://other:4222"); ignored when Server is set.
	URL string
	// Server connects in process to an embedded server: a *server.Server, or a *Supervisor, whose restarts it survives.
	Server nats.InProcessConnProvider
	// Token is the server's, when Server wants one; in a URL it stands before the host: nats://token@host:port.
	Token string
	// Name shows up in the server's connection list.
	Name string
	// CredentialsFile is a NATS .creds file; "" for none.
	CredentialsFile string
	Logger          *slog.Logger
}

// Connect connects, and reconnects for ever; it waits for the first connection until ctx ends. It fails when the server's max_payload is
// too small for a part or chunk. The caller closes the connection.
func Connect(ctx context.Context, cfg ConnectConfig) (*nats.Conn, jetstream.JetStream, error) {
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	opts := []nats.Option{
		nats.Name(cfg.Name), nats.MaxReconnects(-1), nats.ReconnectWait(250 * time.Millisecond), nats.Timeout(2 * time.Second),
		nats.PingInterval(10 * time.Second), nats.MaxPingsOutstanding(3),
		// While disconnected a publish must fail at once (the caller decides what that means), not wait in a buffer.
		nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("nats disconnected", "err", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info("nats reconnected") }),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrSlowConsumer) {
				log.Warn("nats slow consumer", "subject", sub.Subject)
				return
			}
			log.Debug("nats async error", "err", err)
		}),
	}
	url := cfg.URL
	if cfg.Server != nil {
		opts = append(opts, nats.InProcessServer(cfg.Server))
		url = ""
	}
	if cfg.Token != "" {
		opts = append(opts, nats.Token(cfg.Token))
	}
	if cfg.CredentialsFile != "" {
		opts = append(opts, nats.UserCredentials(cfg.CredentialsFile))
	}
	nc, err := dial(ctx, url, opts, log)
	if err != nil {
		return nil, nil, err
	}
	if n := nc.MaxPayload(); n < stream.MaxPayloadBytes {
		nc.Close()
		return nil, nil, fmt.Errorf("nats max_payload is %d bytes and must be at least %d: set max_payload: 8MB in the server's configuration",
			n, stream.MaxPayloadBytes)
	}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(256), jetstream.WithDefaultTimeout(10*time.Second))
	if err != nil {
		nc.Close()
		return nil, nil, fmt.Errorf("jetstream: %w", err)
	}
	return nc, js, nil
}

// Disconnected reports whether err says that the connection to NATS is down, rather than that NATS refused something.
func Disconnected(err error) bool {
	return errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrDisconnected) || errors.Is(err, nats.ErrNoServers) ||
		errors.Is(err, nats.ErrConnectionReconnecting) || errors.Is(err, nats.ErrReconnectBufExceeded)
}

func dial(ctx context.Context, url string, opts []nats.Option, log *slog.Logger) (*nats.Conn, error) {
	warned := false
	for {
		nc, err := nats.Connect(url, opts...)
		if err == nil {
			return nc, nil
		}
		if !warned {
			log.Warn("nats not reachable yet, retrying", "url", redact(url), "err", err)
			warned = true
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("nats at %s: %w: start it, or point --nats at one", redact(url), err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// redact removes what stands before the hosts of a server list: tokens and passwords must not be in logs.
func redact(list string) string {
	urls := strings.Split(list, ",")
	for i, u := range urls {
		if at := strings.LastIndexByte(u, '@'); at >= 0 {
			scheme, _, _ := strings.Cut(u, "://")
			urls[i] = scheme + "://***" + u[at:]
		}
	}
	return strings.Join(urls, ",")
}
