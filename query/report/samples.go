package report

import (
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// stalling leaves out what is not a stall: counters of all or lost samples, the not_issued variants, which count samples of the plain
// reasons once more, and reasons whose names never came, which may be any of these.
const stalling = "reason_kind = 'stall'"

func readSamples(in *reader, r *Report) error {
	if err := readStalls(in, r); err != nil || r.Samples == 0 {
		return err
	}
	from, args := in.from("pc_stalls", stalling)
	if err := in.each(fmt.Sprintf(`SELECT f, max(name), sum(n) AS all, arraySort(x -> (-x.2, x.1), groupArray((why, n))) FROM (
			SELECT toString(function) AS f, max(demangled) AS name, toString(stall_reason) AS why, sum(samples) AS n FROM %s GROUP BY f, why)
		GROUP BY f ORDER BY all DESC, f LIMIT %d`, from, in.q.Top), args, func(rows driver.Rows) error {
		var h Hot
		var reasons [][]any
		if err := rows.Scan(&h.Function, &h.Demangled, &h.Samples, &reasons); err != nil {
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
	if err := readCubinSamples(in, r); err != nil {
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

// readCubinSamples reads which samples of cubins have no line.
func readCubinSamples(in *reader, r *Report) error {
	from, args := in.from("pc_buckets_data", "samples > 0")
	var n uint64
	if err := in.conn.QueryRow(in.ctx, "SELECT count() FROM (SELECT 1 FROM "+from+" LIMIT 1)", args...).Scan(&n); err != nil || n == 0 {
		return err
	}
	r.Cubins = true
	from, args = in.from("pc_stalls", stalling, "build_id != ''", "symbol_status NOT IN ('ok', 'wire')")
	return in.each("SELECT toString(symbol_status) AS why, sum(samples) AS n FROM "+from+" GROUP BY why HAVING n > 0 ORDER BY n DESC, why",
		args, func(rows driver.Rows) error {
			var u Unsymbolized
			if err := rows.Scan(&u.Status, &u.Samples); err != nil {
				return err
			}
			u.Share = part(u.Samples, r.Samples)
			r.Unsymbolized = append(r.Unsymbolized, u)
			return nil
		})
}

// readStalls reads the reasons with most samples, and adds up the samples of all reasons: there are some dozens. Those without a name are
// counted apart.
func readStalls(in *reader, r *Report) error {
	from, args := in.from("pc_stalls", "reason_kind IN ('stall', 'unresolved')")
	return in.each(fmt.Sprintf("SELECT why, kind, n, s.meaning, s.remedy FROM (SELECT toString(stall_reason) AS why, "+
		"toString(any(reason_kind)) AS kind, sum(samples) AS n FROM %s GROUP BY why) AS p "+
		"LEFT JOIN `%s`.stall_reasons AS s ON s.name = p.why ORDER BY n DESC, why", from, in.q.Database),
		args, func(rows driver.Rows) error {
			var s Stall
			if err := rows.Scan(&s.Reason, &s.Kind, &s.Samples, &s.Meaning, &s.Remedy); err != nil {
				return err
			}
			if s.Kind != "stall" {
				r.Unresolved += s.Samples
				return nil
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
