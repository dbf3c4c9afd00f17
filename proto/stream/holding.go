package stream

import (
	"encoding/json"
	"errors"
	"fmt"
)

// HoldingSubject is where workers tell every few seconds what tenants have of what they share there, for the gateways' metrics. No stream
// takes it.
const HoldingSubject = "warpline.holding"

// Holding is what one worker tells on HoldingSubject.
type Holding struct {
	Worker string `json:"worker"` // a process
	// Tenants are those that have most, at most HoldingTenants.
	Tenants map[string]Held `json:"tenants,omitempty"`
	// Rows is how many bytes of ROWS are used, and may be; Record the same of DictionariesBucket. These are of all workers together.
	Rows   Fill `json:"rows"`
	Record Fill `json:"record"`
	// Names is how much memory for names the worker uses, and may use, and NameTenants by how many tenants that is.
	Names       Fill `json:"names"`
	NameTenants int  `json:"name_tenants"`
}

// Fill is how much of something is used, in bytes. Max 0 is that there is no bound, or that it is not known yet.
type Fill struct {
	Used int64 `json:"used"`
	Max  int64 `json:"max"`
}

// Held is what a tenant has with one worker, in bytes.
type Held struct {
	Rows   int64 `json:"rows,omitempty"`   // of ROWS, for what is not in ClickHouse yet
	Names  int64 `json:"names,omitempty"`  // of the worker's memory for names
	Record int64 `json:"record,omitempty"` // of DictionariesBucket
}

const (
	// HoldingTenants is how many tenants a worker tells of at most.
	HoldingTenants = 1024
	// maxHolding is how large a message may be that is read.
	maxHolding = 1 << 20
)

// ErrHolding is returned, wrapped, for bytes that are not a Holding.
var ErrHolding = errors.New("not what a worker tells of tenants' shares")

// ParseHolding reads a message of HoldingSubject.
func ParseHolding(data []byte) (h Holding, err error) {
	if len(data) > maxHolding {
		return h, fmt.Errorf("%d bytes: %w", len(data), ErrHolding)
	}
	if err := json.Unmarshal(data, &h); err != nil {
		return h, fmt.Errorf("%w: %w", ErrHolding, err)
	}
	bad := h.Worker == "" || len(h.Worker) > 64 || len(h.Tenants) > HoldingTenants || h.NameTenants < 0
	for _, f := range []Fill{h.Rows, h.Record, h.Names} {
		bad = bad || f.Used < 0 || f.Max < 0
	}
	for _, of := range h.Tenants {
		bad = bad || of.Rows < 0 || of.Names < 0 || of.Record < 0
	}
	if bad {
		return Holding{}, ErrHolding
	}
	return h, nil
}
