package admin

import (
	"cmp"
	"slices"
	"time"

	"github.com/warpline/warpline/proto/tenant"
)

// Status is how the service is, and who asks.
type Status struct {
	Version  string     `json:"version"`
	Ready    bool       `json:"ready"`
	NotReady string     `json:"not_ready,omitempty"` // why
	Key      tenant.Key `json:"key"`
	Stores   []Store    `json:"stores,omitempty"` // for the operator
	// Shares are what the tenant of the key has of its limits and quotas, ReplayWindows those that were ever cut, for the operator.
	Shares        []Share        `json:"shares,omitempty"`
	ReplayWindows []ReplayWindow `json:"replay_windows,omitempty"`
}

// Share is what a tenant has of a limit or a quota of the day, by its flag.
type Share struct {
	Of    string  `json:"of"`
	Used  float64 `json:"used"`
	Limit float64 `json:"limit,omitempty"` // not there: none
}

// ReplayWindow says how far back a stream has what is settled.
type ReplayWindow struct {
	Stream   string    `json:"stream"`
	Seconds  float64   `json:"seconds"`
	Promised float64   `json:"promised_seconds"`
	CutAt    time.Time `json:"cut_at"`
	Fix      string    `json:"fix,omitempty"` // what to do where it is short
}

// Store is a stream or bucket of NATS.
type Store struct {
	Name string  `json:"name"`
	Full float64 `json:"full"` // 0 to 1
}

func (c *call) showStatus() (any, error) {
	s := Status{Version: c.api.Version, Ready: true, Key: c.who.key}
	if c.api.Ready != nil {
		if err := c.api.Ready(); err != nil {
			s.Ready, s.NotReady = false, "the service takes nothing just now"
			if c.who.all {
				s.NotReady = err.Error()
			}
		}
	}
	if c.who.all && c.api.Stores != nil {
		for name, full := range c.api.Stores() {
			s.Stores = append(s.Stores, Store{name, full})
		}
		slices.SortFunc(s.Stores, func(a, b Store) int { return cmp.Compare(a.Name, b.Name) })
	}
	if c.api.Shares != nil && c.who.key.Tenant != "" {
		for _, of := range c.api.Shares(c.who.key.Tenant) {
			s.Shares = append(s.Shares, Share{of.Of, of.Used, of.Limit})
		}
	}
	if c.api.Windows == nil || !c.who.all {
		return s, nil
	}
	windows, err := c.api.Windows(c.ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	for _, w := range windows {
		_, fix := w.Words(now)
		s.ReplayWindows = append(s.ReplayWindows, ReplayWindow{w.Stream, w.Length(now).Seconds(), w.Target, w.Since, fix})
	}
	return s, nil
}

func (c *call) showDescription() (any, error) { return c.api.description, nil }
