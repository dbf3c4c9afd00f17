package admin

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/warpline/warpline/cmd/warpline/rejects"
	"github.com/warpline/warpline/sink"
)

// Path is where the API is.
const Path = "/api/v1/admin/"

// route is one thing that can be asked for. The list of them is all that there is: the server is made of it, and so is openapi.json.
type route struct {
	method, path string // below Path
	does         string
	query        []string      // names of parameters, see parameters
	in           any           // what the body is, nil: none
	out          any           // what the answer is, nil: nothing
	status       int           // of the answer when it was done
	later        bool          // the answer is 202 where it is not done yet
	changes      bool          // If-Match is looked at
	open         bool          // without a key
	took         time.Duration // longest; 0 is callTime
	own          bool          // it does not take one of the turns, or does so itself
	ends         bool          // with its client
	handle       func(*call) (any, error)
}

// parameters of queries, and what they mean.
var parameters = map[string]string{
	"limit": "Most entries of the answer.", "after": "Go on after this: what next said of the list before.",
	"from": "Since then, a time; of usage a day.", "to": "Before then, a time; of usage the last day.",
	"tenant": "Of this tenant alone.", "session_id": "Of this session alone, or those that begin so.", "reason": "Of this reason alone.",
	"type": "Of this type of event alone.", "deep": "true: compare every row with the ledger. The operator alone.",
	"force":        "true: delete what nothing is known of too, also while ClickHouse is away.",
	"wait_seconds": "Longest to wait until it is carried out: 0 to 60, by default 30.",
}

var paging = []string{"limit", "after"}

