package report

import (
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// stalling leaves out what is not a stall: counters of all or lost samples, and the not_issued variants, which count samples of the plain
// reasons once more.
const stalling = "reason_kind NOT IN ('sample_count', 'data_dropped', 'stall_not_issued')"

func readSamples(in *reader, r *Report) error {
	if err := readStalls(in, r); err != nil || r.Samples == 0 {
		return err
	}
	from, args := in.from("pc_stalls", stalling)
	if err := in.each(fmt.Sprintf(`SELECT f, sum(n) AS all, arraySort(x -> (-x.2, x.1), groupArray((why, n))) FROM (
			SELECT toString(function) AS f, toString(stall_reason) AS why, sum(samples) AS n FROM %s GROUP BY f, why)
		GROUP BY f ORDER BY all DESC, f LIMIT %d`, from, in.q.Top), args, func(rows driver.Rows) error {
		var h Hot
		var reasons [][]any
		if err := rows.Scan(&h.Function, &h.Samples, &reasons); err != nil {
			return err
		}
		for _, x := range reasons {
			h.Reasons = append(h.Reasons, Share{x[0].(string), x[1].(uint64)})
		}
		r.Hot = append(r.Hot, h)
		return nil
	}); err != nil {
		return err
	}
	from, args = in.from("pc_stalls", stalling, "file != ''")
	return in.each(fmt.Sprintf("SELECT toString(file) AS f, line, sum(samples) AS n FROM %s GROUP BY f, line ORDER BY n DESC, f, line LIMIT "+
		"%d", from, in.q.Top), args, func(rows driver.Rows) error {
		var l Line
		if err := rows.Scan(&l.File, &l.Line, &l.Samples); err != nil {
			return err
		}
		r.Lines = append(r.Lines, l)
		return nil
	})
}

// readStalls reads the reasons with most samples, and adds up the samples of all reasons: there are some dozens.
func readStalls(in *reader, r *Report) error {
	from, args := in.from("pc_stalls", stalling)
	return in.each(fmt.Sprintf("SELECT why, kind, n, s.meaning, s.remedy FROM (SELECT toString(stall_reason) AS why, "+
		"toString(any(reason_kind)) AS kind, sum(samples) AS n FROM %s GROUP BY why) AS p "+
		"LEFT JOIN `%s`.stall_reasons AS s ON s.name = p.why ORDER BY n DESC, why", from, in.q.Database),
		args, func(rows driver.Rows) error {
			var s Stall
			if err := rows.Scan(&s.Reason, &s.Kind, &s.Samples, &s.Meaning, &s.Remedy); err != nil {
				return err
			}
			r.Samples += s.Samples
			if len(r.Stalls) < in.q.Top {
				r.Stalls = append(r.Stalls, s)
			}
			return nil
		})
}

func readCopies(in *reader, r *Report) error {
	from, args := in.from("memcpys")
	return in.each("SELECT toString(copy_kind) AS kind, count(), sum(bytes) AS size, sum(duration_ns) FROM "+
		from+" GROUP BY kind ORDER BY size DESC, kind", args, func(rows driver.Rows) error {
		var c Copy
		if err := rows.Scan(&c.Kind, &c.Calls, &c.Bytes, &c.DurationNS); err != nil {
			return err
		}
		r.Copies = append(r.Copies, c)
		return nil
	})
}
