package admin

import (
	"fmt"
	"net/http"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/tenant"
)

// Usage is a row of the view usage: what a tenant sent on a day, of a source.
type Usage struct {
	Tenant      string `json:"tenant"`
	Day         string `json:"day"`
	Source      string `json:"source"`
	Events      uint64 `json:"events"`
	Bytes       uint64 `json:"bytes"`
	StoredBytes uint64 `json:"stored_bytes"`
	Rejected    uint64 `json:"rejected"`
	Duplicates  uint64 `json:"duplicates"`
}

type usageList struct {
	Usage []Usage `json:"usage"`
}

const (
	usageDays     = 30  // by default
	usageMostDays = 400 // more than rollups are kept by default
)

var noClickHouse = &ingest.Refusal{Status: http.StatusServiceUnavailable, Code: "no_clickhouse",
	Detail: "this gateway was not told where ClickHouse is: the operator starts it with --clickhouse"}

func clickHouseAway(err error) *ingest.Refusal {
	return &ingest.Refusal{Status: http.StatusServiceUnavailable, Code: "clickhouse_away", RetryAfter: retry,
		Detail: "ClickHouse does not answer: ask again in a few seconds", Cause: err}
}

// ask connects to ClickHouse. The caller closes the connection.
func (c *call) ask() (driver.Conn, error) {
	if c.api.Open == nil {
		return nil, noClickHouse
	}
	conn, err := c.api.Open(c.ctx)
	if err != nil {
		return nil, clickHouseAway(err)
	}
	return conn, nil
}

func (c *call) showUsage() (any, error) {
	of := c.vars["tenant"]
	if !c.who.sees(of) || tenant.CheckName(of) != nil {
		return nil, NoTenant(of)
	}
	now := time.Now().UTC()
	days := [2]time.Time{now.AddDate(0, 0, -usageDays+1), now}
	for i, name := range []string{"from", "to"} {
		if text := c.param(name); text != "" {
			day, err := time.Parse(time.DateOnly, text)
			if err != nil {
				return nil, bad(fmt.Errorf("%s: %.40q: use a day as 2026-11-20", name, text))
			}
			days[i] = day
		}
	}
	from, to := days[0].Format(time.DateOnly), days[1].Format(time.DateOnly)
	if between := days[1].Sub(days[0]); from > to || between > usageMostDays*24*time.Hour {
		return nil, bad(fmt.Errorf("from, to: %s to %s: ask for 1 to %d days", from, to, usageMostDays))
	}
	conn, err := c.ask()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	rows, err := conn.Query(c.ctx, fmt.Sprintf("SELECT toString(tenant), toString(day), toString(source), sum(events), sum(bytes), "+
		"sum(stored_bytes), sum(rejected), sum(duplicates) FROM `%s`.usage WHERE tenant = ? AND day >= toDate(?) AND day <= toDate(?) "+
		"GROUP BY tenant, day, source ORDER BY day, source LIMIT 10000", c.api.Database), of, from, to)
	if err != nil {
		return nil, fmt.Errorf("read usage: %w", err)
	}
	defer rows.Close()
	out := usageList{[]Usage{}}
	for rows.Next() {
		var u Usage
		if err := rows.Scan(&u.Tenant, &u.Day, &u.Source, &u.Events, &u.Bytes, &u.StoredBytes, &u.Rejected, &u.Duplicates); err != nil {
			return nil, fmt.Errorf("read usage: %w", err)
		}
		out.Usage = append(out.Usage, u)
	}
	return out, rows.Err()
}