var routes = []route{
	{method: http.MethodGet, path: "openapi.json",
		does: "This description. It needs no key.", out: map[string]any{}, status: 200, open: true,
		handle: (*call).showDescription},
	{method: http.MethodGet, path: "status",
		does: "How the service is, and which key asks.", out: Status{}, status: 200,
		handle: (*call).showStatus},
	{method: http.MethodGet, path: "tenants",
		does: "The tenants that have a record or a key, by name.", query: paging, out: tenantList{},
		status: 200, handle: (*call).listTenants},
	{method: http.MethodPost, path: "tenants",
		does: "Make a tenant. The operator alone.", in: tenantNew{}, out: tenantShown{}, status: 201,
		handle: (*call).createTenant},
	{method: http.MethodGet, path: "tenants/{tenant}",
		does: "A tenant, its limits, and how many valid keys it has.", out: tenantShown{}, status: 200,
		handle: (*call).showTenant},
	{method: http.MethodPatch, path: "tenants/{tenant}",
		does: "Change limits or note: what is left out stays, and null or 0 is the default " +
			"again. The operator alone.", in: tenantFields{}, out: tenantShown{}, status: 200, changes: true, handle: (*call).changeTenant},
	{method: http.MethodDelete, path: "tenants/{tenant}",
		does: "Forget the record of a tenant that has no valid key; what it sent stays. The " +
			"operator alone.", status: 204, changes: true, handle: (*call).deleteTenant},
	{method: http.MethodPost, path: "tenants/{tenant}/disable",
		does: "Refuse all that the tenant sends, within 10 s. The operator alone.",
		out:  tenantShown{}, status: 200, changes: true, handle: (*call).disableTenant},
	{method: http.MethodPost, path: "tenants/{tenant}/enable",
		does: "Take again what the tenant sends. The operator alone.", out: tenantShown{},
		status: 200, changes: true, handle: (*call).enableTenant},
	{method: http.MethodGet, path: "tenants/{tenant}/keys",
		does: "The keys of a tenant, ended ones too, by id.", query: paging, out: keyList{},
		status: 200, handle: (*call).listKeys},
	{method: http.MethodPost, path: "tenants/{tenant}/keys",
		does: "Make a key. The answer has its secret, this one time.", in: keyNew{},
		out: keyMade{}, status: 201, handle: (*call).createKey},
	{method: http.MethodGet, path: "tenants/{tenant}/usage",
		does:  "What the tenant sent, by day and source; of the last 30 days by default.",
		query: []string{"from", "to"}, out: usageList{}, status: 200, handle: (*call).showUsage},
	{method: http.MethodGet, path: "keys",
		does: "All keys that there are for you, ended ones too, by id.", query: paging, out: keyList{},
		status: 200, handle: (*call).listKeys},
	{method: http.MethodPost, path: "keys",
		does: "Make a key of the tenant that the body names, or with scope operator of none.", in: keyNew{},
		out: keyMade{}, status: 201, handle: (*call).createKey},
	{method: http.MethodGet, path: "keys/{id}",
		does: "A key, by its whole id.", out: KeyShown{}, status: 200, handle: (*call).showKey},
	{method: http.MethodPatch, path: "keys/{id}",
		does: "Change note, expiry or limits: what is left out stays, null or 0 is the default again, " +
			"and expires null is never.", in: keyFields{}, out: KeyShown{}, status: 200, changes: true, handle: (*call).changeKey},
	{method: http.MethodDelete, path: "keys/{id}",
		does: "Revoke a key, within 10 s, for good. The answer is the key.", out: KeyShown{},
		status: 200, changes: true, handle: (*call).revokeKey},
	{method: http.MethodPost, path: "keys/{id}/rotate",
		does: "Make a key like it, which works beside it for overlap_seconds (86400), and then " +
			"alone. The answer has its secret, this one time.", in: keyRotation{}, out: keyRotated{}, status: 201, changes: true,
		handle: (*call).rotateKey},
	{method: http.MethodGet, path: "rejects",
		does: "What was refused, newest first, without its bytes.", query: []string{"limit", "after",
			"tenant", "session_id", "reason", "type", "from", "to"}, out: rejectList{}, status: 200, handle: (*call).listRejects},
	{method: http.MethodGet, path: "rejects/{id}",
		does: "One reject by its whole reject_id, with the bytes that were kept.",
		out:  rejects.Reject{}, status: 200, handle: (*call).showReject},
	{method: http.MethodPost, path: "rejects/replay",
		does: "Send kept bytes again, as their tenant: what today's version reads is stored, once.",
		in:   replayOrder{}, out: replayDone{}, status: 200, took: replayTime, own: true, handle: (*call).replay},
	{method: http.MethodPost, path: "rejects/drop",
		does: "Drop rejects with their bytes, for good; what they count for in usage stays. It ends with its client, safely: what was begun " +
			"is finished.", in: dropOrder{}, out: dropDone{}, status: 200, took: repairTime, own: true, ends: true, handle: (*call).dropRejects},
	{method: http.MethodGet, path: "audit",
		does: "Whether ClickHouse holds what the tenant was given, by table and day; problems lists what is wrong, which is no error. The " +
			"operator's without tenant and days is of streams and lanes too. It ends with its client.", query: []string{"tenant", "from", "to",
			"deep"}, out: audited{}, status: 200, took: repairTime, own: true, ends: true, handle: (*call).audit},
	{method: http.MethodPost, path: "replay",
		does: "Bring rows back that ClickHouse lost and ROWS still holds. It ends with its client: what came back stays.",
		in:   restoreOrder{}, out: sink.ReplayReport{}, status: 200, took: repairTime, own: true, ends: true, handle: (*call).restore},
	{method: http.MethodDelete, path: "tenants/{tenant}/sessions/{session}",
		does:  "Delete a session: rows, what waits in the streams, names, objects. What it sends later is dropped. Write / in its id as %2F.",
		query: []string{"wait_seconds", "force"}, out: erased{}, status: 200, later: true, took: eraseTime, own: true,
		handle: (*call).deleteSession},
	{method: http.MethodPost, path: "tenants/{tenant}/purge",
		does: "Delete all that a tenant has sent so far, its books included. What it sends later is kept. The operator alone.",
		in:   purgeOrder{}, out: erased{}, status: 200, later: true, changes: true, took: eraseTime, own: true, handle: (*call).purge},
	{method: http.MethodGet, path: "tenants/{tenant}/retain",
		does: "How far the service is with giving the rows that a tenant has another retention class.", out: Retention{},
		status: 200, handle: (*call).showRetention},
	{method: http.MethodPost, path: "tenants/{tenant}/retain",
		does: "Give the rows that a tenant has a retention class; it begins some 3 minutes later. The operator alone. With dry_run the answer " +
			"has what would change.", in: retainOrder{}, out: retained{}, status: 200, later: true, changes: true, handle: (*call).retain},
}

// find returns the route of a path below Path, as it was sent, and a method, with the variables of the path, or the methods that
// the path has.
func find(method, path string) (r *route, vars map[string]string, allowed []string) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	segments := strings.Split(path, "/")
	for i, s := range segments {
		plain, err := url.PathUnescape(s)
		if err != nil {
			return nil, nil, nil
		}
		segments[i] = plain
	}
	best := -1 // a word of the path comes before a variable: rejects/replay is no id
	for i := range routes {
		have := strings.Split(routes[i].path, "/")
		if len(have) != len(segments) {
			continue
		}
		words, found := 0, map[string]string{}
		for j, s := range have {
			if name, ok := strings.CutPrefix(s, "{"); ok && segments[j] != "" {
				found[strings.TrimSuffix(name, "}")] = segments[j]
			} else if s == segments[j] {
				words++
			} else {
				words = -1
				break
			}
		}
		if words < 0 {
			continue
		}
		if words > best {
			best, r, vars, allowed = words, nil, nil, nil
		}
		if words == best {
			allowed = append(allowed, routes[i].method)
			if routes[i].method == method {
				r, vars = &routes[i], found
			}
		}
	}
	return r, vars, allowed
}
