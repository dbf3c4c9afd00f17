package service

import (
	"context"
	"fmt"

	"github.com/warpline/warpline/broker"
)

func (s *Stack) startNATS(ctx context.Context) error {
	bc := broker.ConnectConfig{URL: s.cfg.NATS.URL, CredentialsFile: s.cfg.NATS.CredentialsFile, Name: "warpline up", Logger: s.cfg.Log}
	layout := s.cfg.Layout
	s.natsURL, s.NATSAddr = s.cfg.NATS.URL, s.cfg.NATS.URL
	if s.natsURL == "" {
		fitted, store, err := fitStore(s.Dir.File("nats"), layout, s.cfg.StoreMax)
		if err != nil {
			return err
		}
		layout = fitted
		// Sizes that were scaled to the disk are nobody's wish.
		layout.Lower = layout.Lower && (s.cfg.StoreMax > 0 || layout == s.cfg.Layout)
		s.cfg.Layout = layout
		token, err := s.Dir.secret("nats-token")
		if err != nil {
			return err
		}
		server := broker.ServerConfig{
			Dir: s.Dir.File("nats"), Listen: s.cfg.NATSListen, MaxStoreBytes: store, Fsync: s.cfg.Fsync, Token: token, Logger: s.cfg.Log,
		}
		s.natsSync = server.Sync()
		s.nats, err = broker.Supervise(server)
		if err != nil {
			return err
		}
		bc.Server, bc.Token = s.nats, token
		if a := s.nats.Addr(); a != nil {
			s.natsURL, s.NATSAddr = "nats://"+token+"@"+a.String(), "nats://"+a.String()
		}
	}
	nc, js, err := broker.Connect(ctx, bc)
	if err != nil {
		return Unreachable{err}
	}
	s.nc = append(s.nc, nc)
	layout.Logger = s.cfg.Log
	s.Streams, err = broker.Open(ctx, nc, js, layout)
	if err != nil {
		return fmt.Errorf("open the streams: %w", err)
	}
	if s.nats != nil {
		s.Streams.Barrier = broker.NewBarrier(s.Dir.File("nats")).Sync
		if err := s.Streams.Durable(ctx); err != nil { // the streams that were made or changed just now
			return err
		}
	}
	for _, of := range []struct {
		name string
		to   **broker.Streams
	}{{"sink", &s.ofSink}, {"worker", &s.ofWorker}, {"uploads", &s.ofUploads}} {
		bc.Name = "warpline up, " + of.name
		nc, js, err := broker.Connect(ctx, bc)
		if err != nil {
			return Unreachable{err}
		}
		s.nc = append(s.nc, nc)
		if *of.to, err = s.Streams.Over(ctx, nc, js); err != nil {
			return fmt.Errorf("open the streams: %w", err)
		}
	}
	s.flow = newFlow(s.Streams)
	s.keeperRole = startRole("keeper", s.failed, func(ctx context.Context) error {
		go s.syncRemade(ctx)
		s.Streams.Keep(ctx, broker.KeeperConfig{Registerer: s.reg, Hold: s.refuse})
		return nil
	})
	return nil
}

// syncRemade makes the descriptions of streams durable that were made anew: a power cut must not take them again. What fails is tried again
// before the next span is inserted.
func (s *Stack) syncRemade(ctx context.Context) {
	changed, end := s.Streams.RemadeChanged()
	defer end()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			if err := s.Streams.Durable(ctx); err != nil && ctx.Err() == nil {
				s.cfg.Log.Warn("streams that were made anew are not on disk yet", "err", err)
			}
		}
	}
}

// refuse is why nothing can be stored, "" when everything can: uploads are answered 503 at once, instead of after a time-out each.
func (s *Stack) refuse() string {
	if s.nats == nil {
		return ""
	}
	if why := s.nats.Stuck(); why != "" {
		return "NATS cannot store and is started again by itself: " + why
	}
	return ""
}
