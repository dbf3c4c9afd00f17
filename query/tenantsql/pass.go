package tenantsql

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// passedOn are the headers of a question that ClickHouse gets, beside Accept-Encoding. What is not here cannot name another user, role or
// quota.
var passedOn = []string{"Accept", "Content-Encoding", "Content-Type", "User-Agent", "X-ClickHouse-Format"}

// passedBack are the headers of an answer that the client gets. What is not here, like the server's name, stays.
var passedBack = []string{"Content-Disposition", "Content-Encoding", "Content-Type", "X-ClickHouse-Exception-Code",
	"X-ClickHouse-Exception-Tag", "X-ClickHouse-Format", "X-ClickHouse-Progress", "X-ClickHouse-Query-Id", "X-ClickHouse-Summary",
	"X-ClickHouse-Timezone"}

// keptBack are parameters that ClickHouse does not get: who asks is settled here, and no session may outlive a question, since the slot may
// be another tenant's by then. The last two are for inserts, and drivers send them with every question.
var keptBack = []string{"user", "password", "role", "quota_key", "session_id", "session_check", "session_timeout", "close_session",
	"async_insert", "wait_for_async_insert"}

// mostOf are bounds that tools ask for beyond what a question may have, as many seconds as they themselves wait: they get what there is.
var mostOf = map[string]int64{"max_execution_time": int64(DefaultBounds().Seconds), "max_result_rows": DefaultBounds().ResultRows,
	"max_result_bytes": DefaultBounds().ResultBytes, "max_block_size": 65536}

// parameters are those of the question, with the database of who asks. An id of a question is made theirs: that of another tenant's
// question must not be known to be in use.
func (d *Door) parameters(q url.Values, as login) url.Values {
	for _, name := range keptBack {
		q.Del(name)
	}
	if q.Has("compress") { // said once, so that ClickHouse reads it as it is read here
		q.Set("compress", map[bool]string{true: "1", false: "0"}[isNative(q.Get("compress"))])
	}
	q.Set("database", d.database(q.Get("database"), as))
	if id := q.Get("query_id"); id != "" {
		q.Set("query_id", as.user+"-"+id)
	}
	for name, most := range mostOf {
		if n, err := strconv.ParseFloat(q.Get(name), 64); err == nil && n > float64(most) {
			q.Set(name, strconv.FormatInt(most, 10))
		}
	}
	return q
}

// database is where names without a database are looked up. Tools that ask for the service's database, or for none, mean the tenant's part
// of it.
func (d *Door) database(asked string, as login) string {
	switch asked {
	case "", "default", databaseOf(d.cfg.Database):
		return as.database
	}
	return asked
}

// Codes of ClickHouse's errors, which its clients know.
const (
	codeUnknown        = 36  // BAD_ARGUMENTS
	codeQuota          = 201 // QUOTA_EXCEEDED
	codeTooMany        = 202 // TOO_MANY_SIMULTANEOUS_QUERIES
	codeAuthentication = 516 // AUTHENTICATION_FAILED
)

var codeNames = map[int]string{codeUnknown: "BAD_ARGUMENTS", codeTooMany: "TOO_MANY_SIMULTANEOUS_QUERIES", codeQuota: "QUOTA_EXCEEDED",
	codeAuthentication: "AUTHENTICATION_FAILED"}

// howToAsk is what whoever shows no key, or one that does not work, is told.
const howToAsk = "the user is the tenant, the password a key of scope read that is neither revoked nor expired: `warpline key create " +
	"TENANT --scope read` makes one"

// denied answers whoever may not ask.
func (d *Door) denied(w http.ResponseWriter, err error) {
	no := &Denied{Status: http.StatusServiceUnavailable, Why: "the keys cannot be looked up: ask again in a few seconds"}
	errors.As(err, &no)
	switch no.Status {
	case http.StatusUnauthorized: // how uploads show a key is no help here
		no = &Denied{no.Status, howToAsk}
		w.Header().Set("WWW-Authenticate", `Basic realm="warpline"`)
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "5")
	}
	d.fail(w, no.Status, codeAuthentication, no.Why)
}

// fail answers as ClickHouse says errors.
func (d *Door) fail(w http.ResponseWriter, status, code int, why string) {
	w.Header().Set("X-ClickHouse-Exception-Code", strconv.Itoa(code))
	d.say(w, status, "", fmt.Sprintf("Code: %d. DB::Exception: %s. (%s)\n", code, why, codeNames[code]))
}

func (d *Door) say(w http.ResponseWriter, status int, kind, text string) {
	if kind == "" {
		kind = "text/plain; charset=UTF-8"
	}
	w.Header().Set("Content-Type", kind)
	d.asked.WithLabelValues(statusLabel(status)).Inc()
	w.WriteHeader(status)
	_, _ = strings.NewReader(text).WriteTo(w) // a client that is gone hears nothing
}

// statuses are those of answers that have a series of their own. statusGone is that the client left before the answer.
var statuses = []int{200, 400, 401, 403, 404, 408, 422, 429, statusGone, 500, 503}

const statusGone = 499

// statusLabel keeps the number of series small.
func statusLabel(status int) string {
	if slices.Contains(statuses, status) {
		return strconv.Itoa(status)
	}
	return strconv.Itoa(status/100) + "xx"
}
