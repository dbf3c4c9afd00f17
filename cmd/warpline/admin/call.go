package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/table"
)

// call is one request while it is answered.
type call struct {
	api  *API
	ctx  context.Context
	w    http.ResponseWriter
	r    *http.Request
	who  Who
	vars map[string]string // of the path
	body []byte
	// Of the answer; status 0 is the route's.
	etag   string
	status int
}

// revision is that of If-Match, 0 where none is given. What is not one of ours matches nothing.
func (c *call) revision() (uint64, error) {
	text := strings.TrimSpace(strings.Join(c.r.Header.Values("If-Match"), ","))
	if text == "" || text == "*" {
		return anyRevision, nil
	}
	n, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(text, `"`), `"`), 10, 64)
	if err != nil || n == 0 || tag(n) != text {
		return 0, &Denied{http.StatusPreconditionFailed, "changed",
			"If-Match has not the ETag of what is there: ask for it again, and use its ETag"}
	}
	return n, nil
}

// tag is a revision as an ETag.
func tag(revision uint64) string { return `"` + strconv.FormatUint(revision, 10) + `"` }

// at makes a revision the ETag of the answer.
func (c *call) at(revision uint64) {
	if revision != 0 {
		c.etag = tag(revision)
	}
}

// known returns an error that names a parameter of the query that the route does not have: whoever misspells one must not be told about
// all.
func (c *call) known(to *route) error {
	all, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return bad(fmt.Errorf("the query of the address cannot be read: %w", err))
	}
	for name, values := range all {
		switch {
		case len(to.query) == 0:
			return bad(fmt.Errorf("%.60q is no parameter here: there are none", name))
		case !slices.Contains(to.query, name):
			return bad(fmt.Errorf("%.60q is no parameter here: use %s", name, strings.Join(to.query, ", ")))
		case len(values) > 1:
			return bad(fmt.Errorf("parameter %s stands twice", name))
		}
	}
	return nil
}

// param is a parameter of the query, "" if it is not there.
func (c *call) param(name string) string { return c.r.URL.Query().Get(name) }

// number is a parameter from 1 to most, or a default.
func (c *call) number(name string, or, most int) (int, error) {
	text := c.param(name)
	if text == "" {
		return or, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, bad(fmt.Errorf("%s: %.20q: use a number from 1 to %d", name, text, most))
	}
	return n, nil
}

// moment is a parameter that is a time, zero if it is not there.
func (c *call) moment(name string) (time.Time, error) {
	text := c.param(name)
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, bad(fmt.Errorf("%s: %.40q: use a time as 2026-11-20T12:00:00Z", name, text))
	}
	return t, nil
}

// dayOf reads a day, in days since the epoch; "" is 0.
func dayOf(name, text string) (int32, error) {
	if text == "" {
		return 0, nil
	}
	day, err := time.Parse(time.DateOnly, text)
	if err != nil || day.Year() <= 1970 || day.Year() >= 2106 {
		return 0, fmt.Errorf("%s: %.40q: use a day as 2026-11-20", name, text)
	}
	return table.DayOf(day.UnixNano()), nil
}

// scope is what is looked at or repaired: for an administrator what is its tenant's.
func (c *call) scope(of, from, to string) (s sink.Scope, err error) {
	var errs [2]error
	s.From, errs[0] = dayOf("from", from)
	s.To, errs[1] = dayOf("to", to)
	if err := errors.Join(errs[:]...); err != nil {
		return s, bad(err)
	}
	if s.From > 0 && s.To > 0 && s.From > s.To {
		return s, bad(errors.New("from is after to: exchange them"))
	}
	if s.Tenant = of; of == "" && !c.who.all {
		s.Tenant = c.who.key.Tenant
	}
	if s.Tenant != "" && (!c.who.sees(s.Tenant) || tenant.CheckName(s.Tenant) != nil) {
		return s, NoTenant(s.Tenant)
	}
	return s, nil
}

// truth is a parameter that is true or false, false if it is not there.
func (c *call) truth(name string) (bool, error) {
	switch text := c.param(name); text {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, bad(fmt.Errorf("%s: %.20q: use true or false", name, text))
	}
}

// Bounds of lists.
const (
	pageDefault = 100
	pageMost    = 1000
)

// page cuts from a list, which is sorted by name, what follows the parameter after, and returns the name to go on after, "" at the end. Of
// equal names none is left for the next page.
func page[T any](c *call, all []T, name func(*T) string) ([]T, string, error) {
	limit, err := c.number("limit", pageDefault, pageMost)
	if err != nil {
		return nil, "", err
	}
	after := c.param("after")
	begin := 0
	for begin < len(all) && after != "" && name(&all[begin]) <= after {
		begin++
	}
	all = all[begin:]
	if len(all) <= limit {
		return all, "", nil
	}
	last := name(&all[limit-1])
	for limit < len(all) && name(&all[limit]) == last {
		limit++
	}
	if limit == len(all) {
		return all, "", nil
	}
	return all[:limit], last, nil
}
