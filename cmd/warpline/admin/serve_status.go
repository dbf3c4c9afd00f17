package admin

import (
	"cmp"
	"slices"

	"github.com/warpline/warpline/proto/tenant"
)

// Status is how the service is, and who asks.
type Status struct {
	Version  string     `json:"version"`
	Ready    bool       `json:"ready"`
	NotReady string     `json:"not_ready,omitempty"` // why
	Key      tenant.Key `json:"key"`
	Stores   []Store    `json:"stores,omitempty"` // for the operator
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
	return s, nil
}

func (c *call) showDescription() (any, error) { return c.api.description, nil }
