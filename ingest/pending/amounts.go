// Package pending adds up what tenants have on its way into SQL at all gateways, and has what gateways tell each other of it.
package pending

import (
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/warpline/warpline/ingest/peers"
)

// tellEvery is how often others are told.
const tellEvery = 250 * time.Millisecond

// Amount is what a tenant has on its way from one gateway.
type Amount struct {
	Bytes int64 `json:"bytes"`          // of parts, before compression
	Took  int64 `json:"took,omitempty"` // of INGEST; older gateways do not tell it
	// Ends are up to which sequences of INGEST it goes, by partition: what a gateway that has ended had on its way is in SQL once all of
	// these are.
	Ends map[int]uint64 `json:"ends,omitempty"`
}

// Amounts are what tenants have on their way from other gateways, and this one's as far as it tells. Make it with New. It is safe for
// concurrent use.
type Amounts struct {
	own func() map[string]Amount

	mu      sync.Mutex
	told    map[string]int64              // bytes of this gateway's, as it last told them; -1: to be told again
	tellAt  time.Time                     // next
	heard   map[string]map[string]*amount // by tenant and gateway
	reached map[int]uint64                // up to where partitions are in SQL
}

type amount struct {
	Amount
	at time.Time // when it was heard
}

// New returns no amounts of others. own says what this gateway has to tell, by tenant.
func New(own func() map[string]Amount) *Amounts {
	return &Amounts{own: own, told: map[string]int64{}, heard: map[string]map[string]*amount{}, reached: map[int]uint64{}}
}

// Of returns how many bytes a tenant has on its way from other gateways.
func (a *Amounts) Of(tenant string) (bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, of := range a.heard[tenant] {
		bytes += of.Bytes
	}
	return bytes
}

// Took returns how much of INGEST that takes.
func (a *Amounts) Took(tenant string) (bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, of := range a.heard[tenant] {
		bytes += of.Took
	}
	return bytes
}

// Reached says up to where a partition is in SQL. What goes no further is not on its way any more, whoever sent it.
func (a *Amounts) Reached(partition int, seq uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	anew := seq < a.reached[partition] // the stream is another: what was noted of the old one is gone
	a.reached[partition] = seq
	for _, by := range a.heard {
		for _, of := range by {
			if end, ok := of.Ends[partition]; ok && (end <= seq || anew) {
				delete(of.Ends, partition)
				if len(of.Ends) == 0 {
					of.Bytes, of.Took = 0, 0
				}
			}
		}
	}
}

// Tell implements peers.Told.
func (a *Amounts) Tell(now time.Time) (all []peers.Set) {
	a.mu.Lock()
	wait := now.Before(a.tellAt)
	a.mu.Unlock()
	if wait {
		return nil
	}
	own := a.own() // which has a lock of its own
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tellAt = now.Add(tellEvery)
	for tenant, of := range own {
		if told, ok := a.told[tenant]; ok && told == of.Bytes {
			continue
		}
		value, err := json.Marshal(of)
		if err != nil {
			continue // it is numbers alone
		}
		all = append(all, peers.Set{Tenant: tenant, Value: value})
		a.told[tenant] = of.Bytes
	}
	for tenant := range a.told {
		if _, still := own[tenant]; !still {
			all = append(all, peers.Set{Tenant: tenant})
			delete(a.told, tenant)
		}
	}
	return all
}

// Untold implements peers.Told.
func (a *Amounts) Untold(tenant string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told[tenant] = -1
}

// Heard implements peers.Told.
func (a *Amounts) Heard(now time.Time, set peers.Set) error {
	of := &amount{at: now}
	if set.Value != nil {
		if err := json.Unmarshal(set.Value, &of.Amount); err != nil {
			return fmt.Errorf("bytes on their way: %w", err)
		}
		if of.Bytes < 0 || of.Took < 0 {
			return fmt.Errorf("bytes on their way: %d, which take %d", of.Bytes, of.Took)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(of.Ends, func(partition int, seq uint64) bool { return seq <= a.reached[partition] })
	if by := a.heard[set.Tenant]; by == nil && set.Value != nil {
		a.heard[set.Tenant] = map[string]*amount{set.Gateway: of}
	} else if set.Value != nil {
		by[set.Gateway] = of
	} else if delete(by, set.Gateway); len(by) == 0 {
		delete(a.heard, set.Tenant)
	}
	return nil
}

// Are implements peers.Told.
func (a *Amounts) Are(there map[[2]string]bool, self string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for tenant := range a.told {
		if !there[[2]string{tenant, self}] {
			a.told[tenant] = -1
		}
	}
	for tenant, by := range a.heard {
		maps.DeleteFunc(by, func(gateway string, _ *amount) bool { return !there[[2]string{tenant, gateway}] })
		if len(by) == 0 {
			delete(a.heard, tenant)
		}
	}
}

// silent is after how long what a gateway said is looked at as that of one that has ended.
const silent = time.Minute

// Sweep implements peers.Told. What a gateway that has ended had on its way stays until it is in SQL; what it had not had acknowledged, of
// which no sequence is known, does not.
func (a *Amounts) Sweep(now time.Time) (empty []peers.Set) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for tenant, by := range a.heard {
		for gateway, of := range by {
			if len(of.Ends) == 0 && now.Sub(of.at) >= silent {
				delete(by, gateway)
				empty = append(empty, peers.Set{Tenant: tenant, Gateway: gateway})
			}
		}
		if len(by) == 0 {
			delete(a.heard, tenant)
		}
	}
	return empty
}
