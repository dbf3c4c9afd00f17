package report

import (
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// stalling leaves out what is not a stall: counters of all or lost samples, the not_issued variants, which count samples of the plain
// reasons once more, and reasons whose names never came, which may be any of these.
const stalling = "reason_kind = 'stall'"

// What a row of readSamples' question is about.
const (
	ofReason uint8 = iota + 1
	ofFunction
	ofLine
	ofCause
)

// readSamples reads reasons, functions, lines, and why samples of cubins have no line, in one question: each that asks the view alone reads
// all samples again, and of one session takes longer to plan than to answer. Reasons are some dozens; all of them are added up.
func readSamples(in *reader, r *Report) error {
	from, args := in.from("pc_stalls", "reason_kind IN ('stall', 'unresolved')")
	err := in.each(fmt.Sprintf(`SELECT about, what, at, sort, n, name, reasons, s.meaning, s.remedy FROM (
		SELECT about, what, at, any(kind) AS sort, sum(m) AS n, max(named) AS name,
			arraySort(x -> (-x.2, x.1), groupArrayIf((why, m), about = %[4]d)) AS reasons,
			row_number() OVER (PARTITION BY about ORDER BY n DESC, what, at) AS place
		FROM (
			SELECT multiIf(grouping(cause) = 0, %[6]d, grouping(path) = 0, %[5]d, grouping(f) = 0, %[4]d, %[3]d) AS about,
				multiIf(about = %[6]d, cause, about = %[5]d, path, about = %[4]d, f, why) AS what, line AS at, why, kind,
				sum(samples) AS m, max(demangled) AS named
			FROM (
				SELECT toString(function) AS f, toString(stall_reason) AS why, toString(reason_kind) AS kind, toString(file) AS path, line,
					if(build_id = '' OR symbol_status IN ('ok', 'wire'), '', toString(symbol_status)) AS cause, samples, demangled
				FROM %[1]s)
			GROUP BY GROUPING SETS ((kind, why), (kind, f, why), (kind, path, line), (kind, cause)))
		WHERE about = %[3]d OR (kind = 'stall' AND (what != '' OR about = %[4]d))
		GROUP BY about, what, at) AS p
		LEFT JOIN `+"`%[2]s`"+`.stall_reasons AS s ON s.name = p.what
		WHERE about IN (%[3]d, %[6]d) OR place <= %[7]d ORDER BY about, n DESC, what, at`,
		from, in.q.Database, ofReason, ofFunction, ofLine, ofCause, in.q.Top), args, r.addSamples)
	if err != nil || r.Samples == 0 {
		return err
	}
	return readCubins(in, r)
}

// addSamples adds a row of readSamples. Rows are in the order of what they are about.
func (r *Report) addSamples(rows driver.Rows) error {
	var about uint8
	var what, kind, name, meaning, remedy string
	var at uint32
	var n uint64
	var reasons [][]any
	if err := rows.Scan(&about, &what, &at, &kind, &n, &name, &reasons, &meaning, &remedy); err != nil {
		return err
	}
	switch {
	case about == ofReason && kind != "stall":
		r.Unresolved += n
	case about == ofReason:
		r.Samples += n
		if len(r.Stalls) < r.Query.Top {
			r.Stalls = append(r.Stalls, Stall{Reason: what, Kind: kind, Samples: n, Meaning: meaning, Remedy: remedy})
		}
	case r.Samples == 0: // rows that add up to nothing
	case about == ofFunction:
		h := Hot{Function: what, Demangled: name, Samples: n}
		for _, x := range reasons {
			h.Reasons = append(h.Reasons, Share{x[0].(string), x[1].(uint64)})
		}
		r.Hot = append(r.Hot, h)
	case about == ofLine:
		r.Lines = append(r.Lines, Line{File: what, Line: at, Samples: n})
	case about == ofCause && n > 0:
		r.Unsymbolized = append(r.Unsymbolized, Unsymbolized{Status: what, Samples: n, Share: part(n, r.Samples)})
	}
	return nil
}

// readCubins reads whether samples of cubins are here. Without them, samples without a line are nothing to tell.
func readCubins(in *reader, r *Report) error {
	from, args := in.from("pc_buckets_data", "samples > 0")
	var n uint64
	err := in.conn.QueryRow(in.ctx, "SELECT count() FROM (SELECT 1 FROM "+from+" LIMIT 1)", args...).Scan(&n)
	if r.Cubins = n > 0; !r.Cubins {
		r.Unsymbolized = nil
	}
	return err
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
