package stream

import "fmt"

// Retain asks the sinks to give the rows that a tenant has another retention class. It is in DeletionsBucket.
type Retain struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant"`
	Class  string `json:"class"` // for people; the days count
	Raw    uint16 `json:"raw_days"`
	Rollup uint16 `json:"rollup_days"`
}

// RetainKey is where the request of a tenant is.
func RetainKey(tenant string) string { return retainPrefix + tenant }

// RetainKeys selects all requests.
const RetainKeys = retainPrefix + "*"

const retainPrefix = "retain."

// RetainProgressKey is where a lane of the sink says how far it is.
func RetainProgressKey(tenant string, lane int) string {
	return fmt.Sprintf("%s%s.%d", retainPrefix, tenant, lane)
}

// RetainProgress is how far a lane is with a request.
type RetainProgress struct {
	ID    string            `json:"id"` // of the request
	Done  bool              `json:"done,omitempty"`
	Moved map[string]uint64 `json:"moved,omitempty"` // rows by table
	Why   string            `json:"why,omitempty"`   // what keeps it from getting on
	// Begun is when the lane saw the request, ns since the epoch. Bounds are the newest chunks, by partition of ROWS, that it had inserted
	// when it began to move: it ends when none of their rows is in another class.
	Begun  int64          `json:"begun,omitempty"`
	Bounds map[int]uint64 `json:"bounds,omitempty"`
	// Unit is what is being moved.
	Unit *RetainUnit `json:"unit,omitempty"`
}

// RetainUnit is what a lane moves at once: rows of one table and ClickHouse partition.
type RetainUnit struct {
	Table string `json:"table"`
	Day   int32  `json:"day"` // of the ClickHouse partition
	From  uint16 `json:"from"`
	To    uint16 `json:"to"`
	Today int32  `json:"today"` // when it began
	Nonce uint64 `json:"nonce"` // names it in the ledger
	// Rows and Amount are what leaves the old ClickHouse partition, Copied and CopiedAmount what comes to the new one: rows that would
	// expire there at once are not copied. Before and BeforeAmount are what the new one had of the tenant before.
	Rows         uint64 `json:"rows"`
	Amount       uint64 `json:"amount"`
	Copied       uint64 `json:"copied"`
	CopiedAmount uint64 `json:"copied_amount"`
	Before       uint64 `json:"before"`
	BeforeAmount uint64 `json:"before_amount"`
}
