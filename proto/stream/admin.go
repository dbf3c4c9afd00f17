package stream

// KindAdmin is what an administrator changed: Admin says it. It has neither a body nor a session. There are two of one change, before it
// and after it, with one id: so that none is made of which there is no word, and what a kill interrupted is known to be in doubt.
const KindAdmin Kind = "admin"

// AdminToken is in the subject of KindAdmin in place of a session's token, and NoTenantToken in place of the tenant: a deletion of all that
// a tenant has sent does not take them.
const (
	AdminToken    = "admin"
	NoTenantToken = "_"
)

// AdminChange is one change by an administrator. It has no secrets.
type AdminChange struct {
	ID      string `json:"id"`
	At      int64  `json:"at"`  // nanoseconds since the epoch
	Who     string `json:"who"` // id of a key, or cli, or file
	Action  string `json:"action"`
	Object  string `json:"object,omitempty"`
	Change  string `json:"change,omitempty"` // JSON: by field, what was and what is
	Outcome string `json:"outcome"`          // see the constants
}

// Outcomes of a change.
const (
	AdminBegun  = "begun"
	AdminDone   = "done"
	AdminFailed = "failed" // nothing was changed
)
